"""What must hold: one file a requirement, each with its check on the counts of a group."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
