"""The attack: a person approves one deal, and coordinator and peer run it again and again.

Each run lets the peer try other identifiers in the alignment, and leave. The clinic's steward has approved the deal
once: it is good for the attempts that the deal names, however many contracts are drawn up and signed beforehand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.errors import Conflict, NotAllowed
from masquerade.progress import Stage
from masquerade.service import Approvals, SignedContract, StateFolder
from masquerade.service.agree.terms import Refusal
from masquerade.service.node.admission import NO_APPROVAL, deal_id
from masquerade.service.node.session import PartySession
from masquerade.service.wire.control import Pending, ReadyAt, Signature
from service.party_nodes import Coordinator, Folder, now, run, wish, world

ATTEMPTS = 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A clinic whose steward approves each deal, and a bank that leaves once it is aligned."""
    folder = Folder(tmp_path)
    folder.write_conf("clinic", needs_approval=True)
    on_stage = PartySession._on_stage

    def leaving(session: PartySession, stage: Stage) -> None:
        if session._settings.name == "bank" and stage.name != "aligning":
            raise NotAllowed("has seen enough")
        on_stage(session, stage)

    monkeypatch.setattr(PartySession, "_on_stage", leaving)
    return folder


async def is_run(coordinator: Coordinator, contract: SignedContract) -> bool:
    """Run a contract until the bank leaves; return whether the clinic has taken part."""
    ready = await coordinator.prepare("clinic", contract)
    if isinstance(ready, Refusal):
        assert ready.reasons == (NO_APPROVAL,)
        return False
    async with coordinator.together(contract):
        assert (await coordinator.ended("clinic", contract)).state == "failed"
    return True


def test_an_approval_is_good_for_a_few_runs(folder: Folder) -> None:
    steward = Approvals(StateFolder(folder.state("clinic")))

    async def part() -> None:
        async with world(folder) as here:
            coordinator = here.coordinator
            deal = await coordinator.deal(wish(attempts=ATTEMPTS))
            first = coordinator.draw_up(deal)
            assert isinstance(await coordinator.ask_signature("clinic", first), Pending)
            steward.approve(deal_id(deal), now())
            hoard = [await coordinator.sign(coordinator.draw_up(deal)) for _ in range(5)]
            assert [await is_run(coordinator, each) for each in hoard] == [True, True, False, False, False]
            # The steward is asked again, and may say yes again.
            again = coordinator.draw_up(deal)
            assert isinstance(await coordinator.ask_signature("clinic", again), Pending)
            assert [each.deal for each in steward.waiting()] == [deal_id(deal)]
            steward.approve(deal_id(deal), now())
            assert isinstance(await coordinator.ask_signature("clinic", again), Signature)
            assert await is_run(coordinator, hoard[-1])
        async with world(folder) as here:  # a restart forgets nothing
            assert [await is_run(here.coordinator, each) for each in hoard[2:4]] == [True, False]

    run(part())


def test_sessions_that_were_prepared_at_once_are_counted_when_they_begin(folder: Folder) -> None:
    async def part() -> None:
        async with world(folder) as here:
            coordinator = here.coordinator
            deal = await coordinator.deal(wish(attempts=1))
            Approvals(StateFolder(folder.state("clinic"))).approve(deal_id(deal), now())
            both = [await coordinator.sign(coordinator.draw_up(deal)) for _ in range(2)]
            book = {"coordinator": "nowhere:1", "bank": "nowhere:2"}
            for each in both:
                assert isinstance(await coordinator.prepare("clinic", each), ReadyAt)
            await coordinator.start("clinic", both[0], book)
            with pytest.raises(Conflict, match="as often as was approved"):
                await coordinator.start("clinic", both[1], book)

    run(part())


def test_a_refusal_beside_an_approval_counts_more(folder: Folder) -> None:
    """Whoever refuses while a run is being counted is not overruled by the count."""
    state = StateFolder(folder.state("clinic"))
    steward = Approvals(state)

    async def part() -> None:
        async with world(folder) as here:
            deal = await here.coordinator.deal(wish(attempts=ATTEMPTS))
            steward.approve(deal_id(deal), now())
            counted = (state.approved / deal_id(deal)).read_bytes()
            steward.refuse(deal_id(deal), now(), "no more")
            (state.approved / deal_id(deal)).write_bytes(counted)
            assert not steward.may_run(deal)
            refused = await here.coordinator.ask_signature("clinic", here.coordinator.draw_up(deal))
            assert isinstance(refused, Refusal)

    run(part())
