"""Write a release's figures as JSON, which supports neither numpy types nor infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def as_json(content: Mapping[str, Any]) -> str:
    """Return one JSON object in ASCII; numpy numbers become plain numbers, infinities become null."""
    return json.dumps(_plain(content), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
