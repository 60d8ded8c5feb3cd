"""The columns in the request form: by party if columns are joined, otherwise each once with its holders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui.element import Element

from masquerade.console.draft import Column, Draft, column_of
from masquerade.console.elements import Place, Ticks, bullets, tag, tick
from masquerade.console.providers import tree_of
from masquerade.console.shared_columns import Shared, by_name, pooling
from masquerade.protocol.contract import OUTCOMES
from masquerade.service.card import ColumnCard, SchemaCard
from masquerade.service.resources import Provider


class Columns:
    """The column checkboxes; `changed` is called after each tick."""

    def __init__(self, draft: Draft, found: Sequence[Provider], changed: Callable[[], None]) -> None:
        self._draft, self._found, self._changed = draft, found, changed
        self._boxes: dict[str, list[tuple[Column, Element]]] = {}  # by name, if each party has its own
        with tag("fieldset"):
            tag("legend", "Columns")
            self._ticks = Place()
        with tag("fieldset") as self._together:
            tag("legend", "Who takes part")
            self._explained = tag("p", "", "quiet")
            self._parties = Ticks()
            self._lacking = Place()

    def refresh(self) -> None:
        """Show the current choice. Checkboxes stay in place until the kind changes."""
        draft = self._draft
        shared = draft.view.every_party_holds_all
        self._ticks.show(draft.kind, self._draw_shared if shared else self._draw_by_party)
        self._together.set_visibility(shared)
        if shared:
            self._explained.text = _who_can(draft)
            self._parties.show(draft.able, draft.together, self._party_chooser)
            self._lacking.show(draft.lacking(), self._draw_lacking)

    # --- different columns about the same people ---

    def _draw_by_party(self) -> None:
        tag("p", "In the order in which you choose them.", "quiet")
        self._boxes = {}
        for each in self._found:
            for card in each.datasets:
                with tag("fieldset"):
                    tag("legend", f"{each.party}: {card.dataset}")
                    with tag("div", look="ticks"):
                        for column in _for_tables(card):
                            self._draw_box(column_of(card, column), _told(column))

    def _draw_box(self, column: Column, note: str) -> None:
        box = tick(column.name, column in self._draft.chosen, self._chooser(column), note=note)
        self._boxes.setdefault(column.name, []).append((column, box))

    def _chooser(self, column: Column) -> Callable[[bool], None]:
        def change(wanted: bool) -> None:
            self._draft.choose(column, wanted)
            if wanted:
                self._untick(column)
            self._changed()

        return change

    def _untick(self, column: Column) -> None:
        """Untick the column for all other parties, since only one contributes it."""
        for other, box in self._boxes[column.name]:
            if other != column:
                box.client.run_javascript(f"document.getElementById('{box.html_id}').checked = false")

    # --- the same columns about different people ---

    def _draw_shared(self) -> None:
        columns = by_name(pooling(self._found))
        columns = [each for each in columns if each.cards[0].role not in OUTCOMES]
        shared = [each for each in columns if len(each.holders) > 1]
        if not shared:
            tag("p", "No two parties offer the same columns for this. Their stewards decide who takes part.")
            return
        tag("p", "In the order in which you choose them. Every provider must hold all of them.", "quiet")
        chosen = {each.name for each in self._draft.chosen}
        with tag("div", look="ticks"):
            for each in shared:
                tick(each.name, each.name in chosen, self._name_chooser(each.name), note=_held(each))
        alone = [each.name for each in columns if len(each.holders) == 1]
        if alone:
            tag("p", f"Only one party holds {', '.join(alone)}.", "quiet small")

    def _name_chooser(self, name: str) -> Callable[[bool], None]:
        def change(wanted: bool) -> None:
            self._draft.choose_by_name(name, wanted)
            self._changed()

        return change

    def _draw_lacking(self) -> None:
        lacking = self._draft.lacking()
        if lacking:
            tag("p", "The others lack something:", "quiet small")
            bullets([f"{party}: {', '.join(names)}" for party, names in lacking.items()], "quiet small")

    def _party_chooser(self, party: str) -> Callable[[bool], None]:
        def change(wanted: bool) -> None:
            (self._draft.left_out.discard if wanted else self._draft.left_out.add)(party)
            self._changed()

        return change


def _who_can(draft: Draft) -> str:
    if not draft.columns:
        return "Choose columns first."
    if not draft.able:
        return "No party holds all that you chose."
    return "These hold all that you chose. At least two must take part."


def _for_tables(card: SchemaCard) -> list[ColumnCard]:
    """Return the columns to tick: durations and events are chosen by their roles alone."""
    return [each for each in card.columns if each.role not in OUTCOMES]


def _told(column: ColumnCard) -> str:
    tree = f", {tree_of(column)}" if column.taxonomy is not None else ""
    role = "" if column.role == "attribute" else f", {column.role}"
    return f"{column.kind}{role}{tree}"


def _held(column: Shared) -> str:
    told = _told(column.cards[0]) if column.is_alike else "kinds, roles or taxonomies differ"
    return f"{told}; held by {', '.join(column.holders)}"
