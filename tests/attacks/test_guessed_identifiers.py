"""The attack: ask who is a patient, for any identifiers that one can guess, as often as one likes.

A bank fills its table with guesses and aligns with the clinic. It learns which of them are the clinic's, and leaves
before anything of a column is shown: nothing was released, so no requirement and no ledger of releases stands in its
way. The coordinator helps by asking again and again. The clinic is an honest node.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import NotAllowed
from masquerade.progress import Stage
from masquerade.service import Ledger, NodeSettings, described, preview
from masquerade.service.agree.answering import accepts
from masquerade.service.agree.policy import WEEK
from masquerade.service.ledger import Aligned, Alignment
from masquerade.service.node.session import PartySession
from service.parties import CLINIC, NOW, dealt, policy, request
from service.party_nodes import COMMON, Folder, World, refused, run, wish, world

OWN = COMMON + 5  # identifiers of the bank
TDS: dict[str, Any] = {"algorithm": {"name": "tds"}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A bank that leaves once it knows who is common."""
    on_stage = PartySession._on_stage

    def leaving(session: PartySession, stage: Stage) -> None:
        if session._settings.name == "bank" and stage.name not in ("connecting", "reading", "aligning"):
            raise NotAllowed("has seen enough")
        on_stage(session, stage)

    monkeypatch.setattr(PartySession, "_on_stage", leaving)
    folder = Folder(tmp_path)
    folder.write_conf("bank", alignments={"per_week": 1000})
    return folder


async def guessed(here: World) -> None:
    """One session that the bank leaves after the alignment."""
    contract = await here.coordinator.signed(wish(**TDS))
    async with here.coordinator.together(contract):
        ends = [await here.coordinator.ended(party, contract) for party in contract.parties]
    assert {end.state for end in ends} == {"failed"}


def ledger(folder: Folder) -> Ledger:
    return Ledger.load(folder.state("clinic") / "ledger.jsonl")


def answers(folder: Folder) -> int:
    """How many messages of an alignment the bank has heard that depend on the clinic's people."""
    heard = [each for each in folder.audited("bank", "message") if each["direction"] == "received"]
    return sum(each["kind"] in ("blinded", "positions", "equality-proof") for each in heard)


def test_alignments_are_counted_also_over_restarts(folder: Folder) -> None:
    folder.write_conf("clinic", alignments={"per_week": 2, "identifiers_per_week": 1000})
    said = ("2 alignments with bank in the last 7 days; the policy allows 2",)

    async def all_that_are_granted() -> None:
        async with world(folder) as here:
            await guessed(here)
            signed = await here.coordinator.signed(wish(**TDS))
            await guessed(here)
            assert refused(await here.coordinator.prepare("clinic", signed)).reasons == said

    async def one_more() -> None:
        async with world(folder) as here:
            contract = here.coordinator.draw_up(await here.coordinator.deal(wish(normalize="casefold", **TDS)))
            assert refused(await here.coordinator.ask_signature("clinic", contract)).reasons == said
            named = wish(providers={"job": "bank"}, **TDS)
            assert refused(await here.coordinator.offer("clinic", named)).reasons == said
            settings = NodeSettings.load(folder.conf("clinic"))
            [dataset] = settings.datasets.values()
            shown = preview(contract, "clinic", policy=dataset.policy, ledger=ledger(folder))
            line = f"alignments with bank in the last 7 days: 2 of 2; identifiers that it submitted: {2 * OWN} of 1,000"
            assert shown.so_far == (line,)
            assert f"  {line}" in described(shown)

    run(all_that_are_granted())
    heard = answers(folder)
    run(one_more())
    assert answers(folder) == heard > 0
    lines = ledger(folder)
    assert lines.shown == (), "nothing of a column was shown"
    assert [(each.begun.peers, each.begun.identifiers, dict(each.submitted)) for each in lines.alignments] == [
        (("bank",), COMMON + 3, {"bank": OWN})
    ] * 2


@pytest.mark.parametrize("way", ["curve", "oprf", "auto"])
def test_a_longer_list_than_is_left_is_not_answered(folder: Folder, way: str) -> None:
    folder.write_conf("clinic", alignments={"identifiers_per_week": OWN - 1})
    asked = {"algorithm": {"name": "tds", "align": way}}

    async def part() -> None:
        async with world(folder) as here:
            contract = await here.coordinator.signed(wish(**asked))
            async with here.coordinator.together(contract):
                end = await here.coordinator.ended("clinic", contract)
            assert (end.state, end.kind) == ("failed", "NotAllowed")
            assert [each.sentence.startswith("bank may submit 64 identifiers in 7 days") for each in end.problems] == [
                True
            ]

    run(part())
    (aligned,) = ledger(folder).alignments
    assert aligned.submitted == {}
    heard = {each["kind"] for each in folder.audited("bank", "message") if each["direction"] == "received"}
    assert not heard & {"positions", "equality-proof", "equality-share"}


def test_identifiers_are_counted_over_sessions(folder: Folder) -> None:
    folder.write_conf("clinic", alignments={"identifiers_per_week": OWN})

    async def part() -> None:
        async with world(folder) as here:
            await guessed(here)
            contract = here.coordinator.draw_up(await here.coordinator.deal(wish(**TDS)))
            (said,) = refused(await here.coordinator.ask_signature("clinic", contract)).reasons
            assert said.startswith(f"bank may submit {OWN} identifiers in 7 days by the policy")

    run(part())


def test_the_number_is_of_one_peer_and_of_seven_days() -> None:
    deal, once = dealt(request()), policy(alignments={"per_week": 1})

    def reasons(peer: str, dataset: str = "patients", **changes: Any) -> tuple[str, ...]:
        begun = Aligned(dataset, "bb" * 32, (peer,), 9, NOW, "s1", "c1")
        before = Ledger(alignments=(Alignment(begun, {peer: 7}),))
        return accepts(once, deal, CLINIC, changes.get("ledger", before), changes.get("now", NOW))

    assert reasons("bank") == ("1 alignments with bank in the last 7 days; the policy allows 1",)
    assert reasons("shop") == ()
    assert reasons("bank", "others") == ()
    assert reasons("bank", now=NOW + WEEK - 1) == reasons("bank")
    assert reasons("bank", now=NOW + WEEK) == ()
