"""The attack: name the snapshot of an earlier session, and bring another table.

A ledger knows a peer's table by the commitment that the peer publishes. The bank names the same one twice and leaves
one person out the second time: the terms are those of the first release, so a ledger of terms lets it through, and the
two releases differ by exactly her disease. The coordinator and the clinic are honest.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from masquerade.data import Table
from masquerade.errors import PeerError
from masquerade.service import Ledger, Request, SessionRecord, Status
from masquerade.service.wire.control import Progress
from service.party_nodes import COMMON, DATASETS, JOBS, Folder, World, run, wish, world
from service_hospitals import Hospitals

VICTIM = b"1015"


def asked(**changes: Any) -> Request:
    return wish(**{"attributes": ["age", "job", "disease"], "algorithm": {"name": "tds"}} | changes)


def leave_out(here: World, party: str, victim: bytes) -> None:
    """From now on a node brings a table without somebody, whatever snapshot its contract names."""
    dataset = here.nodes[party].node.datasets[DATASETS[party]]
    honest = dataset.table_for

    def lying(*given: Any) -> Any:
        table, people = honest(*given)
        left = np.array([at for at, person in enumerate(people) if person != victim])
        return table.take(left), [people[at] for at in left]

    dataset.table_for = lying  # type: ignore[method-assign]


def change_job(here: World, victim: bytes) -> None:
    """From now on the bank brings a table in which somebody has another job."""
    dataset = here.nodes["bank"].node.datasets["customers"]
    honest = dataset.table_for

    def lying(*given: Any) -> Any:
        table, people = honest(*given)
        jobs = table.arrow["job"].to_pylist()
        at = people.index(victim)
        assert jobs[at] != JOBS[0]
        jobs[at] = JOBS[0]
        column = table.arrow.column_names.index("job")
        return Table(table.arrow.set_column(column, "job", pa.array(jobs)), table.schema, origin=table.origin), people

    dataset.table_for = lying  # type: ignore[method-assign]


async def diseases(here: World, request: Request, attempt: int) -> Counter[str]:
    """The diseases in the release of one session."""
    contract = await here.coordinator.sign(
        here.coordinator.draw_up(await here.coordinator.deal(request), None, attempt)
    )
    release = await here.coordinator.release(contract)
    return Counter(release.table["disease"].to_pylist())


async def refused(here: World, request: Request, attempt: int) -> Progress:
    """How a session ends at the clinic of which the coordinator gets nothing."""
    contract = await here.coordinator.sign(
        here.coordinator.draw_up(await here.coordinator.deal(request), None, attempt)
    )
    with pytest.raises(PeerError):
        await here.coordinator.release(contract)
    return await here.coordinator.ended("clinic", contract)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Files of both parties; the bank's own ledger lets everything through."""
    folder = Folder(tmp_path)
    folder.write_conf("bank", allow_rerelease=True)
    return folder


def test_one_person_left_out_behind_the_same_snapshot_is_noticed(folder: Folder) -> None:
    async def part() -> None:
        async with world(folder) as here:
            assert (await diseases(here, asked(), 1)).total() == COMMON
            leave_out(here, "bank", VICTIM)
            ended = await refused(here, asked(), 2)
            assert (ended.state, ended.kind) == ("failed", "NotAllowed")

    run(part())
    told = folder.audited("clinic", "refusal")
    assert any("other people are in common" in reason for each in told for reason in each["reasons"])
    ledger = Ledger.load(folder.state("clinic") / "ledger.jsonl")
    assert len(ledger.contracts) == 1, "the second session showed nothing"


def test_the_same_people_again_are_the_same_release(folder: Folder) -> None:
    async def part() -> None:
        async with world(folder) as here:
            first = await diseases(here, asked(), 1)
        async with world(folder) as here:  # what was settled is on the disk
            assert await diseases(here, asked(), 2) == first
            leave_out(here, "bank", b"nobody")
            assert await diseases(here, asked(), 3) == first

    run(part())
    ledger = Ledger.load(folder.state("clinic") / "ledger.jsonl")
    assert (len(ledger.records), len(ledger.contracts)) == (1, 3), "one release, and every run of it is counted"


def test_a_policy_that_allows_every_further_release_allows_this_one(folder: Folder) -> None:
    async def part() -> None:
        async with world(folder) as here:
            first = await diseases(here, asked(), 1)
            leave_out(here, "bank", VICTIM)
            assert (first - await diseases(here, asked(), 2)).total() == 1

    folder.write_conf("clinic", allow_rerelease=True)
    run(part())


@pytest.mark.parametrize("method", ["tds", "mondrian"])
def test_the_same_people_in_other_groups_are_noticed_before_anything_is_handed_in(folder: Folder, method: str) -> None:
    """The bank keeps its list, and changes the job of one person, who then is in another group."""

    async def part() -> None:
        async with world(folder) as here:
            request = asked(algorithm={"name": method})
            await diseases(here, request, 1)
            await diseases(here, request, 2)
            change_job(here, VICTIM)
            ended = await refused(here, request, 3)
            assert (ended.state, ended.kind) == ("failed", "NotAllowed")

    run(part())
    told = folder.audited("clinic", "refusal")
    assert any("the cells to hand in are others" in reason for each in told for reason in each["reasons"])


def test_providers_whose_cuts_are_others_hand_nothing_in(tmp_path: Path) -> None:
    """Hospitals with the same columns: one brings other patients behind the same snapshot, so that the cuts are others.

    A request for an estimate is never answered from the cache.
    """
    policies: dict[str, dict[str, Any]] = {"north": {"allow_rerelease": False}}
    with Hospitals(tmp_path, parties=("north", "south"), people=400, policies=policies) as house:
        house.start_nodes()
        with house.coordinator() as coordinator:
            house.known(coordinator, house.user("ana"))

            aware = {"name": "mondrian", "provider_aware": False}  # otherwise each cuts its own groups alone

            def ended() -> SessionRecord:
                asked = coordinator.ask(house.user("ana"), house.request(estimate=True, algorithm=aware))
                return house.finished(coordinator, asked.id, accepts=False)

            assert [ended().status for _ in range(2)] == [Status.AWAITING_CLIENT] * 2
            south = house.nodes["south"].held.value.node.datasets["people"]
            honest = south.table_for
            south.table_for = lambda *given: (honest(*given)[0].take(np.arange(40)), [])
            last = ended()
            assert last.status is Status.REFUSED
            assert any("cells to hand in are others" in reason for reason in coordinator.reasons(last))
