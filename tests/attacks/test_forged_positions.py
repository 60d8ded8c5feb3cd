"""Attack: whoever answers which records are common names more of them, to bring a peer's whole table in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import ASSEMBLER, Assembly
from masquerade.protocol.align.align import EqualityProof, EqualityShare, align, who_differs
from masquerade.protocol.align.curve import Positions
from masquerade.protocol.assembling import assemble
from papers.paper_tables import loan_table
from protocol.party_scripts import party_script
from protocol.tampering import changing, tampering
from protocol.test_mashup import REQUIREMENT, contract_of

ALIGNMENT = {"list-size", "blinded", "positions", "equality-share", "equality-proof"}
KNOWN = [b"person %d" % number for number in range(34)]


def answering(script: Script[Any], owner: int, positions: Callable[[Any], Any]) -> Script[Any]:
    """A party that changes the answers about one owner's list which it gives or passes on."""

    def forged(message: Message) -> Message:
        if not isinstance(message, Positions) or message.owner != owner:
            return message
        told = np.frombuffer(message.positions, "<u4")
        return Positions(owner, np.asarray(positions(told), "<u4").tobytes())

    try:
        return (yield from tampering(script, forged))
    except PeerBrokeProtocol:  # the attacker knows best why the others disagree
        return None


def everybody(size: int) -> Callable[[Any], Any]:
    """All positions of a list, those that really are common first."""
    return lambda told: [*told, *sorted({*range(size)} - {*told.tolist()})]


@pytest.mark.parametrize(
    "holders",
    [{"Sex": "bank", "Job": "bank", "Salary": "loans"}, {"Sex": "bank", "Job": "clinic", "Salary": "loans"}],
    ids=["two parties", "three parties"],
)
def test_a_comparer_that_claims_a_whole_table_is_named_before_a_record_is_used(holders: dict[str, str]) -> None:
    contract = contract_of(REQUIREMENT, holders)
    comparer = contract.parties[-1]
    table = loan_table()
    few = table.take(np.arange(3))
    scripts: dict[str, Any] = {name: party_script(name, contract, table, KNOWN) for name in contract.parties[:-1]}
    scripts[comparer] = answering(
        party_script(comparer, contract, few, KNOWN[:3]), contract.parties.index("bank"), everybody(len(table))
    )
    wire = Wire()
    with pytest.raises(PeerBrokeProtocol, match="cannot account for the people") as caught:
        run_together({**scripts, ASSEMBLER: assemble(Assembly(contract))}, wire)
    assert caught.value.peer == comparer
    assert {heard.kind for heard in wire.heard} - {"sizes-heard"} == ALIGNMENT


def aligning(*lists: list[bytes]) -> dict[str, Script[Any]]:
    names = [f"p{number}" for number in range(len(lists))]
    return {name: align(me, names, lists[me], b"session") for me, name in enumerate(names)}


def refused(scripts: dict[str, Script[Any]]) -> str:
    """The name of whom the session ends with."""
    with pytest.raises(PeerBrokeProtocol, match="cannot account for the people") as caught:
        run_together(scripts)
    return caught.value.peer


def test_one_person_more_is_one_too_many() -> None:
    scripts = aligning(KNOWN, KNOWN[:30])
    scripts["p1"] = answering(scripts["p1"], 0, lambda told: everybody(34)(told)[:31])
    assert refused(scripts) == "p1"


def test_other_people_in_place_of_the_common_ones_are_refused() -> None:
    scripts = aligning(KNOWN, KNOWN[:10])
    scripts["p1"] = answering(scripts["p1"], 0, lambda told: everybody(34)(told)[10:20])
    assert refused(scripts) == "p1"


def test_a_relay_that_changes_the_answer_to_the_comparer_is_named() -> None:
    """It undoes its shuffle on the way back, and could name anybody."""
    scripts = aligning(KNOWN[:3], KNOWN)
    scripts["p0"] = answering(scripts["p0"], 1, everybody(34))
    assert refused(scripts) == "p0"


@pytest.mark.parametrize("owner", [0, 2])
def test_a_relay_among_three_ends_the_session(owner: int) -> None:
    """Who did it cannot be told from what each party sees."""
    scripts = aligning(KNOWN, KNOWN[:4], KNOWN)
    scripts["p1"] = answering(scripts["p1"], owner, everybody(34))
    refused(scripts)


def test_two_honest_parties_cannot_be_given_each_others_strangers() -> None:
    """The comparer says of people whom nobody else knows that they are one person, at two parties at once."""
    scripts = aligning([b"a", b"x"], [b"a", b"y"], [b"a"])
    forger = answering(scripts["p2"], 0, everybody(2))
    scripts["p2"] = answering(forger, 1, everybody(2))
    assert refused(scripts) in {"p1", "p2"}


def test_a_party_that_lists_a_person_twice_is_named() -> None:
    """Otherwise the comparer would seem to have answered falsely."""
    scripts = aligning(KNOWN, KNOWN)
    scripts["p0"] = changing(scripts["p0"], "blinded", points=lambda points: points[:32] + points[:-32])
    with pytest.raises(PeerBrokeProtocol, match="has a point on its list twice") as caught:
        run_together(scripts)
    assert caught.value.peer == "p0"


def sending_back() -> Script[None]:
    """A peer that knows nothing, and answers with what it hears."""
    for kind in (EqualityShare, EqualityProof):
        yield Send(("p0",), (yield Receive("p0", kind)))


def test_a_proof_sent_back_is_none() -> None:
    found = run_together({"p0": who_differs(0, ["p0", "p1"], b"secret", b"session"), "p1": sending_back()})
    assert found["p0"] == ("p1",)


def passing_on() -> Script[None]:
    """A peer that knows nothing, and lets two others who share a secret answer each other through it."""
    for kind in (EqualityShare, EqualityProof):
        said = []
        for peer in ("p0", "p1"):
            said.append((yield Receive(peer, kind)))
        yield Send(("p1",), said[0])
        yield Send(("p0",), said[1])


def test_nobody_can_answer_for_another() -> None:
    names = ["p0", "p1", "p2"]
    scripts: dict[str, Script[Any]] = {
        name: who_differs(me, names, b"secret", b"session") for me, name in enumerate(names[:2])
    }
    found = run_together({**scripts, "p2": passing_on()})
    assert found["p0"] == found["p1"] == ("p2",)
