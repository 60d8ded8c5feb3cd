"""Read JSON that others wrote into typed structures."""

from __future__ import annotations

from typing import Any

from masquerade.errors import ParameterError, one_line
from masquerade.forms.decoders import json_decoder


def read_json(data: bytes, kind: Any, source: str) -> Any:
    """Decode JSON as one of msgspec's types; ParameterError, which names the source, when it is no such thing."""
    try:
        return json_decoder(kind).decode(data)
    except (ValueError, RecursionError) as error:  # msgspec's errors, and text that is not UTF-8
        raise ParameterError(f"{source}: {one_line(str(error))}") from None
