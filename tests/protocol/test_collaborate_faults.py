"""A provider that sends what does not fit ends the collaboration with its name, and nothing is released."""

from __future__ import annotations

from typing import Any

import pytest

from masquerade.errors import PeerBrokeProtocol
from masquerade.net.memory import run_together
from masquerade.net.script import Message, Send, kind_of
from masquerade.protocol.collaborate.messages import Records, Rows, Size, Values
from masquerade.protocol.collaborate.provider import provider
from masquerade.protocol.collaborate.secret_counts import Alone
from masquerade.protocol.collaborate.shared_bits import (
    Delivery,
    Hello,
    Masked,
    MaskedSum,
    Order,
    Setup,
    Share,
)
from masquerade.protocol.collaborate.third_party import third_party
from masquerade.protocol.party import ASSEMBLER
from protocol.test_collaborate import SCHEMA, contract_of, requirement_of
from protocol.test_collaborate_leakage import dealt

SHORT = [
    *((Hello, "nonce"), (Hello, "key"), (Setup, "seed"), (Setup, "transfers"), (Order, "columns")),
    *((Delivery, "corrections"), (Masked, "data"), (Share, "data"), (MaskedSum, "data"), (Rows, "table")),
]


def scripts(third: str = "secure", l: int = 2) -> dict[str, Any]:  # noqa: E741 # the papers' name
    tables = dealt((150, 20, 20, 20))
    contract = contract_of(requirement_of(4, l), 1, tuple(tables), third_party=third)
    made: dict[str, Any] = {name: provider(name, contract, table) for name, table in tables.items()}
    made[ASSEMBLER] = third_party(contract, SCHEMA)
    return made


def with_one(kind: type[Message], made: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Let burgh's messages of a kind be others than they should be."""

    def tamper(message: Message) -> Message:
        if not isinstance(message, kind):
            return message
        known = {name: getattr(message, name) for name in message.__struct_fields__}
        changed = {name: change(known[name]) for name, change in fields.items()}
        return kind(**{**known, **changed})

    made["burgh"] = tampering(made["burgh"], tamper)
    return made


def tampering(script: Any, tamper: Any) -> Any:
    """A provider that tampers with what it sends."""
    heard = None
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        heard = yield Send(move.peers, tamper(move.message)) if isinstance(move, Send) else move


@pytest.mark.parametrize(
    ("kind", "field"), SHORT, ids=lambda each: each if isinstance(each, str) else kind_of(each)
)
def test_a_short_message_is_named(kind: type[Message], field: str) -> None:
    with pytest.raises(PeerBrokeProtocol) as caught:
        run_together(with_one(kind, scripts(), **{field: lambda data: data[:-1]}))
    assert caught.value.peer == "burgh"


def test_nonsense_about_itself_is_named() -> None:
    for kind, fields in (
        (Alone, {"bits": lambda data: data + b"\0"}),
        (Size, {"bits": lambda _: -1}),
        (Values, {"values": lambda _: ()}),
        (Values, {"values": lambda values: ((("two", "texts"),),)}),
        (Rows, {"losses": lambda _: {}}),
    ):
        with pytest.raises(PeerBrokeProtocol) as caught:
            run_together(with_one(kind, scripts(), **fields))  # type: ignore[arg-type]
        assert caught.value.peer == "burgh", kind


def test_records_that_cannot_be_read_are_named() -> None:
    with pytest.raises(PeerBrokeProtocol, match="cannot be read") as caught:
        run_together(with_one(Records, scripts("trusted"), table=lambda data: data[: len(data) // 2]))
    assert caught.value.peer == "burgh"
