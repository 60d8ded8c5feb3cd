"""A party's data: tables, columns encoded as ranks, and the taxonomies that give the ranks their meaning."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
