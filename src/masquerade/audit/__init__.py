"""Append-only files of hash-chained lines: the audit log, which is also signed, and a party's ledger."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
