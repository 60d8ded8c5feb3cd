"""Decoders of msgspec's types: each is made once, and while it is made nothing else is.

msgspec works out what a type allows when the type is first decoded, and lets other threads use the half of it that is
done: a correct message is then refused, or the process crashes. With a decoder that exists already nothing is left to
work out. So all that is decoded into a type is decoded by what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, overload

import msgspec

Kind = TypeVar("Kind")

_making = Lock()
_of_json: dict[Any, msgspec.json.Decoder[Any]] = {}
_of_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


@overload
def json_decoder(kind: type[Kind]) -> msgspec.json.Decoder[Kind]: ...


@overload
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...


def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of JSON into a type or a union of types."""
    return _of_json.get(kind) or _made(_of_json, kind, msgspec.json.Decoder)


@overload
def msgpack_decoder(kind: type[Kind]) -> msgspec.msgpack.Decoder[Kind]: ...


@overload
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]: ...


def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return the decoder of MessagePack into a type or a union of types."""
    return _of_msgpack.get(kind) or _made(_of_msgpack, kind, msgspec.msgpack.Decoder)


def convert(content: Any, kind: type[Kind]) -> Kind:
    """Convert what was decoded already, as `msgspec.convert` does."""
    json_decoder(kind)  # the two work out the same of a type
    return msgspec.convert(content, kind)


def _made(known: dict[Any, Any], kind: Any, make: Callable[[Any], Any]) -> Any:
    with _making:
        if kind not in known:
            known[kind] = make(kind)
        return known[kind]
