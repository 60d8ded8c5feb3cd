"""The attack: say that a release was declined, keep it, and ask for the next one with another method.

Groups of two releases can be intersected, so a ledger lets no second one follow that differs from the first. What its
client declines does not count, on the coordinator's word: it has assembled the table and may well keep it, give it to
somebody, or say the same of a release that it published. What bounds this is the policy's `max_declined`, which each
party counts by itself. Here the coordinator declines everything, and both nodes are honest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import NotAllowed, NotFound
from masquerade.service import Ledger, Request, SignedContract
from masquerade.service.agree.terms import Offer, Refusal
from masquerade.service.wire.control import Noted
from service.party_nodes import Folder, World, run, wish, world

WANTED: dict[str, Any] = {
    "attributes": ["job", "salary", "age"],
    "class": "income",
    "privacy": [{"model": "k-anonymity", "qid": ["job", "age"], "k": 4}],
}
ALLOWED = 1  # may be declined, by either policy


def asked(score: str) -> Request:
    return wish(**WANTED, algorithm={"name": "tds", "score": score})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    for party in ("bank", "clinic"):
        folder.write_conf(party, allow_rerelease=False, max_declined=ALLOWED)
    return folder


async def decline(here: World, party: str, contract: str, who: str | None = None) -> None:
    path = f"/v1/sessions/{contract}/decline"
    if who is None:
        await here.coordinator.https[party].call("POST", path, answer=Noted)
    else:
        async with here.http(who, party) as link:
            await link.call("POST", path, answer=Noted)


async def assembled_and_declined(here: World, score: str) -> SignedContract:
    """A session to its end, of which the coordinator says at once that its client does not want it."""
    contract = await here.coordinator.signed(asked(score))
    release = await here.coordinator.release(contract)
    assert release.rows, "the coordinator has it"
    for party in contract.parties:
        await decline(here, party, contract.hash.hex())
    return contract


def ledger(folder: Folder, party: str) -> Ledger:
    return Ledger.load(folder.state(party) / "ledger.jsonl")


def test_who_declines_everything_gets_no_more_than_the_policys_number_allows(folder: Folder) -> None:
    async def part() -> None:
        async with world(folder) as here:
            for score in ("gain-ratio", "info-gain"):
                offered = await here.coordinator.offer("clinic", asked(score))
                assert isinstance(offered, Offer)
                await assembled_and_declined(here, score)
            for party in ("bank", "clinic"):
                for score in ("discernibility", "gain-ratio"):  # a further one, and the first once more
                    refused = await here.coordinator.offer(party, asked(score))
                    assert isinstance(refused, Refusal)
                    assert any("a second release with" in reason for reason in refused.reasons)
                assert len(ledger(folder, party).declined) == ALLOWED + 1
            again = await here.coordinator.offer("clinic", asked("info-gain"))
            assert isinstance(again, Offer), "what was declined last is the one that counts as released"

    run(part())


def test_another_snapshot_waits_as_long_as_after_a_release(folder: Folder) -> None:
    """Otherwise a table that changes would give as many again with each change."""

    async def part() -> None:
        async with world(folder) as here:
            await assembled_and_declined(here, "gain-ratio")
            folder.write_tables(salary=31)
            refused = await here.coordinator.offer("bank", asked("gain-ratio"))
            assert isinstance(refused, Refusal)
            assert any("another snapshot of" in reason for reason in refused.reasons)

    folder.write_conf("bank", allow_rerelease=False, max_declined=ALLOWED, least_snapshot_interval=604_800)
    run(part())


def test_declines_are_in_the_audit_log_and_only_the_coordinator_can_tell(folder: Folder) -> None:
    """A release that turns up somewhere, and was declined by this log, convicts the coordinator."""

    async def part() -> None:
        async with world(folder) as here:
            contract = await here.coordinator.signed(asked("gain-ratio"))
            name = contract.hash.hex()
            with pytest.raises(NotFound):  # nothing was shown yet
                await decline(here, "clinic", name)
            await here.coordinator.release(contract)
            with pytest.raises(NotAllowed):
                await decline(here, "clinic", name, who="bank")
            assert not ledger(folder, "clinic").declined
            for _ in range(2):
                await decline(here, "clinic", name)
            assert len(ledger(folder, "clinic").declined) == 1

    run(part())
    log = [json.loads(line) for line in (folder.state("clinic") / "audit.jsonl").read_text().splitlines()]
    (contract,) = (each for each in log if each["event"] == "contract")
    told = {each["fields"]["session"] for each in log if each["event"] == "declined"}
    assert told == {contract["fields"]["session"]}
