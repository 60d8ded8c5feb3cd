"""Figures of a release as JSON, which knows neither numpy nor infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def as_json(content: Mapping[str, Any]) -> str:
    """One JSON object in ASCII; numbers of numpy are numbers, and what JSON cannot say (infinities) is null."""
    return json.dumps(_plain(content), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
