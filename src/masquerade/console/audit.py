"""The end of the coordinator's audit log, and a check of its integrity, for admins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui.element import Element

from masquerade.audit.head import head_path
from masquerade.audit.verify import Verification, verify
from masquerade.console.elements import button, facts, table, tag
from masquerade.console.frame import View, page, problem_place
from masquerade.console.wording import number, short
from masquerade.errors import ParameterError
from masquerade.service.accounts import require
from masquerade.service.resources import Role, User

_SHOWN = 50


@page("/audit", "Audit", admin=True)
async def audit_page(view: View) -> None:
    """Draw the latest records, with a button that checks the whole log."""
    records = await view.ask(view.coordinator.audit_tail, _SHOWN)
    checked = _Checked(view)
    tag("h1", "Audit log")
    tag("p", "What the coordinator agreed to, said and heard, chained and sealed with its key.", "quiet")
    with tag("section"):
        tag("h2", "Is it whole?")
        checked.problems = problem_place()
        checked.place = tag("div", aria_live="polite")
        button("Verify the whole log", checked.check, "first")
    with tag("section"):
        tag("h2", f"The last {len(records)} records" if records else "Records")
        if not records:
            tag("p", "None yet.", "quiet")
            return
        rows = [
            [
                number(each.get("number")),
                _time(each.get("time")),
                str(each.get("event")),
                _told(each),
                short(each.get("hash")),
            ]
            for each in reversed(records)
        ]
        table("Records, the newest first", ["Record", "Time", "Event", "Fields", "Hash"], rows)


class _Checked:
    problems: Element
    place: Element

    def __init__(self, view: View) -> None:
        self._view = view

    async def check(self) -> None:
        """Verify every line of the log, its hash chain and its seals."""
        self.place.clear()
        found = await self._view.trying(self._view.ask(self._verified), self.problems)
        if found is None:
            return
        with self.place:
            if found.whole:
                tag("p", "The log is whole.", "told")
            else:
                tag("p", f"Line {found.first_bad}: {found.problem}", "problems")
            facts(
                [
                    ("Records", number(found.records)),
                    ("Sealed up to record", number(found.sealed_up_to)),
                    ("Sessions", f"{found.sessions}, {found.unfinished} unfinished"),
                    ("Last record", str(found.last)),
                ]
            )

    def _verified(self, admin: User) -> Verification:
        require(admin, Role.ADMIN)
        settings = self._view.coordinator.settings
        if not settings.audit.exists() and not head_path(settings.audit).exists():
            raise ParameterError("there is no audit log yet")
        return verify(settings.audit, certificates=[settings.identity.certificate])


def _time(written: Any) -> str:
    return f"{str(written)[:19].replace('T', ' ')} UTC"


def _told(record: Mapping[str, Any]) -> str:
    fields = record.get("fields")
    return (
        ", ".join(f"{key}: {_short(value)}" for key, value in fields.items())
        if isinstance(fields, Mapping)
        else ""
    )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
