"""Attack: to find out another party's classes by searching, where few classes are possible.

A digest of the classes, under whatever key both parties know, can be searched: all vectors of classes are tried until
one has the digest. And a party that brought one wrong class on purpose used to be sent everybody's classes, to count
the differences. Now every two parties learn one bit: equal, or not.
"""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.crypto import hash_texts
from masquerade.data import Coded
from masquerade.errors import DataError
from masquerade.net.memory import SentMessage, Wire, run_together
from masquerade.protocol import ASSEMBLER, Assembly, Contract
from masquerade.protocol.assembling import assemble
from masquerade.protocol.common_records import _digest
from protocol.party_scripts import party_script
from protocol.test_mashup import SCHEMA, contract_of

PEOPLE = 8  # two classes: 256 vectors
SECRET = "YNNYYNYN"
WRONG = "YNNYYNYY"
IDS = [str(row).encode() for row in range(PEOPLE)]
HOLDERS = {"Sex": "bank", "Job": "loans"}


def session(classes: dict[str, str]) -> tuple[Contract, dict[str, Any]]:
    holders = {name: holder for name, holder in {**HOLDERS, "Salary": "tax"}.items() if holder in classes}
    contract = contract_of(mq.KAnonymity(["Sex", "Job"], k=2), holders, argmax="plain")
    scripts = {name: party_script(name, contract, held(classes[name]), IDS) for name in contract.parties}
    return contract, scripts


def held(classes: str) -> mq.Table:
    columns = {"Sex": ["Male", "Female"] * 4, "Job": ["Janitor"] * PEOPLE, "Salary": range(PEOPLE)}
    return mq.Table(pa.table({**{n: pa.array(c) for n, c in columns.items()}, "Class": list(classes)}), SCHEMA)


def heard_after_alignment(wire: Wire, party: str) -> list[SentMessage]:
    """All but the alignment's lists and its one test with each peer."""
    heard = [
        each for each in wire.seen_by(party) if each.kind not in ("list-size", "sizes-heard", "blinded", "positions")
    ]
    peers = {each.sender for each in heard} - {ASSEMBLER}
    return heard[2 * len(peers) :]


def digest_of(classes: str) -> bytes:
    labels = tuple(sorted(set(classes)))
    return _digest(Coded("Class", np.array([labels.index(each) for each in classes], np.int32), labels))


@pytest.mark.parametrize("mine", [SECRET, WRONG], ids=["equal", "one differs"])
def test_no_vector_of_classes_fits_what_the_bank_hears(mine: str) -> None:
    """The bank tries all 256, by every text and point that it can make of them without the other's secret."""
    contract, scripts = session({"bank": mine, "loans": SECRET})
    scripts[ASSEMBLER] = assemble(Assembly(contract))
    wire = Wire()
    with nullcontext() if mine == SECRET else pytest.raises(DataError, match="other classes than"):
        run_together(scripts, wire)
    heard = heard_after_alignment(wire, "bank")
    assert [each.kind for each in heard[:2]] == ["equality-share", "equality-proof"]
    seen = b"".join(each.data for each in heard)
    for guess in product("YN", repeat=PEOPLE):
        digest = digest_of("".join(guess))
        texts = [digest, contract.hash + digest, digest + contract.hash]
        tried = [*texts, *(hashlib.sha256(text).digest() for text in texts)]
        tried += [hash_texts([text], b"same classes\0" + contract.hash + b"\x000 1").tobytes() for text in texts]
        assert not any(text in seen for text in tried)


def test_the_same_classes_look_different_each_time() -> None:
    """Nothing of one session can be compared with another: the secrets are fresh."""
    shares = set()
    for _ in range(4):
        contract, scripts = session({"bank": SECRET, "loans": SECRET})
        wire = Wire()
        run_together({**scripts, ASSEMBLER: assemble(Assembly(contract))}, wire)
        shares.add(heard_after_alignment(wire, "bank")[0].data)
    assert len(shares) == 4


def test_a_wrong_class_brings_nobodys_classes_in() -> None:
    """Neither the classes nor how many of them differ, to nobody; and every party knows whom to talk to."""
    contract, scripts = session({"bank": WRONG, "loans": SECRET, "tax": SECRET})
    wire, ended = Wire(), dict[str, str]()

    def noting(name: str) -> Any:
        try:
            return (yield from scripts[name])
        except DataError as error:
            ended[name] = str(error)

    run_together({name: noting(name) for name in contract.parties}, wire)
    words = "for some of the 8 common records; agree on them, or let one party share its class"
    assert ended == {
        "bank": f"class Class: bank has other classes than loans, tax {words}",
        "loans": f"class Class: loans has other classes than bank {words}",
        "tax": f"class Class: tax has other classes than bank {words}",
    }
    for party in contract.parties:
        kinds = sorted(each.kind for each in heard_after_alignment(wire, party))
        assert kinds == ["equality-proof", "equality-proof", "equality-share", "equality-share"]
