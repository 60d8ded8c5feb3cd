"""The ways in which parties may find their common records, as a contract names them (protocol/align/align.py)."""

from __future__ import annotations

BY_SIZE = "auto"  # the curve where a list is short, pseudo-random functions where all are long
CURVE = "curve"
OPRF = "oprf"
WAYS = (BY_SIZE, CURVE, OPRF)
