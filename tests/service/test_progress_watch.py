"""What the coordinator tells of the parties' work: every step once, whenever its looks are cut short."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from masquerade.progress import Stage
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator.run import ProgressWatch
from masquerade.service.wire.control import Progress, SeenStep
from service.gates import Gate
from service.stores import furnish, requested

if TYPE_CHECKING:
    from masquerade.service.store import Store

STEPS = tuple(SeenStep(each, "age", "[-inf, inf)", ("[-inf, 51)", "[51, inf)")) for each in range(3))


class Told:
    """The only thing that a watch asks of its links, answered alike for every party."""

    async def progress(self, party: str, contract: str, within: float | None = None) -> Progress:
        mine = tuple(step for step in STEPS if (step.round % 2 == 0) == (party == "bank"))
        return Progress("done", stage=Stage("protocol"), round=3, steps=mine)


def test_a_step_is_told_once_though_the_look_is_cancelled_while_it_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(store)
    session = requested(store)
    gate, extend = Gate(), store.events.extend
    context: Any = SimpleNamespace(links=Told(), store=store, clock=SYSTEM_CLOCK)

    def slowly(*args: Any) -> None:
        gate.hold()
        extend(*args)

    monkeypatch.setattr(store.events, "extend", slowly)
    watch = ProgressWatch(context, session.id, "00", ("bank", "shop"))

    async def cut_short_and_look_again() -> None:
        looking = asyncio.create_task(watch.until_one_fails(show_progress=True))
        await gate.reached()
        looking.cancel()
        gate.open_soon()
        with pytest.raises(asyncio.CancelledError):
            await looking
        await watch.until_settled(show_progress=True, at_most=60)

    asyncio.run(cut_short_and_look_again())
    told = [event.data["round"] for event in store.events.after(session.id) if event.kind == "step"]
    assert told == [0, 1, 2]
