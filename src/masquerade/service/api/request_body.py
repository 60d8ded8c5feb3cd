"""The body of a request for a table, as the OpenAPI document describes it.

It is read by `service/agree/request.py`, which reports every problem at once. So FastAPI sees only a JSON object, and
this schema says what may be in it; a test compares the two.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Body
from pydantic import AfterValidator, WithJsonSchema

from masquerade.arrangement import ARRANGEMENTS
from masquerade.forms import kinds_of_keys, parameters_of, words_of
from masquerade.methods import requestable_methods
from masquerade.privacy import REQUIREMENTS
from masquerade.service.agree.request import MOST_ATTEMPTS, MOST_COLLUDING, MOST_RATIO, Request
from masquerade.service.canonical import MOST_WHOLE

_TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
_TEXTS = {"type": "array", "items": _TEXT, "maxItems": 1000}
_DECIMAL = {"type": "string", "pattern": r"^[0-9]{1,9}(\.[0-9]{1,9})?$"}


def _decimals(most: int) -> dict[str, Any]:
    return {"anyOf": [{"type": "number", "minimum": 0, "maximum": most}, _DECIMAL]}


_WIDTH = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_WHOLE},
        {"type": "string", "pattern": r"^[1-9][0-9]{0,8}(\.[0-9]{1,9})?$"},
    ]
}
_TYPES: dict[str, dict[str, Any]] = {
    "user": {"type": "string"},
    "purpose": _TEXT,
    "attributes": _TEXTS | {"minItems": 1, "uniqueItems": True},
    "class": _TEXT,
    "duration": _TEXT,
    "event": _TEXT,
    "most_error": _decimals(1),
    "most_ncp": _decimals(1),
    "most_query_error": _decimals(MOST_RATIO),
    "budget": {"type": "integer", "minimum": 0, "maximum": MOST_WHOLE},
    "recipients": _TEXTS,
    "providers": {"type": "object", "additionalProperties": _TEXT, "propertyNames": _TEXT},
    "boundaries": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("max_generalization", "min_generalization"), _TEXTS | {"minItems": 1}),
                **dict.fromkeys(("max_width", "min_width"), _WIDTH),
                "weight": _decimals(MOST_WHOLE),
            },
            "additionalProperties": False,
        },
        "propertyNames": _TEXT,
    },
    "kind": {"enum": [*ARRANGEMENTS]},
    "m": {"type": "integer", "minimum": 0, "maximum": MOST_COLLUDING},
    "parties": _TEXTS | {"uniqueItems": True},
    "normalize": {"enum": ["none", "strip", "casefold"]},
    "deadline": {
        "anyOf": [{"type": "integer", "minimum": 0, "maximum": MOST_WHOLE}, {"type": "string", "format": "date-time"}]
    },
    "attempts": {"type": "integer", "minimum": 1, "maximum": MOST_ATTEMPTS},
    "estimate": {"type": "boolean"},
    "show_progress": {"type": "boolean"},
    "signed": {
        "type": "object",
        "properties": {
            "request": {"type": "object", "description": "the request as it was signed, with its user"},
            "time": {"type": "integer", "minimum": 0, "maximum": MOST_WHOLE, "description": "since 1970, in seconds"},
            "nonce": {"type": "string", "pattern": "^[0-9a-f]{32}$", "description": "for one request alone"},
            "signature": {
                "type": "string",
                "pattern": "^([0-9a-f]{2}){1,100}$",
                "description": "ECDSA on P-256 with SHA-256, in DER, as hexadecimal digits",
            },
        },
        "required": ["request", "time", "nonce", "signature"],
        "additionalProperties": False,
    },
}
_SAID = {
    "user": "who asks; the token says it, and what is written here is not believed",
    "kind": "vertical: different columns about the same people; horizontal: the same columns about different people",
    "signed": "the request as its client signed it with a key of its own, for the parties to verify",
}
_ONLY_IN = kinds_of_keys(Request)
EXAMPLE: dict[str, Any] = {
    "purpose": "research",
    "attributes": ["age", "job", "disease"],
    "class": "income",
    "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 10}],
    "budget": 5000,
    "most_error": 0.3,
}
TOGETHER: dict[str, Any] = {
    "kind": "horizontal",
    "purpose": "research",
    "attributes": ["age", "ward", "disease"],
    "m": 1,
    "privacy": [
        {"model": "k-anonymity", "qid": ["age", "ward"], "k": 10},
        {"model": "l-diversity", "qid": ["age", "ward"], "sensitive": "disease", "l": 3},
    ],
}
SURVIVAL: dict[str, Any] = {
    "kind": "horizontal",
    "purpose": "research",
    "attributes": ["age", "dose"],
    "duration": "months",
    "event": "died",
    "algorithm": {"name": "cox"},
}


def _key(name: str, must_be: str | None) -> dict[str, Any]:
    """Return a key's schema. Null is the same as leaving the key out."""
    said = _SAID.get(name, must_be or "")
    said += f"; only in a {_ONLY_IN[name]} request" if name in _ONLY_IN else ""
    kind = _TYPES[name]
    required = name in ("purpose", "attributes")
    return {"description": said, **(kind if required else {"anyOf": [kind, {"type": "null"}]})}


