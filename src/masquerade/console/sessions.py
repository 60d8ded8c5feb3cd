"""The list of sessions, which updates itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui import ui
from nicegui.element import Element

from masquerade.console.elements import button, choice, link, table, tag, tick
from masquerade.console.frame import View, leave, page
from masquerade.console.guard import PREFIX
from masquerade.console.kinds import kind_of
from masquerade.console.signed_in import SignedOut
from masquerade.console.wording import STATUS, look_of, moment, short
from masquerade.service.resources import Role
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord

_EVERY = 2.0
_MOST = 50
_MOST_COLUMNS = 5  # named of a session


@page("/sessions", "Sessions")
async def sessions_page(view: View) -> None:
    """Draw the user's sessions; admins may list everyone's."""
    listing = _List(view)
    tag("h1", "Sessions")
    with tag("div", look="row"):
        link("New request", f"{PREFIX}/request", "act first")
    with tag("div", look="cols"):
        options = {"": "all"} | {status.value: words for status, words in STATUS.items()}
        choice("Status", options, "", listing.only)
        if view.user.role is Role.ADMIN:
            tick("Everybody's sessions", False, listing.everybodys)
    listing.place = tag("div")
    await listing.refresh()
    ui.timer(_EVERY, listing.refresh)


class _List:
    place: Element

    def __init__(self, view: View) -> None:
        self._view = view
        self._status: str | None = None
        self._everyone = False
        self._after: list[str] = []  # cursors of the pages after the first
        self._shown: Sequence[SessionRecord] | None = None

    async def only(self, status: str) -> None:
        """Show only sessions in one state."""
        self._status, self._after = status or None, []
        await self.refresh()

    async def everybodys(self, wanted: bool) -> None:
        """Show everyone's sessions, or only one's own."""
        self._everyone, self._after = wanted, []
        await self.refresh()

    async def refresh(self) -> None:
        """Poll again; redraw only after a change, so that nobody loses their place."""
        try:
            found = await self._view.look(
                self._view.coordinator.sessions,
                status=self._status,
                limit=_MOST,
                after=self._after[-1] if self._after else None,
                everyone=self._everyone,
            )
        except SignedOut:
            leave()
            return
        if found == self._shown:
            return
        self._shown = found
        self.place.clear()
        with self.place:
            self._draw(found)

    def _draw(self, found: Sequence[SessionRecord]) -> None:
        if not found:
            tag("p", "Nothing yet." if not self._after else "No more.", "quiet")
        else:
            rows = [
                [
                    _link(each),
                    each.purpose,
                    kind_of(each.request).brief,
                    _mark(each.status),
                    each.client,
                    moment(each.created),
                    _parties(each),
                ]
                for each in found
            ]
            table(
                "Sessions, the newest first",
                ["Columns", "Purpose", "Kind", "Status", "Client", "Asked", "Parties"],
                rows,
            )
        with tag("div", look="row"):
            if self._after:
                button("Newer", self._newer)
            if len(found) == _MOST:
                button("Older", self._older)

    async def _older(self) -> None:
        if self._shown:
            self._after.append(self._shown[-1].id)
        await self.refresh()

    async def _newer(self) -> None:
        self._after.pop()
        await self.refresh()


def _link(session: SessionRecord) -> Callable[[], object]:
    asked = [str(name) for name in session.request.get("attributes") or ()]
    shown = ", ".join(asked[:_MOST_COLUMNS]) + (
        f" and {len(asked) - _MOST_COLUMNS} more" if len(asked) > _MOST_COLUMNS else ""
    )
    return lambda: link(
        shown or short(session.id),
        f"{PREFIX}/sessions/{session.id}",
        aria_label=f"{shown} for {session.purpose}: session {short(session.id)}",
    )


def _mark(status: Status) -> Callable[[], object]:
    return lambda: tag("span", STATUS[status], look_of(status))


def _parties(session: SessionRecord) -> str:
    return ", ".join(session.providers)
