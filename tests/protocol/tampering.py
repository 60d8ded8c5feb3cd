"""Parties that follow their script but for what they send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from masquerade.net import Message, Script, Send, kind_of


def tampering(script: Script[Any], tamper: Callable[[Message], Message]) -> Script[Any]:
    """A party of whose every message something else is made."""
    heard: Any = None
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        heard = yield Send(move.peers, tamper(move.message)) if isinstance(move, Send) else move


def changing(script: Script[Any], kind: str, **changes: Callable[[Any], Any]) -> Script[Any]:
    """A party that changes fields of its messages of one kind."""

    def changed(message: Message) -> Message:
        if kind_of(message) != kind:
            return message
        fields = {field: change(getattr(message, field)) for field, change in changes.items()}
        return msgspec.structs.replace(message, **fields)

    return tampering(script, changed)


def cut_short(script: Script[Any], kind: str) -> Script[Any]:
    """A party whose messages of one kind lack their last byte."""
    return tampering(script, lambda message: _shorter(message) if kind_of(message) == kind else message)


def _shorter(message: Message) -> Message:
    for field in reversed(message.__struct_fields__):
        value = getattr(message, field)
        if isinstance(value, bytes) and value:
            return msgspec.structs.replace(message, **{field: value[:-1]})
    raise AssertionError("nothing to cut")
