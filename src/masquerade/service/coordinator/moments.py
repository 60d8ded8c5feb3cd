"""Moments as people and programs are told them."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(moment: datetime) -> str:
    """A moment in UTC, as ISO 8601 writes it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
