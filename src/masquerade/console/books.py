"""The end of the coordinator's audit log with filters, and a check of its integrity, for admins."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from nicegui.element import Element

from masquerade.audit import LogVerification, head_path, verify
from masquerade.console.elements import button, choice, copied, facts, link, table, tag, text_field
from masquerade.console.frame import View, page, problem_place
from masquerade.console.guard import PREFIX
from masquerade.console.words import moment, number, short
from masquerade.errors import ParameterError
from masquerade.service import LedgerEntry, Role, User, require

_SEARCHED = 1000  # records
_SHOWN = 50
_DIGEST = re.compile(r"[0-9a-f]{32,}")

Record = Mapping[str, Any]


@page("/audit", "Audit", admin=True)
async def audit_page(view: View) -> None:
    """Draw the latest records, with filters and a button that checks the whole log."""
    records = await view.ask(view.coordinator.audit_tail, _SEARCHED)
    checked = _Checked(view)
    tag("h1", "Audit log")
    tag("p", "What the coordinator agreed to, said and heard, chained and sealed with its key.", "quiet")
    with tag("section"):
        tag("h2", "Is it whole?")
        checked.problems = problem_place()
        checked.place = tag("div", aria_live="polite")
        button("Verify the whole log", checked.check, "first")
    with tag("section"):
        tag("h2", "Records")
        if not records:
            tag("p", "None yet.", "quiet")
            return
        _Records(view, records[::-1]).draw()


class _Records:
    """The newest records that pass the filters."""

    def __init__(self, view: View, records: Sequence[Record]) -> None:
        self._view, self._records = view, records
        self._event = self._words = ""
        self._most = _SHOWN

    def draw(self) -> None:
        """Draw the filters, and the records below them."""
        events = sorted({str(each.get("event")) for each in self._records})
        with tag("div", look="cols"):
            options = {"": "all"} | {event: event for event in events}
            choice("Event", options, "", partial(self._filter, "_event"))
            hint = "Such as a user, a party, a session, a day (2030-01-31)"
            text_field("Contains", "", partial(self._filter, "_words"), hint=hint, kind="search")
        self._place = tag("div")
        self._refresh()

    def _filter(self, key: str, text: str) -> None:
        setattr(self, key, text)
        self._most = _SHOWN
        found = self._refresh()
        self._view.say(f"{found} record{'' if found == 1 else 's'}")

    def _more(self) -> None:
        self._most += _SHOWN
        self._refresh()

    def _refresh(self) -> int:
        found = [each for each in self._records if matches(each, self._event, self._words)]
        self._place.clear()
        with self._place:
            searched = f"of the last {len(self._records)}, the newest first"
            tag("p", f"{min(len(found), self._most)} of {len(found)} that fit, {searched}.", "quiet")
            if found:
                rows = [_row(each) for each in found[: self._most]]
                columns = ["Record", "Time", "Event", "Fields", "Hash"]
                table("Records, the newest first", columns, rows).classes("records")
            if len(found) > self._most:
                button("Show more", self._more)
        return len(found)


def matches(record: Record, event: str, words: str) -> bool:
    """Return whether a record is of an event ("": of any) and contains every word."""
    if event and str(record.get("event")) != event:
        return False
    text = f"{_time(record)} {json.dumps(dict(record), ensure_ascii=False)}".casefold()
    return all(word in text for word in words.casefold().split())


def _row(record: Record) -> list[object]:
    place = number(record.get("number"))
    return [
        place,
        _time(record),
        str(record.get("event")),
        partial(_draw_fields, record),
        partial(_draw_value, str(record.get("hash") or "–"), f"the hash of record {place}"),
    ]


def _draw_fields(record: Record) -> None:
    """Draw a record's fields: one line, which unfolds."""
    found = record.get("fields")
    fields = {name: _text(value) for name, value in (found.items() if isinstance(found, Mapping) else ())}
    if not fields:
        tag("span", "–")
        return
    with tag("details"):
        tag("summary", "; ".join(f"{name}: {_brief(value)}" for name, value in fields.items()))
        with tag("ul", look="log"):
            for name, value in fields.items():
                with tag("li"):
                    tag("span", f"{name}: ", "quiet")
                    _draw_value(value, f"{name} of record {number(record.get('number'))}")


