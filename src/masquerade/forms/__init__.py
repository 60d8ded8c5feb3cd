"""Read external input (job files, requests, policies, settings), reporting every problem at once."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
