"""The schemas that parties have published, with a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from masquerade.console.elements import bullets, facts, link, table, tag, text_field
from masquerade.console.frame import View, page
from masquerade.console.guard import PREFIX
from masquerade.console.shared_columns import same_elsewhere
from masquerade.console.wording import moment, number, short
from masquerade.service.card import ColumnCard, SchemaCard
from masquerade.service.resources import Provider

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
        "Search",
        "",
        search,
        hint="A party, a dataset, a column, its kind, or the top of its taxonomy",
        kind="search",
    )
    shown = tag("div")
    with shown:
        _draw(found, found)


def matches(found: Sequence[Provider], words: str) -> list[Provider]:
    """Return the parties, each with only those datasets in which every search word occurs."""
    wanted = words.casefold().split()
    kept = []
    for each in found:
        datasets = tuple(
            card for card in each.datasets if all(word in _searchable(each.party, card) for word in wanted)
        )
        if datasets:
            kept.append(each.model_copy(update={"datasets": datasets}))
    return kept


def tree_of(column: ColumnCard) -> str:
    """Describe a column's taxonomy in a few words."""
    taxonomy = column.taxonomy
    if taxonomy is None:
        return "–"
    root = f"{taxonomy.root}, " if taxonomy.root is not None else ""
    return f"{root}height {taxonomy.height}"


def _searchable(party: str, card: SchemaCard) -> str:
    columns = [f"{each.name} {each.kind} {each.role} {tree_of(each)}" for each in card.columns]
    return " ".join([party, card.dataset, *columns]).casefold()


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
    if card.horizontal:
        _draw_together(same_elsewhere(card, everybody))


def _draw_together(same: Mapping[str, Sequence[str]]) -> None:
    """Draw which parties' records could be published together with these."""
    if not same:
        tag(
            "p",
            "May be published together with records of others, of whom none has the same columns.",
            "quiet",
        )
        return
    tag("p", "May be published together with records of others that have the same columns:", "quiet")
    bullets([f"{party}: {', '.join(names)}" for party, names in same.items()])