def _draw_value(text: str, what: str) -> None:
    """Draw a value; a hash by its beginning, with a button that copies the whole."""
    if _DIGEST.fullmatch(text):
        copied(text, short(text), what)
    else:
        tag("span", text if len(text) <= 120 else f"{text[:119]}…", title=text if len(text) > 120 else None)


def _brief(text: str) -> str:
    return short(text) if _DIGEST.fullmatch(text) else text if len(text) <= 60 else f"{text[:59]}…"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _time(record: Record) -> str:
    """Return when a record was written, to the second; as it stands, where it is no time."""
    written = str(record.get("time"))
    try:
        return moment(datetime.fromisoformat(written))
    except ValueError:
        return written


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
                    (
                        "Last record",
                        partial(copied, str(found.last), f"{found.last.number}:{short(found.last.hash)}", "the anchor"),
                    ),
                ]
            )

    def _verified(self, admin: User) -> LogVerification:
        require(admin, Role.ADMIN)
        settings = self._view.coordinator.settings
        if not settings.audit.exists() and not head_path(settings.audit).exists():
            raise ParameterError("there is no audit log yet")
        return verify(settings.audit, certificates=[settings.identity.certificate])


# --- ledger -------------------------------------------------------------------------------------------------
# The price ledger and its totals, for admins.

_PAGE = 100


@page("/ledger", "Ledger", admin=True)
async def ledger_page(view: View) -> None:
    """Draw the totals owed to each party and by each user, and every entry."""
    shown = _Lines(view)
    tag("h1", "Ledger")
    sums = await view.ask(shown.sums)
    with tag("section"):
        tag("h2", "Sums")
        facts(
            [("All together", view.money(sums[0])), *((f"To {party}", view.money(cents)) for party, cents in sums[1])]
        )
        rows = [[user, view.money(cents)] for user, cents in sums[2]]
        if rows:
            table("What users owe", ["User", "Owes"], rows, numbers=(1,))
    with tag("section"):
        tag("h2", "Lines")
        shown.place = tag("div")
        await shown.refresh()


class _Lines:
    place: Element

    def __init__(self, view: View) -> None:
        self._view = view
        self._after: list[int] = [0]

    def sums(self, admin: User) -> tuple[int, list[tuple[str, int]], list[tuple[str, int]]]:
        """Return the amounts owed in total, to each party, and by each user with debts."""
        require(admin, Role.ADMIN)
        coordinator = self._view.coordinator
        parties = [(party, coordinator.owed(admin, party=party)) for party in sorted(coordinator.settings.parties)]
        users: list[str] = []
        while len(found := coordinator.store.users.all(_PAGE, users[-1] if users else "")) > 0:
            users += [user.name for user in found]
        by_user = [(name, coordinator.owed(admin, of_user=name)) for name in users]
        return coordinator.owed(admin), parties, [each for each in by_user if each[1]]

    async def refresh(self) -> None:
        """Draw one page of entries."""
        found = await self._view.ask(self._found)
        self.place.clear()
        with self.place:
            if not found:
                tag("p", "Nothing was charged yet." if self._after == [0] else "No more.", "quiet")
            else:
                rows = [
                    [
                        moment(each.time),
                        each.user,
                        each.party,
                        partial(link, short(each.session), f"{PREFIX}/sessions/{each.session}"),
                        self._view.money(each.cents),
                    ]
                    for each in found
                ]
                table("Lines of the ledger", ["Time", "User", "Party", "Session", "Sum"], rows, numbers=(4,))
            with tag("div", look="row"):
                if len(self._after) > 1:
                    button("Earlier lines", self._earlier)
                if len(found) == _PAGE:
                    button("Later lines", lambda: self._later(found[-1].id))

    def _found(self, admin: User) -> list[LedgerEntry]:
        require(admin, Role.ADMIN)
        return self._view.coordinator.ledger(admin, limit=_PAGE, after=self._after[-1])

    async def _later(self, last: int) -> None:
        self._after.append(last)
        await self.refresh()

    async def _earlier(self) -> None:
        self._after.pop()
        await self.refresh()