def _privacy() -> dict[str, Any]:
    """Return one schema for each privacy model, derived from its declaration."""
    entries = [
        {
            "type": "object",
            "title": name,
            "description": model.promise,
            "properties": {
                "model": {"const": name},
                **{word: {"description": each.help, **each.rule.json_schema} for word, each in words_of(model).items()},
            },
            "required": ["model", "qid"],
            "additionalProperties": False,
        }
        for name, model in REQUIREMENTS.plain.items()
    ]
    said = "the requirement that is wished; the parties' policies may make it stricter"
    return {"description": said, "anyOf": [{"type": "array", "items": {"anyOf": entries}}, {"type": "null"}]}


def _algorithm() -> dict[str, Any]:
    """Return one schema for each method, derived from its declaration."""
    methods = [
        {
            "type": "object",
            "title": name,
            "description": f"{arrangement} requests: {method.summary}",
            "properties": {
                "name": {"const": name},
                **{
                    each.name: {"description": each.help, "default": each.default, **each.rule.json_schema}
                    for each in parameters_of(method)
                    if each.name not in fixed
                },
            },
            "additionalProperties": False,
        }
        for arrangement in ARRANGEMENTS
        for method in requestable_methods(arrangement).values()
        for name, fixed in {method.name: {}, **method.short_names}.items()
    ]
    said = "the method, by its name, and its parameters; where it is left out, it is chosen"
    return {"description": said, "anyOf": [*methods, {"type": "null"}]}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Request",
    "description": "What is asked for: attributes, purpose, wished requirement and quality, budget, protocol.",
    "properties": {
        **{
            field.alias or name: _key(field.alias or name, field.description)
            for name, field in Request.model_fields.items()
            if name not in ("privacy", "algorithm")
        },
        "privacy": _privacy(),
        "algorithm": _algorithm(),
    },
    "required": ["purpose", "attributes"],
    "additionalProperties": False,
    "examples": [EXAMPLE, TOGETHER, SURVIVAL],
}
_CHANGE = {key: each for key, each in SCHEMA.items() if key not in ("required", "examples")} | {
    "title": "RequestChange",
    "description": "The keys of a request that change; the others stay.",
    "examples": [{"most_error": 0.4}],
}
_DRAFT = {
    "type": "object",
    "title": "Draft",
    "description": "A request, finished or not: whatever is missing or wrong in it is answered as a problem.",
    "properties": {key: {"description": each["description"]} for key, each in SCHEMA["properties"].items()},
    "examples": [EXAMPLE, TOGETHER, SURVIVAL],
}


def _text_alone(content: dict[str, Any]) -> dict[str, Any]:
    """Refuse lone surrogates: JSON can escape them, but they cannot be stored or sent back."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("holds characters that are no text") from None
    return content


_Content = Annotated[dict[str, Any], AfterValidator(_text_alone)]
DraftBody = Annotated[_Content, WithJsonSchema(_DRAFT), Body()]
RequestBody = Annotated[_Content, WithJsonSchema(SCHEMA), Body()]
RequestChange = Annotated[_Content, WithJsonSchema(_CHANGE)]
