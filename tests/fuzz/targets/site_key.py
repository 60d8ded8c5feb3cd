"""Any bytes as what a site keeps of a session: a matrix that maps records, or a DataError that quotes nothing."""

from __future__ import annotations

import json

import numpy as np

from fuzz.oracle import allowing
from masquerade.errors import DataError
from masquerade.protocol import SiteKey
from masquerade.protocol.learn.projection import Projection

NUMBERS = Projection(np.array([[0.5, -1.0]]), np.array([2.0, 0.5]), np.zeros(2), np.ones(2))


def fuzz(data: bytes) -> None:
    with allowing(DataError):
        key = SiteKey.read(data, "site-key.json")
        assert SiteKey.read(key.written(), "site-key.json") == key
        assert key.projection(np.zeros((1, key.columns))).shape == (1, len(key.matrix))


def seeds() -> dict[str, bytes]:
    whole = SiteKey.of("ab" * 32, ("age", "town"), {"town": ("A", "B")}, NUMBERS).written()
    ragged = json.loads(whole)
    ragged["matrix"].append([1.0])
    return {"whole": whole, "ragged": json.dumps(ragged).encode(), "empty": b"{}"}
