"""Translate pydantic's errors into this project's wording: "must be …"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WHOLE, _NUMBER = "must be a whole number", "must be a number"
_MUST_BE: Mapping[str, str] = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "int_parsing": _WHOLE,
    "int_parsing_size": "must be a smaller number",
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "string_unicode": "must be a text; it holds characters that are none",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}


def must_be(fault: Mapping[str, Any]) -> str:
    """Describe what is allowed, for a pydantic error. Never include the value: it may be a password."""
    context = fault.get("ctx") or {}
    if fault["type"] == "value_error":  # the validator's own message
        return str(context.get("error", fault["msg"])).removesuffix(".")
    words = _MUST_BE.get(fault["type"])
    return words.format(**context) if words is not None else str(fault["msg"])
