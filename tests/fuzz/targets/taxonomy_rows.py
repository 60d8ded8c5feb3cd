"""Any bytes as a taxonomy in rows of leaf;parent;…;root: a taxonomy for each kind of attribute, or a TaxonomyError."""

from __future__ import annotations

from fuzz.oracle import allowing, scratch
from masquerade.data import read_taxonomy
from masquerade.errors import TaxonomyError

PATH = scratch() / "taxonomy.csv"


def fuzz(data: bytes) -> None:
    PATH.write_bytes(data)
    for kind in ("categorical", "continuous", "date"):
        with allowing(TaxonomyError):
            read_taxonomy(PATH, kind)
