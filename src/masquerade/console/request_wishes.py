"""The requirements in the request form. Choices elsewhere do not disturb what is being typed here."""

from __future__ import annotations

from collections.abc import Callable

from nicegui.element import Element

from masquerade.console.draft import Draft, Wish, all_numbers, needs_sensitive, numbers_of
from masquerade.console.elements import Place, Ticks, button, choice, field_of, focus, tag, text_field
from masquerade.privacy.registry import REQUIREMENTS


class Wishes:
    """All requested requirements; `changed` is called after each change."""

    def __init__(self, draft: Draft, changed: Callable[[], None], say: Callable[[str], None]) -> None:
        self._draft, self._changed, self._say = draft, changed, say
        self._all = Place()
        self._parts: list[_Part] = []
        button("Add a requirement", self._add)

    def refresh(self, focused: Wish | None = None) -> None:
        """Show the current choice; `focused` gets the keyboard focus."""
        self._all.show([id(wish) for wish in self._draft.wishes], self._draw)
        for part in self._parts:
            part.refresh()
            if part.wish is focused:
                focus(part.model)

    def _draw(self) -> None:
        wishes = self._draft.wishes
        self._parts = []
        for number, wish in enumerate(wishes, start=1):
            with tag("fieldset"):
                tag("legend", f"Requirement {number}")
                self._parts.append(_Part(self._draft, wish, self._changed))
                if len(wishes) > 1:
                    button("Remove", self._remover(wish), aria_label=f"Remove requirement {number}")

    def _add(self) -> None:
        self._draft.wishes.append(Wish())
        self.refresh(self._draft.wishes[-1])
        self._say(f"Requirement {len(self._draft.wishes)} added")
        self._changed()

    def _remover(self, wish: Wish) -> Callable[[], None]:
        def remove() -> None:
            self._draft.wishes = [each for each in self._draft.wishes if each is not wish]
            self.refresh(self._draft.wishes[-1])
            self._changed()

        return remove


class _Part:
    """One requirement. All number fields exist from the start; only those of the chosen model are visible."""

    def __init__(self, draft: Draft, wish: Wish, changed: Callable[[], None]) -> None:
        self._draft, self.wish, self._changed = draft, wish, changed
        self.model: Element
        with tag("div", look="cols"):
            self._model = Place()
            self._numbers = {
                name: field_of(
                    text_field(number.symbol, wish.number(name), self._typer(name), inputmode="decimal")
                )
                for name, number in all_numbers().items()
            }
            self._sensitive = Place()
        with tag("fieldset", look="plainly"):
            tag("legend", "Quasi-identifier (QID)")
            self._none = tag("p", "Choose columns first.", "quiet")
            self._qid = Ticks()

    def refresh(self) -> None:
        """Show the current choice."""
        draft, model = self._draft, self.wish.model
        models = draft.models
        self._model.show(models, lambda: self._draw_model(models))
        self._explained.text = REQUIREMENTS[model].promise
        for name, field in self._numbers.items():
            field.set_visibility(name in numbers_of(model))
        protectable = draft.sensitive if needs_sensitive(model) else None
        self._sensitive.show(protectable, lambda: self._draw_sensitive(protectable))
        names = [column.name for column in draft.in_qids]
        self._none.set_visibility(not names)
        self._qid.show(names, self.wish.qid, self._ticker)

    def _draw_model(self, models: list[str]) -> None:
        offered = (*models, self.wish.model)  # keeps the current choice
        names = [name for name in REQUIREMENTS.plain if name in offered]
        self.model = choice("Model", {name: name for name in names}, self.wish.model, self._choose_model)
        with field_of(self.model):
            self._explained = tag("p", "", "hint")
        self.model.props["aria-describedby"] = self._explained.html_id

    def _draw_sensitive(self, names: list[str] | None) -> None:
        if names is not None:
            options = {"": "choose"} | {name: name for name in names}
            choice("Sensitive column", options, self.wish.sensitive, self._choose_sensitive)

    # --- changes ---

    def _choose_model(self, name: str) -> None:
        self.wish.model = name
        self.refresh()
        self._changed()

    def _choose_sensitive(self, name: str) -> None:
        self.wish.sensitive = name
        self._changed()

    def _typer(self, name: str) -> Callable[[str], None]:
        def typed(text: str) -> None:
            self.wish.numbers[name] = text
            self._changed()

        return typed

    def _ticker(self, name: str) -> Callable[[bool], None]:
        def ticked(wanted: bool) -> None:
            self.wish.qid = [each for each in self.wish.qid if each != name] + ([name] if wanted else [])
            self._changed()

        return ticked
