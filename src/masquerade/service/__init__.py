"""The service around mashups: offers, negotiation, contracts, storage, and the records that are kept of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
