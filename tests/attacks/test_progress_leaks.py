"""A coordinator that polls the parties' progress to learn more than how many rounds there were."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from masquerade.progress import Stage
from masquerade.service import SignedContract
from masquerade.service.cards import rounded_up
from masquerade.service.node.session import PartySession
from masquerade.service.wire.control import Progress
from service.party_nodes import Coordinator, Folder, run, wish, world

WITHOUT_GRANT = {"state", "round", "problems", "kind", "culprit"}  # what may be told before the end
TOTALS = {"bytes_sent", "messages", "seconds"}


def spied_on(folder: Folder, monkeypatch: pytest.MonkeyPatch, **asked: bool) -> list[Progress]:
    """Everything that a coordinator gets that asks each party at every stage, and once more at the end."""
    heard: list[Progress] = []
    on_stage = PartySession._on_stage

    def asked_at_every_stage(self: PartySession, stage: Stage) -> None:
        on_stage(self, stage)
        heard.append(self.progress())

    monkeypatch.setattr(PartySession, "_on_stage", asked_at_every_stage)

    async def part() -> None:
        async with world(folder) as here:
            coordinator: Coordinator = here.coordinator
            contract: SignedContract = await coordinator.signed(wish(algorithm={"name": "tds"}, **asked))
            await coordinator.release(contract)
            for party in contract.parties:
                heard.append(await coordinator.ended(party, contract))

    run(part())
    return heard


def told(progress: Progress) -> set[str]:
    """The fields that say anything."""
    return {name for name in progress.__struct_fields__ if getattr(progress, name) != getattr(Progress("ready"), name)}


def test_the_coordinator_gets_rounds_and_rounded_totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = spied_on(Folder(tmp_path), monkeypatch)
    running, ends = ([each for each in heard if each.state == state] for state in ("running", "done"))
    assert len(running) > 10
    assert len(ends) == 2
    assert set().union(*map(told, running)) <= WITHOUT_GRANT
    assert set().union(*map(told, ends)) <= WITHOUT_GRANT | TOTALS
    for end in ends:
        assert end.bytes_sent == rounded_up(end.bytes_sent)  # so that nobody counts the records by them
        assert end.seconds == int(end.seconds)


@pytest.mark.parametrize("granting", [("bank",), ("clinic",), ("bank", "clinic")])
def test_stages_and_steps_are_told_where_all_policies_grant_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, granting: tuple[str, ...]
) -> None:
    folder = Folder(tmp_path)
    for name in granting:
        folder.write_conf(name, show_progress=True)
    fields = set().union(*map(told, spied_on(folder, monkeypatch, show_progress=True)))
    if len(granting) == 2:
        assert {"stage", "steps", "bytes_sent"} <= fields
    else:
        assert fields <= WITHOUT_GRANT | TOTALS


def test_a_contract_that_grants_it_against_a_policy_is_not_signed(tmp_path: Path) -> None:
    async def part() -> None:
        async with world(Folder(tmp_path)) as here:
            deal = await here.coordinator.deal(wish())
            granted = here.coordinator.draw_up(msgspec.structs.replace(deal, show_progress=True))
            answer = await here.coordinator.ask_signature("bank", granted)
            assert "shows the coordinator the progress" in str(answer)

    run(part())
