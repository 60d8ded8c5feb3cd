"""Masked fields for which there is a test of their own, by name."""

from __future__ import annotations

COINS = "coins alone"
ALIGNMENT = "alignment"
COMMITMENTS = "snapshot commitments"

WORLDS = {
    COINS: "test_masked_fields.py: made of coins alone, they are the same with other data",
    ALIGNMENT: "test_masked_alignment.py",
    COMMITMENTS: "tests/service/test_snapshot.py",
}
