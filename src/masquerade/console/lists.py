"""The list of sessions, which updates itself."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui
from nicegui.element import Element

from masquerade.console.elements import bullets, button, choice, facts, link, table, tag, text_field, tick
from masquerade.console.frame import SignedOut, View, leave, page
from masquerade.console.guard import PREFIX
from masquerade.console.request_preview import same_elsewhere
from masquerade.console.words import STATUS, kind_of, look_of, moment, number, short
from masquerade.service import ColumnCard, Provider, Role, SchemaCard, SessionRecord

# --- providers ----------------------------------------------------------------------------------------------
# The schemas that parties have published, with a search.

_ROLES = {
    "attribute": "attribute",
    "sensitive": "sensitive, released as it is",
    "class": "class, released as it is",
    "duration": "duration, for models of survival alone",
    "event": "event, for models of survival alone",
}


@page("/providers", "Providers")
async def providers_page(view: View) -> None:
    """Draw every party that the user may ask."""
    found = await view.ask(view.coordinator.providers)
    tag("h1", "Providers")
    tag(
        "p",
        "The parties whose data you may ask for, and what they published: names and kinds of columns, never values.",
        "quiet",
    )
    if not found:
        tag("p", "No party lets you ask for anything yet. Their stewards decide who may ask.")
        return

    def search(words: str) -> None:
        shown.clear()
        matching = matches(found, words)
        with shown:
            _draw(matching, found)
        view.say(f"{len(matching)} of {len(found)} providers")

    text_field(
        "Search", "", search, hint="A party, a dataset, a column, its kind, or the top of its taxonomy", kind="search"
    )
    shown = tag("div")
    with shown:
        _draw(found, found)


def matches(found: Sequence[Provider], words: str) -> list[Provider]:
    """Return the parties, each with only those datasets in which every search word occurs."""
    wanted = words.casefold().split()
    kept = []
    for each in found:
        datasets = []
        for card in each.datasets:
            columns = [f"{column.name} {column.kind} {column.role} {tree_of(column)}" for column in card.columns]
            text = " ".join([each.party, card.dataset, *columns]).casefold()
            if all(word in text for word in wanted):
                datasets.append(card)
        if datasets:
            kept.append(each.model_copy(update={"datasets": tuple(datasets)}))
    return kept


def tree_of(column: ColumnCard) -> str:
    """Describe a column's taxonomy in a few words."""
    taxonomy = column.taxonomy
    if taxonomy is None:
        return "–"
    root = f"{taxonomy.root}, " if taxonomy.root is not None else ""
    return f"{root}height {taxonomy.height}"


def _draw(found: Sequence[Provider], everybody: Sequence[Provider]) -> None:
    if not found:
        tag("p", "Nothing matches.")
    for each in found:
        with tag("section"):
            with tag("h2", f"{each.party} "):
                tag(
                    "span",
                    "reachable" if each.reachable else "not reachable",
                    f"mark {'good' if each.reachable else 'bad'}",
                )
            tag("p", f"Last seen {moment(each.last_seen)}. You may ask.", "quiet small")
            for card in each.datasets:
                _draw_dataset(card, everybody)
    if found:
        link("Ask for a table", f"{PREFIX}/request", "act first")


def _draw_dataset(card: SchemaCard, everybody: Sequence[Provider]) -> None:
    tag("h3", card.dataset)
    facts(
        [
            ("Records, rounded up", number(card.records) if card.records is not None else "not told"),
            ("People are identified by", card.identifier),
            ("Snapshot", short(card.snapshot) if card.snapshot else "not read yet"),
        ]
    )
    table(
        f"Columns of {card.dataset}",
        ["Column", "Kind", "Role", "Taxonomy"],
        [[each.name, each.kind, _ROLES[each.role], tree_of(each)] for each in card.columns],
    )
    if not card.horizontal:
        return
    same = same_elsewhere(card, everybody)
    if same:
        tag("p", "May be published together with records of others that have the same columns:", "quiet")
        bullets([f"{party}: {', '.join(names)}" for party, names in same.items()])
    else:
        tag("p", "May be published together with records of others, of whom none has the same columns.", "quiet")


# --- sessions -----------------------------------------------------------------------------------------------

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
            columns = ["Columns", "Purpose", "Kind", "Status", "Client", "Asked", "Parties"]
            table("Sessions, the newest first", columns, map(_row, found))
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


def _row(session: SessionRecord) -> list[object]:
    asked = [str(name) for name in session.request.get("attributes") or ()]
    shown = ", ".join(asked[:_MOST_COLUMNS]) + (
        f" and {len(asked) - _MOST_COLUMNS} more" if len(asked) > _MOST_COLUMNS else ""
    )
    label = f"{shown} for {session.purpose}: session {short(session.id)}"
    return [
        lambda: link(shown or short(session.id), f"{PREFIX}/sessions/{session.id}", aria_label=label),
        session.purpose,
        kind_of(session.request).brief,
        lambda: tag("span", STATUS[session.status], look_of(session.status)),
        session.client,
        moment(session.created),
        ", ".join(session.providers),
    ]
