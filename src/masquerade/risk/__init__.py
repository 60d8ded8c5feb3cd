"""What an attacker could do with a table: which columns identify people, and which are safe to publish together."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
