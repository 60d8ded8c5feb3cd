"""The demonstration: a coordinator and three parties on this machine, with generated data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
