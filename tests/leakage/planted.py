"""Leaks that are planted by replacing an attribute of the loaded program: a method, a function, a constant.

`planted(NAME)` plants one for the rest of this process; test_planted_leaks.py does so in one that is forked for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from masquerade.audit import AuditLog
from masquerade.protocol.learn.method import LearningMethod
from masquerade.service.node.session import PartySession


@dataclass(frozen=True)
class PlantedAttribute:
    """What replaces attributes, the test that notices, and a part of what it says: it fails for this leak."""

    name: str
    plant: Callable[[], None]
    noticed_by: str
    because: str


def replaced(owner: Any, attribute: str, made: Callable[[Any], Any]) -> None:
    """Replace an attribute by what is made of it; a function also where other modules of ours have imported it."""
    old = getattr(owner, attribute)
    new = made(old)
    setattr(owner, attribute, new)
    for name, module in list(sys.modules.items()):
        if name.startswith(("masquerade.", "leakage.")) and vars(module).get(attribute) is old and callable(old):
            setattr(module, attribute, new)


def _records_in_progress() -> None:
    """The stage of a learning party counts the records that it has."""

    def told(party: Callable[..., Any]) -> Callable[..., Any]:
        def telling(self: LearningMethod, participant: Any) -> Any:
            on_stage, rows = participant.on_stage, len(participant.table)
            counting = lambda stage: on_stage(replace(stage, round=rows) if stage.name == self.activity else stage)  # noqa: E731
            object.__setattr__(participant, "on_stage", counting)
            return (yield from party(self, participant))

        return telling

    replaced(LearningMethod, "party", told)


def _text_of_errors() -> None:
    """A party tells the coordinator every error as it is."""
    replaced(PartySession, "_told", lambda _: lambda self, error: tuple(each.rendered() for each in error.problems))


def _row_in_audit() -> None:
    """At a session's end the audit log gets the first row of the table."""

    def told(add: Callable[..., Any]) -> Callable[..., Any]:
        def telling(self: AuditLog, *events: Any) -> Any:
            more = [
                (event, {**fields, "culprit": "41 heart cold"} if event == "session end" else fields)
                for event, fields in events
            ]
            return add(self, *more)

        return telling

    replaced(AuditLog, "add", told)


FIGURES = "test_figures.py"
PLANTED = {
    each.name: each
    for each in (
        PlantedAttribute(
            "the number of records in the progress of a party that learns",
            _records_in_progress,
            f"{FIGURES}::test_progress_counts_what_it_may[id3, 2 parties, whole records]",
            "the progress of 'growing the tree' tells ['round']",
        ),
        PlantedAttribute(
            "an error of a table, with its text, to the coordinator",
            _text_of_errors,
            f"{FIGURES}::test_no_cell_of_a_table_that_is_amiss_reaches_the_coordinator[session]",
            "shows a cell of the table",
        ),
        PlantedAttribute(
            "a row of the table in the audit log",
            _row_in_audit,
            f"{FIGURES}::test_a_service_tells_no_other_figures[False]",
            "the audit log's session end has culprit",
        ),
    )
}


def planted(name: str) -> None:
    """Plant a leak."""
    PLANTED[name].plant()
