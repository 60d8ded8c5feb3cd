"""The attack: a coordinator has the parties sign a roll-up, and gets more from them than the earlier release.

A contract for a roll-up is signed although the tables were released before, because no protocol runs by it. So nothing
may run by it, and nothing may be signed as a roll-up that does not follow from what this party has released.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from masquerade.service import Ledger, SignedContract
from masquerade.service.agree.terms import Deal, Refusal
from service.party_nodes import Folder, run, world


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def coarser(first: SignedContract, **changes: Any) -> Deal:
    """A deal for a roll-up of the first contract's release: the same with a larger k."""
    terms = first.deal.terms
    parts = tuple({**each, "k": 2 * each["k"]} for each in terms.requirements)
    wanted = msgspec.structs.replace(terms, requirements=parts, source=terms.hash.hex())
    return msgspec.structs.replace(first.deal, terms=msgspec.structs.replace(wanted, **changes))


def in_the_ledger(folder: Folder, party: str) -> list[str | None]:
    return [each.terms.source for each in Ledger.load(folder.state(party) / "ledger.jsonl").records]


def test_no_protocol_runs_by_a_contract_for_a_roll_up(folder: Folder) -> None:
    """Parties sign it, because it shows nothing; run, it would show other groups of the same people."""

    async def attack() -> None:
        async with world(folder) as house:
            coordinator = house.coordinator
            first = await coordinator.signed()
            await coordinator.release(first)
            contract = await coordinator.sign(coordinator.draw_up(coarser(first)))
            for party in contract.parties:
                said = await coordinator.prepare(party, contract)
                assert isinstance(said, Refusal)
                reason = "the contract is for a roll-up of an earlier release; no protocol runs by it"
                assert said.reasons == (reason,)
                assert in_the_ledger(folder, party) == [None, first.deal.terms.hash.hex()]

    run(attack())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source": "0" * 64}, "the release that is to be rolled up was not made from this table"),
        ({"normalize": "casefold"}, "does not follow from the earlier release alone"),
        ({"source": None}, "could be combined with it"),
    ],
    ids=["of nothing", "of other people", "without saying so"],
)
def test_a_roll_up_that_is_none_is_not_signed(folder: Folder, changes: dict[str, Any], reason: str) -> None:
    async def attack() -> None:
        async with world(folder) as house:
            coordinator = house.coordinator
            first = await coordinator.signed()
            await coordinator.release(first)
            contract = coordinator.draw_up(coarser(first, **changes))
            for party in contract.parties:
                said = await coordinator.ask_signature(party, contract)
                assert isinstance(said, Refusal)
                assert any(reason in each for each in said.reasons)
                assert in_the_ledger(folder, party) == [None]

    run(attack())
