"""The attack: leave a session once the peer has shown something, so that it was never released, and ask for the next.

A bank that leaves after the first round has seen how the clinic's people are divided by one of its attributes. If that
were in no ledger, it could collect the clinic's columns one session at a time, or play with another k. The clinic is an
honest node; the bank leaves when it has what it wants, and its policy allows everything.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import NotAllowed
from masquerade.progress import Stage
from masquerade.service import Ledger
from masquerade.service.agree.terms import Refusal
from masquerade.service.node.session import PartySession
from service.party_nodes import Folder, World, run, wish, world

TDS: dict[str, Any] = {"attributes": ["job", "salary", "age"], "class": "income", "algorithm": {"name": "tds"}}
DKA: dict[str, Any] = {"attributes": ["job", "town"], "class": None, "algorithm": {"name": "dka-datafly"}}
K = "k-anonymity"
FIRST = {
    "tds": TDS | {"privacy": [{"model": K, "qid": ["job", "age"], "k": 4}]},
    "dka-datafly": DKA | {"privacy": [{"model": K, "qid": ["job", "town"], "k": 6}]},
}
NEXT = {
    "tds": [
        TDS | {"attributes": ["job", "salary", "town"], "privacy": [{"model": K, "qid": ["job", "town"], "k": 4}]},
        TDS | {"privacy": [{"model": K, "qid": ["job", "age"], "k": 5}]},
    ],
    "dka-datafly": [DKA | {"privacy": [{"model": K, "qid": ["job", "town"], "k": 7}]}],
}
SHOWN = {"tds": "instruct", "dka-datafly": "dka-chi"}  # by which message the bank learns of the clinic's people


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write_conf("bank", allow_rerelease=True)
    return folder


class Leaves:
    """Lets the bank leave its sessions when the second round begins, or instead of handing in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stays = False
        on_stage = PartySession._on_stage

        def leaving(session: PartySession, stage: Stage) -> None:
            over = stage.round > 1 or stage.name == "handing in"
            if session._settings.name == "bank" and over and not self.stays:
                raise NotAllowed("has seen enough")
            on_stage(session, stage)

        monkeypatch.setattr(PartySession, "_on_stage", leaving)


async def broken_off(here: World, asked: dict[str, Any]) -> None:
    """A session that the bank leaves."""
    contract = await here.coordinator.signed(wish(**asked))
    async with here.coordinator.together(contract):
        ends = [await here.coordinator.ended(party, contract) for party in contract.parties]
    assert {end.state for end in ends} == {"failed"}


def lines(folder: Folder, party: str) -> int:
    return len(Ledger.load(folder.state(party) / "ledger.jsonl").records)


def heard_by_the_bank(folder: Folder, kind: str) -> int:
    """In how many sessions the bank has been shown something."""
    log = [json.loads(line) for line in (folder.state("bank") / "audit.jsonl").read_text().splitlines()]
    heard = [each["fields"] for each in log if each["event"] == "message"]
    shown = [each for each in heard if (each["direction"], each["kind"]) == ("received", kind)]
    return len({each["session"] for each in shown})


@pytest.mark.parametrize("method", ["tds", "dka-datafly"])
def test_what_was_shown_counts_as_released(folder: Folder, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    bank = Leaves(monkeypatch)

    async def part() -> None:
        async with world(folder) as here:
            await broken_off(here, FIRST[method])
            assert heard_by_the_bank(folder, SHOWN[method]) == 1
            assert lines(folder, "clinic") == 1
            for other in NEXT[method]:  # the next column, another k
                refused = await here.coordinator.offer("clinic", wish(**other))
                assert isinstance(refused, Refusal)
                assert any("a second release with" in reason for reason in refused.reasons)
            await broken_off(here, FIRST[method])  # another attempt at the same is the same release
            assert lines(folder, "clinic") == 1
            bank.stays = True
            release = await here.coordinator.release(await here.coordinator.signed(wish(**FIRST[method])))
            assert release.rows
            assert lines(folder, "clinic") == 1

    run(part())


def test_the_line_is_on_the_disk_before_anything_is_shown(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clinic whose ledger cannot be written shows nothing, not even a class or a bid."""
    Leaves(monkeypatch)

    async def part() -> None:
        async with world(folder) as here:
            contract = await here.coordinator.signed(wish(**FIRST["tds"]))
            async with here.coordinator.listening() as listener:
                addresses = await here.coordinator.prepare_all(contract)
                (folder.state("clinic") / "ledger.head").mkdir()  # it can be neither read nor written
                await here.coordinator.start_all(contract, listener, addresses)
                async with here.coordinator.connected(contract, listener, addresses):
                    end = await here.coordinator.ended("clinic", contract)
            assert (end.state, end.kind) == ("failed", "NotAllowed")

    run(part())
    assert heard_by_the_bank(folder, SHOWN["tds"]) == 0
