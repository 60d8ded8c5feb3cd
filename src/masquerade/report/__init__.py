"""The human-readable report on a release: charts, and one HTML file that needs no network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
