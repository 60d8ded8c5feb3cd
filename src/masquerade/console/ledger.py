"""The price ledger and its totals, for admins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui.element import Element

from masquerade.console.elements import button, facts, link, table, tag
from masquerade.console.frame import View, page
from masquerade.console.guard import PREFIX
from masquerade.console.wording import moment, short
from masquerade.service.accounts import require
from masquerade.service.resources import LedgerEntry, Role, User

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
            [
                ("All together", view.money(sums[0])),
                *((f"To {party}", view.money(cents)) for party, cents in sums[1]),
            ]
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
        parties = [
            (party, coordinator.owed(admin, party=party)) for party in sorted(coordinator.settings.parties)
        ]
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
                self._draw(found)
            with tag("div", look="row"):
                if len(self._after) > 1:
                    button("Earlier lines", self._earlier)
                if len(found) == _PAGE:
                    button("Later lines", lambda: self._later(found[-1].id))

    def _found(self, admin: User) -> list[LedgerEntry]:
        require(admin, Role.ADMIN)
        return self._view.coordinator.ledger(admin, limit=_PAGE, after=self._after[-1])

    def _draw(self, found: Sequence[LedgerEntry]) -> None:
        rows = [
            [
                moment(each.time),
                each.user,
                each.party,
                _session(each),
                self._view.money(each.cents),
            ]
            for each in found
        ]
        table("Lines of the ledger", ["Time", "User", "Party", "Session", "Sum"], rows, numbers=(4,))

    async def _later(self, last: int) -> None:
        self._after.append(last)
        await self.refresh()

    async def _earlier(self) -> None:
        self._after.pop()
        await self.refresh()


def _session(entry: LedgerEntry) -> Callable[[], object]:
    return lambda: link(short(entry.session), f"{PREFIX}/sessions/{entry.session}")
