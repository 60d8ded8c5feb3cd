"""The form that builds a request, with a preview of what it would come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import get_args

from nicegui import background_tasks, ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from masquerade.console.draft import (
    Column,
    Draft,
    Wish,
    as_json,
    as_toml,
    columns_of,
    needs_sensitive,
    parameters_of,
)
from masquerade.console.elements import bullets, button, choice, focus, tag, text_field, tick
from masquerade.console.frame import View, page, problem_place
from masquerade.console.providers import tree_of
from masquerade.console.wording import MODELS
from masquerade.service.coordinator.coordinator import Preview
from masquerade.service.coordinator.directory import Provided
from masquerade.service.request import Adversary, Argmax

_SETTLE = 0.25  # seconds without a change before the coordinator is asked
_NUMBERS = {"k": "k", "l": "ℓ", "c": "c", "t": "t", "alpha": "α", "confidence": "Confidence", "p": "p"}


@page("/request", "New request")
async def request_page(view: View) -> None:
    """The form and its preview."""
    found = await view.ask(view.coordinator.providers)
    tag("h1", "New request")
    if not found:
        tag("p", "No party lets you ask for anything yet. Their stewards decide who may ask.")
        return
    await _Form(view, found).draw()


class _Form:
    def __init__(self, view: View, found: list[Provided]) -> None:
        self._view = view
        self._found = found
        self._draft = Draft(columns_of(found))
        self._changes = 0

    async def draw(self) -> None:
        """Everything, top to bottom."""
        draft = self._draft
        with tag("div", look="beside"):
            with tag("form", aria_label="Request").on(
                "submit", js_handler="(event) => event.preventDefault()"
            ):
                self._draw_columns()
                with tag("fieldset"):
                    tag("legend", "What for")
                    with tag("div", look="cols"):
                        text_field("Purpose", "", self._set("purpose"), hint="Such as research", required="")
                        self._class_place = tag("div")
                        self._sharer_place = tag("div")
                with tag("fieldset"):
                    tag("legend", "Privacy requirement")
                    tag(
                        "p",
                        "All must hold. The parties may ask for more; you see it in the negotiation.",
                        "quiet",
                    )
                    self._wish_place = tag("div")
                    button("Add a requirement", self._add_wish)
                with tag("fieldset"):
                    tag("legend", "Quality, price, recipients")
                    with tag("div", look="cols"):
                        text_field(
                            "Largest classification error",
                            "",
                            self._set("most_error"),
                            hint="From 0 to 1; needs a class. When it is missed, you are asked",
                            inputmode="decimal",
                        )
                        text_field(
                            "Budget",
                            "",
                            self._set("budget"),
                            hint="The most it may cost, such as 25.00",
                            inputmode="decimal",
                        )
                        text_field(
                            "Recipients",
                            "",
                            self._set("recipients"),
                            hint="Users, apart by spaces; none: you alone",
                        )
                with tag("fieldset"):
                    tag("legend", "Protocol")
                    with tag("div", look="cols"):
                        choice(
                            "Adversary",
                            {each: each for each in get_args(Adversary)},
                            draft.adversary,
                            self._set("adversary"),
                            hint="What a dishonest party is expected to do",
                        )
                        choice(
                            "Comparison of scores",
                            {each: each for each in get_args(Argmax)},
                            draft.argmax,
                            self._set("argmax"),
                            hint="Secure: the parties see who has the best score in each round. Plain: the scores",
                        )
                    tick(
                        "Show the steps",
                        False,
                        self._show_steps,
                        note="You watch the taxonomies being cut, where every party's policy allows it",
                    )
                self._problems = problem_place()
                button("Send the request", self._send, "first")
            with tag("aside", aria_label="Preview"), tag("section"):
                tag("h2", "Preview")
                self._preview_place = tag("div")
                self._toml = _draw_text("As TOML, for masquerade request", "TOML")
                self._json = _draw_text("As JSON, for the HTTP API", "JSON")
        self._draw_class()
        self._draw_wishes()
        await self._preview(0)

    # --- parts ---

    def _draw_columns(self) -> None:
        with tag("fieldset"):
            tag("legend", "Columns")
            tag("p", "In the order in which you choose them.", "quiet")
            for each in self._found:
                for card in each.datasets:
                    with tag("fieldset"):
                        tag("legend", f"{each.party}: {card.dataset}")
                        with tag("div", look="ticks"):
                            for column in card.columns:
                                tree = f", {tree_of(column)}" if column.taxonomy is not None else ""
                                role = "" if column.role == "attribute" else f", {column.role}"
                                tick(
                                    column.name,
                                    False,
                                    self._chooser(Column(each.party, card.dataset, column.name, column.role)),
                                    note=f"{column.kind}{role}{tree}",
                                )

    def _draw_class(self) -> None:
        draft = self._draft
        self._class_place.clear()
        options = {"": "none"} | {name: name for name in draft.classes}
        with self._class_place:
            choice(
                "Class", options, draft.class_name, self._choose_class, hint="What a classifier will predict"
            )
        self._draw_sharer()

    def _draw_sharer(self) -> None:
        """Who contributes the class, where there is a choice."""
        self._sharer_place.clear()
        holders = self._draft.class_holders
        if len(holders) > 1:
            options = {"": "all who hold it"} | {name: name for name in holders}
            with self._sharer_place:
                choice("Class contributed by", options, self._draft.class_from, self._set("class_from"))

    def _draw_wishes(self, focused: Wish | None = None) -> None:
        """All requirements; whoever worked in one of them stays there."""
        self._wish_place.clear()
        with self._wish_place:
            for position, wish in enumerate(self._draft.wishes):
                with tag("fieldset"):
                    tag("legend", f"Requirement {position + 1}")
                    chosen = self._draw_wish(wish, position)
                if wish is focused:
                    focus(chosen)

    def _draw_wish(self, wish: Wish, position: int) -> Element:
        draft = self._draft
        with tag("div", look="cols"):
            model = choice(
                "Model",
                {name: name for name in MODELS},
                wish.model,
                self._model_of(wish),
                hint=MODELS[wish.model],
            )
            for name in parameters_of(wish.model):
                text_field(
                    _NUMBERS[name], wish.number(name), self._number_of(wish, name), inputmode="decimal"
                )
            if needs_sensitive(wish.model):
                options = {"": "choose"} | {name: name for name in draft.sensitive}
                choice("Sensitive column", options, wish.sensitive, self._sensitive_of(wish))
        with tag("fieldset", look="plainly"):
            tag("legend", "Quasi-identifier (QID)")
            if not draft.in_qids:
                tag("p", "Choose columns first.", "quiet")
            with tag("div", look="ticks"):
                for column in draft.in_qids:
                    tick(column.name, column.name in wish.qid, self._qid_of(wish, column.name))
        if len(draft.wishes) > 1:
            button("Remove", lambda: self._remove_wish(wish), aria_label=f"Remove requirement {position + 1}")
        return model

    # --- changes ---

    def _set(self, key: str) -> Callable[[str], None]:
        def change(text: str) -> None:
            setattr(self._draft, key, text)
            self._changed()

        return change

    def _show_steps(self, wanted: bool) -> None:
        self._draft.show_steps = wanted
        self._changed()

    def _chooser(self, column: Column) -> Callable[[bool], None]:
        def change(wanted: bool) -> None:
            self._draft.choose(column, wanted)
            self._draw_class()
            self._draw_wishes()
            self._changed()

        return change

    def _choose_class(self, name: str) -> None:
        self._draft.class_name, self._draft.class_from = name, ""
        self._draw_sharer()
        if any(needs_sensitive(wish.model) for wish in self._draft.wishes):
            self._draw_wishes()  # otherwise they stay, with whatever is being typed there by now
        self._changed()

    def _model_of(self, wish: Wish) -> Callable[[str], None]:
        def change(name: str) -> None:
            wish.model = name
            self._draw_wishes(wish)
            self._changed()

        return change

    def _number_of(self, wish: Wish, name: str) -> Callable[[str], None]:
        def change(text: str) -> None:
            wish.numbers[name] = text
            self._changed()

        return change

    def _sensitive_of(self, wish: Wish) -> Callable[[str], None]:
        def change(name: str) -> None:
            wish.sensitive = name
            self._changed()

        return change

    def _qid_of(self, wish: Wish, name: str) -> Callable[[bool], None]:
        def change(wanted: bool) -> None:
            wish.qid = [each for each in wish.qid if each != name] + ([name] if wanted else [])
            self._changed()

        return change

    def _add_wish(self) -> None:
        self._draft.wishes.append(Wish())
        self._draw_wishes(self._draft.wishes[-1])
        self._view.say(f"Requirement {len(self._draft.wishes)} added")
        self._changed()

    def _remove_wish(self, wish: Wish) -> None:
        self._draft.wishes = [each for each in self._draft.wishes if each is not wish]
        self._draw_wishes(self._draft.wishes[-1])
        self._changed()

    # --- the coordinator ---

    def _changed(self) -> None:
        self._changes += 1
        background_tasks.create(
            self._settled(self._changes)
        )  # no timer: what was changed may be drawn no more

    async def _settled(self, change: int) -> None:
        await asyncio.sleep(_SETTLE)
        if change == self._changes and not self._preview_place.is_deleted:  # nothing came after it
            with self._preview_place:
                await self._preview(change)

    async def _preview(self, change: int) -> None:
        content = self._draft.content()
        shown = await self._view.trying(
            self._view.ask(self._view.coordinator.preview, content), self._problems
        )
        if shown is None or change != self._changes:
            return
        self._preview_place.clear()
        started = bool(self._draft.chosen or self._draft.purpose)
        with self._preview_place:
            _draw_preview(shown, started=started)
        self._toml.text, self._json.text = as_toml(content), as_json(content)
        if started:
            self._view.say(f"{len(shown.problems)} to mend" if shown.problems else "This can be sent")

    async def _send(self) -> None:
        asked = self._view.ask(self._view.coordinator.ask, self._draft.content())
        made = await self._view.trying(asked, self._problems)
        if made is not None:
            ui.navigate.to(f"/sessions/{made.id}")


def _draw_preview(shown: Preview, *, started: bool) -> None:
    if not started:
        tag("p", "Choose columns and say what for.", "quiet")
        return
    if shown.problems:
        tag("h3", "Still to mend")
        with tag("div", look="problems"):
            bullets([problem.removeprefix("request: ") for problem in shown.problems])
    else:
        tag("p", "This can be sent.", "told")
    if shown.requirement:
        tag("h3", "Requirement")
        bullets(shown.requirement)
    if shown.contributors:
        tag("h3", "Who contributes")
        with tag("ul"):
            for name, parties in shown.contributors.items():
                tag("li", f"{name}: {', '.join(parties) or 'nobody'}")


def _draw_text(summary: str, kind: str) -> TextElement:
    """A text to copy, folded; the element that shows it."""
    with tag("details"):
        tag("summary", summary)
        written = tag("pre", "", tabindex="0", role="region", aria_label=kind)
        copy = tag("button", "Copy", type="button", aria_label=f"Copy {kind}")
        done = tag("span", "", "quiet small", role="status")
    copy.on(
        "click",
        js_handler=f"() => navigator.clipboard.writeText(document.getElementById('{written.html_id}').textContent)"
        f".then(() => document.getElementById('{done.html_id}').textContent = ' copied')",
    )
    return written
