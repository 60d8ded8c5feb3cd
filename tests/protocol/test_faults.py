"""A peer that sends nonsense ends the session with its name: never another exception, never a wrong release."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.errors import PeerBrokeProtocol, PeerError
from masquerade.net import Message, kind_of
from masquerade.net.memory import Deadlock, run_together
from masquerade.net.script import decode, encode
from masquerade.protocol import ASSEMBLER
from masquerade.protocol.tds.party import Instruct
from papers.paper_tables import loan_table
from protocol.party_scripts import session_scripts
from protocol.tampering import changing, tampering
from protocol.test_mashup import LOANS, REQUIREMENT, contract_of


def scripts(argmax: str) -> dict[str, Any]:
    return session_scripts(contract_of(REQUIREMENT, LOANS, argmax=argmax), loan_table())


def with_one_message(script: Any, at: int, tamper: Callable[[Message], Message]) -> Any:
    """A party whose message number `at` is another than it should be."""
    sent = count()
    return tampering(script, lambda message: tamper(message) if next(sent) == at else message)


@settings(max_examples=examples(150), deadline=None)
@given(at=st.integers(0, 24), data=st.data())
def test_any_field_of_any_message_may_be_wrong(at: int, data: st.DataObject) -> None:
    any_field_may_be_wrong("plain", "bank", at, data)


@settings(max_examples=examples(60), deadline=None)
@given(who=st.sampled_from(["bank", "loans"]), at=st.integers(3, 36), data=st.data())
def test_any_field_of_any_message_may_be_wrong_where_scores_are_hidden(who: str, at: int, data: st.DataObject) -> None:
    any_field_may_be_wrong("secure", who, at, data)


def any_field_may_be_wrong(argmax: str, who: str, at: int, data: st.DataObject) -> None:
    def tamper(message: Message) -> Message:
        fields = [name for name in message.__struct_fields__ if name != "seconds"]
        name = data.draw(st.sampled_from(fields))
        value = getattr(message, name)
        wrong: st.SearchStrategy[Any] = st.just(value)
        if isinstance(value, bytes):
            wrong = st.binary(max_size=40) | st.just(value[:-1]) | st.just(value + b"\0") | flipped(value)
        elif isinstance(value, int):
            wrong = st.integers(-(2**40), 2**40)
        changed = type(message)(
            **{field: getattr(message, field) for field in message.__struct_fields__} | {name: data.draw(wrong)}
        )
        return decode(encode(changed), [type(message)])

    made = scripts(argmax)
    made[who] = with_one_message(made[who], at, tamper)
    try:
        results = run_together(made)
    except (PeerError, mq.AnswerIsNo, mq.BadInput):
        return
    except Deadlock:
        return  # over a network, silence ends the session
    release = results[ASSEMBLER]
    # Whatever came out satisfies the requirement; untouched cells give the release of one table.
    assert all(verdict.holds for verdict in release.verdicts)
    assert release.table.num_rows <= 34


def flipped(value: bytes) -> st.SearchStrategy[bytes]:
    if not value:
        return st.just(b"\1")
    return st.integers(0, len(value) * 8 - 1).map(
        lambda bit: bytes(b ^ (1 << bit % 8 if at == bit // 8 else 0) for at, b in enumerate(value))
    )


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("position", 7, "which there is not"),
        ("position", 0, "does not hold"),
        ("value", 9, "not in the cut"),
        ("n_children", 0, "sends 34 records to 0 children"),
        ("n_children", 1, "broken instruction"),
        ("n_children", 35, "sends 34 records to 35 children"),
        ("children", b"\0", "broken instruction"),
    ],
)
@pytest.mark.parametrize("argmax", ["secure", "plain"])
def test_wrong_instructions_are_named(argmax: str, field: str, value: object, problem: str) -> None:
    made = scripts(argmax)
    made["bank"] = changing(made["bank"], kind_of(Instruct), **{field: lambda _: value})
    with pytest.raises(PeerBrokeProtocol, match=problem) as caught:
        run_together(made)
    assert caught.value.peer == "bank"
