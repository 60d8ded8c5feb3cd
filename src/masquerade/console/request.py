"""The form for a request, with a preview of its effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from nicegui import background_tasks, ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from masquerade.console.draft import (
    OfferedColumn,
    RequestDraft,
    Wish,
    all_numbers,
    as_json,
    as_toml,
    column_of,
    columns_of,
    needs_sensitive,
    numbers_of,
    refilled,
)
from masquerade.console.elements import (
    Region,
    Ticks,
    bullets,
    button,
    choice,
    field_of,
    focus,
    radios,
    tag,
    text_field,
    tick,
)
from masquerade.console.frame import View, page, problem_place, tell_problems
from masquerade.console.lists import tree_of
from masquerade.console.request_preview import (
    Shared,
    by_name,
    draw_preview,
    draw_proposals,
    pooling,
    proposed_draft,
    sentence,
)
from masquerade.console.words import KINDS, PARAMETERS, ROLE_HINTS, short
from masquerade.errors import ParameterError
from masquerade.forms import Parameter, parameters_of
from masquerade.privacy import REQUIREMENTS
from masquerade.protocol import OUTCOMES, RoleName
from masquerade.service import ANY, QUALITY_TERMS, ColumnCard, Provider, RequestPreview, Status

# --- request boundaries -------------------------------------------------------------------------------------
# Boundaries and weights of the chosen columns in the request form.

_FIELDS = {
    "coarsest": ("never coarser than", "Values of its taxonomy, separated by commas, or for numbers a width"),
    "finest": ("never finer than", "The same"),
    "weight": ("weight", "What it matters to you; 1 where empty. Mondrian's priority counts it"),
}


class Boundaries:
    """A folded list with the fields of each chosen column; `changed` is called after each change."""

    def __init__(self, draft: RequestDraft, changed: Callable[[], None]) -> None:
        self._draft, self._changed, self._place = draft, changed, Region()

    def refresh(self) -> None:
        """Show the columns that are chosen now."""
        self._place.show(self._draft.limitable, self._draw)

    def _draw(self) -> None:
        if not self._draft.limitable:
            return
        with tag("details"):
            tag("summary", "Boundaries and weights")
            for name in self._draft.limitable:
                with tag("fieldset"):
                    tag("legend", name)
                    with tag("div", look="cols"):
                        for key, (label, hint) in _FIELDS.items():
                            value = self._draft.limits.get(name, {}).get(key, "")
                            change = partial(self._set, name, key)
                            text_field(label.capitalize(), value, change, hint=hint, aria_label=f"{name}: {label}")

    def _set(self, name: str, key: str, text: str) -> None:
        self._draft.limits.setdefault(name, {})[key] = text
        self._changed()


# --- request columns ----------------------------------------------------------------------------------------
# The columns in the request form: by party if columns are joined, otherwise each once with its holders.


class ColumnCheckboxes:
    """The column checkboxes; `changed` is called after each tick."""

    def __init__(self, draft: RequestDraft, found: Sequence[Provider], changed: Callable[[], None]) -> None:
        self._draft, self._found, self._changed = draft, found, changed
        self._boxes: dict[str, list[tuple[OfferedColumn, Element]]] = {}  # by name, if each party has its own
        with tag("fieldset"):
            tag("legend", "Columns")
            self._ticks = Region()
        with tag("fieldset") as self._together:
            tag("legend", "Who takes part")
            self._explained = tag("p", "", "quiet")
            self._parties = Ticks()
            self._lacking = Region()

    def refresh(self) -> None:
        """Show the current choice. Checkboxes stay in place until the kind changes."""
        draft = self._draft
        shared = draft.view.every_party_holds_all
        self._ticks.show(draft.kind, self._draw_shared if shared else self._draw_by_party)
        self._together.set_visibility(shared)
        if shared:
            self._explained.text = _who_can(draft)
            self._parties.show(draft.able, draft.together, self._choose_party)
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
                        for described in card.columns:
                            if described.role in OUTCOMES:  # chosen by their roles alone
                                continue
                            column = column_of(card, described)
                            change = partial(self._choose, column)
                            box = tick(column.name, column in self._draft.chosen, change, note=_told(described))
                            self._boxes.setdefault(column.name, []).append((column, box))

    def _choose(self, column: OfferedColumn, wanted: bool) -> None:
        self._draft.choose(column, wanted)
        for other, box in self._boxes[column.name]:
            if wanted and other != column:  # only one party contributes it
                box.client.run_javascript(f"document.getElementById('{box.html_id}').checked = false")
        self._changed()

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
                tick(each.name, each.name in chosen, partial(self._choose_name, each.name), note=_held(each))
        alone = [each.name for each in columns if len(each.holders) == 1]
        if alone:
            tag("p", f"Only one party holds {', '.join(alone)}.", "quiet small")

    def _choose_name(self, name: str, wanted: bool) -> None:
        self._draft.choose_by_name(name, wanted)
        self._changed()

    def _draw_lacking(self) -> None:
        lacking = self._draft.lacking()
        if lacking:
            tag("p", "The others lack something:", "quiet small")
            bullets([f"{party}: {', '.join(names)}" for party, names in lacking.items()], "quiet small")

    def _choose_party(self, party: str, wanted: bool) -> None:
        (self._draft.left_out.discard if wanted else self._draft.left_out.add)(party)
        self._changed()


def _who_can(draft: RequestDraft) -> str:
    if not draft.columns:
        return "Choose columns first."
    if not draft.able:
        return "No party holds all that you chose."
    return "These hold all that you chose. At least two must take part."


def _told(column: ColumnCard) -> str:
    tree = f", {tree_of(column)}" if column.taxonomy is not None else ""
    role = "" if column.role == "attribute" else f", {column.role}"
    return f"{column.kind}{role}{tree}"


def _held(column: Shared) -> str:
    told = _told(column.cards[0]) if column.is_alike else "kinds, roles or taxonomies differ"
    return f"{told}; held by {', '.join(column.holders)}"


# --- request wishes -----------------------------------------------------------------------------------------
# The requirements in the request form. Choices elsewhere do not disturb what is being typed here.


class Wishes:
    """All requested requirements; `changed` is called after each change."""

    def __init__(self, draft: RequestDraft, changed: Callable[[], None], say: Callable[[str], None]) -> None:
        self._draft, self._changed, self._say = draft, changed, say
        self._all = Region()
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
                    button("Remove", partial(self._remove, wish), aria_label=f"Remove requirement {number}")

    def _add(self) -> None:
        self._draft.wishes.append(Wish())
        self.refresh(self._draft.wishes[-1])
        self._say(f"Requirement {len(self._draft.wishes)} added")
        self._changed()

    def _remove(self, wish: Wish) -> None:
        self._draft.wishes = [each for each in self._draft.wishes if each is not wish]
        self.refresh(self._draft.wishes[-1])
        self._changed()


class _Part:
    """One requirement. All number fields exist from the start; only those of the chosen model are visible."""

    def __init__(self, draft: RequestDraft, wish: Wish, changed: Callable[[], None]) -> None:
        self._draft, self.wish, self._changed = draft, wish, changed
        self.model: Element
        with tag("div", look="cols"):
            self._model = Region()
            self._numbers = {}
            for name, number in all_numbers().items():
                change = partial(self._type, name)
                field = text_field(number.symbol, wish.number(name), change, inputmode="decimal")
                self._numbers[name] = field_of(field)
            self._sensitive = Region()
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
        self._qid.show(names, self.wish.qid, self._tick)

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

    def _type(self, name: str, text: str) -> None:
        self.wish.numbers[name] = text
        self._changed()

    def _tick(self, name: str, wanted: bool) -> None:
        self.wish.qid = [each for each in self.wish.qid if each != name] + ([name] if wanted else [])
        self._changed()


# --- request form -------------------------------------------------------------------------------------------

_SETTLE = 0.25  # seconds without a change before the coordinator is asked


@page("/request", "New request")
async def request_page(view: View) -> None:
    """Draw the form and its preview."""
    found = await view.ask(view.coordinator.providers)
    tag("h1", "New request")
    if not found:
        tag("p", "No party lets you ask for anything yet. Their stewards decide who may ask.")
        return
    draft = RequestDraft(columns_of(found))
    if earlier := view.query.get("again"):
        session = await view.ask(view.coordinator.session, earlier)
        draft = refilled(columns_of(found), session.request, view.user.name)
        filled = f"Filled in as session {short(session.id)} was asked for."
        changes: Sequence[str] = ()
        if session.status is Status.REFUSED:
            shown = await view.ask(view.coordinator.preview, dict(session.request))
            if shown.possible is not None:
                draft, changes = refilled(columns_of(found), shown.possible, view.user.name), shown.changes
                filled = f"{filled[:-1]}, changed to what would be accepted:"
        tag("p", f"{filled} Change it, and ask again." if not changes else filled, "quiet")
        bullets(map(sentence, changes))
    elif kind := KINDS.get(view.query.get("proposed", "")):
        draft = proposed_draft(found, kind.name)
        draw_proposals(found, kind.name)
    else:
        draw_proposals(found, None)
    with tag("div") as place:
        await _Form(view, found, draft, place).draw()


class _Form:
    def __init__(self, view: View, found: list[Provider], draft: RequestDraft, place: Element) -> None:
        self._view, self._place, self._found, self._draft = view, place, found, draft
        self._changes, self._sent = 0, False

    async def draw(self) -> None:
        """Draw the whole form."""
        kinds = {name: (each.title, each.example) for name, each in KINDS.items()}
        with tag("div", look="beside"):
            with tag("form", aria_label="Request").on("submit", js_handler="(event) => event.preventDefault()"):
                choose_kind = self._setter("kind", self._chosen)
                radios("What the parties hold", kinds, self._draft.kind, choose_kind)
                self._columns = ColumnCheckboxes(self._draft, self._found, self._chosen)
                with tag("fieldset"):
                    tag("legend", "What for")
                    with tag("div", look="cols"):
                        self._draw_purposes()
                        self._roles_place = Region()
                        self._sharer_place = Region()
                with tag("fieldset") as self._privacy:
                    tag("legend", "Privacy requirement")
                    tag("p", "All must hold. The parties may ask for more; you see it in the negotiation.", "quiet")
                    self._wishes = Wishes(self._draft, self._changed, self._view.say)
                self._boundaries = Boundaries(self._draft, self._changed)
                self._limits_place = Region()
                self._protocol_place = Region()
            # After the form, also on a phone: what will happen is read before it is sent.
            with tag("aside", aria_label="Preview"), tag("section"):
                tag("h2", "Preview")
                self._preview_place = tag("div")
                self._problems = problem_place()
                with tag("div", look="row"):
                    self._send_button = button("Send the request", self._send, "first")
                self._toml = _draw_text("As TOML, for masquerade request", "TOML")
                self._json = _draw_text("As JSON, for the HTTP API", "JSON")
        self._refresh()
        await self._preview(self._changes)

    # --- parts ---

    def _draw_purposes(self) -> None:
        """Draw a list of what the parties allow; where one of them allows anything, a field that suggests them."""
        allowed: dict[str, list[str]] = {}
        for each in self._found:
            for purpose in each.purposes:
                allowed.setdefault(purpose, []).append(each.party)
        names, change = sorted({*allowed} - {ANY}), self._setter("purpose")
        if ANY in allowed or not names:
            hint = "What it is for, such as research"
            field = text_field("Purpose", self._draft.purpose, change, hint=hint, required="")
            with tag("datalist") as listed:
                for name in names:
                    tag("option", **{"^value": name})
            field.props["list"] = listed.html_id
            return
        options = {"": "choose"} | {name: f"{name} ({', '.join(allowed[name])})" for name in names}
        if self._draft.purpose not in options:
            options[self._draft.purpose] = f"{self._draft.purpose} (nobody)"
        choice("Purpose", options, self._draft.purpose, change, hint="What it is for; in brackets, who allows it")

    def _draw_field(self, key: str, label: str, hint: str, **attributes: str) -> None:
        text_field(label, getattr(self._draft, key), self._setter(key), hint=hint, **attributes)

    def _draw_limits(self) -> None:
        terms = QUALITY_TERMS if self._draft.has_groups else ()  # otherwise nothing is generalised
        with tag("fieldset"):
            tag("legend", "Quality, price, recipients" if terms else "Price, recipients")
            with tag("div", look="cols"):
                for term in terms:
                    self._draw_field(term.key, f"Largest {term.name}", term.help, inputmode="decimal")
                self._draw_field("budget", "Budget", "The most it may cost, such as 25.00", inputmode="decimal")
                self._draw_field(
                    "recipients", "Recipients", "Names of users, separated by commas or spaces. Empty: you alone"
                )
            if terms:
                tick(
                    "Show me losses and cost first",
                    self._draft.estimate,
                    self._setter("estimate"),
                    note="The release is made and waits for your word. Without this it waits only if it loses nearly"
                    " all of a column, or misses a limit above",
                )

    def _draw_roles(self) -> None:
        """Draw the columns that the method takes apart from the others."""
        for role, name in self._draft.roles.items():
            nothing = "choose" if self._draft.chosen_method.roles[role] else "none"
            options = {"": nothing} | {name: name for name in self._draft.candidates(role)}
            choice(role.capitalize(), options, name, partial(self._choose_role, role), hint=ROLE_HINTS[role])

    def _draw_sharer(self) -> None:
        """Draw the choice of who contributes the class, if there is one."""
        if self._draft.sharers:
            options = {"": "all who hold it"} | {name: name for name in self._draft.sharers}
            choice("Class contributed by", options, self._draft.class_from, self._setter("class_from"))

    def _draw_protocol(self) -> None:
        kind = self._draft.view
        with tag("fieldset"):
            tag("legend", kind.legend)
            for key, label, hint in kind.numbers if self._draft.has_groups else ():
                self._draw_field(key, label, hint, inputmode="numeric")
            self._draw_method()
            tick(
                "Show the progress",
                self._draft.show_progress,
                self._setter("show_progress"),
                note=f"You watch {kind.watched}, where every party's policy allows it; otherwise the rounds alone",
            )

    def _draw_method(self) -> None:
        """Draw the method and its declared parameters."""
        draft = self._draft
        method = draft.chosen_method
        if len(draft.methods) > 1:
            names = {name: name for name in draft.methods}
            choice("Method", names, method.name, self._setter("method", self._chosen), hint=method.summary)
        with tag("div", look="cols"):
            for each in parameters_of(method):
                self._draw_parameter(each)

    def _draw_parameter(self, parameter: Parameter) -> None:
        label = PARAMETERS.get(parameter.name) or parameter.name.replace("_", " ").capitalize()
        change = partial(self._choose_setting, parameter.name)
        value = self._draft.setting(parameter.name)
        options = {word: word for word in parameter.rule.choices}
        if parameter.rule.is_switch:
            options = {"true": "yes", "false": "no"}
        if options:
            usual = {"": "by default"} if parameter.default is None else {}
            choice(label, usual | options, value, change, hint=parameter.help)
        else:
            text_field(label, value, change, hint=parameter.help)

    # --- changes ---

    def _refresh(self) -> None:
        """Show the current choice; parts that are up to date are left alone, so that typing is not disturbed."""
        draft = self._draft
        self._columns.refresh()
        choices = [(role, draft.candidates(role)) for role in draft.roles]
        self._roles_place.show((choices, draft.chosen_method), self._draw_roles)
        self._sharer_place.show((draft.wanted_class, draft.sharers), self._draw_sharer)
        self._privacy.set_visibility(draft.has_groups)
        self._wishes.refresh()
        self._boundaries.refresh()
        self._limits_place.show(draft.has_groups, self._draw_limits)
        self._protocol_place.show((draft.kind, draft.method), self._draw_protocol)

    def _setter(self, key: str, then: Callable[[], None] | None = None) -> Callable[[str | bool], None]:
        """Return the change handler of a field of the draft."""

        def change(value: str | bool) -> None:
            setattr(self._draft, key, value)
            (then or self._changed)()

        return change

    def _choose_setting(self, name: str, value: str) -> None:
        self._draft.choose_setting(name, value)
        self._chosen()

    def _choose_role(self, role: RoleName, name: str) -> None:
        self._draft.name_role(role, name)
        self._chosen()

    def _chosen(self) -> None:
        self._refresh()
        self._changed()

    # --- the coordinator ---

    def _changed(self) -> None:
        self._changes += 1
        background_tasks.create(self._settled(self._changes))  # not a timer: the changed control may be gone by then

    async def _settled(self, change: int) -> None:
        await asyncio.sleep(_SETTLE)
        if change == self._changes and not self._preview_place.is_deleted:  # no later change
            with self._preview_place:
                await self._preview(change)

    async def _preview(self, change: int) -> None:
        content = self._draft.content()
        shown = await self._view.trying(self._view.ask(self._view.coordinator.preview, content), self._problems)
        if shown is None or change != self._changes:
            return
        problems = [*self._draft.problems(), *(str(each.at(source="")) for each in shown.errors)]
        self._send_button.props(remove="disabled") if not problems else self._send_button.props("disabled")
        self._preview_place.clear()
        started = bool(self._draft.columns or self._draft.purpose)
        with self._preview_place:
            if started:
                draw_preview(shown, problems, self._draft, self._view.money, partial(self._reduce, shown))
            else:
                tag("p", "Choose columns and say what for.", "quiet")
        self._toml.text, self._json.text = as_toml(content), as_json(content)
        if started:
            self._view.say(f"{len(problems)} to fix" if problems else "This can be sent")

    async def _reduce(self, shown: RequestPreview) -> None:
        """Fill the form with what the parties would accept."""
        if shown.possible is None:
            return
        self._draft = refilled(columns_of(self._found), shown.possible, self._view.user.name)
        self._place.clear()
        with self._place:
            await self.draw()
        self._view.say(f"Changed: {'; '.join(shown.changes)}")

    async def _send(self) -> None:
        if self._sent:
            return
        if self._draft.problems():
            self._problems.clear()
            with self._problems:
                tell_problems(ParameterError(*self._draft.problems()))
            return
        asked = self._view.ask(self._view.coordinator.ask, self._draft.content())
        made = await self._view.trying(asked, self._problems)
        if made is not None:
            self._sent = True  # the page is about to close: a second press must not send twice
            ui.navigate.to(f"/sessions/{made.id}")


def _draw_text(summary: str, kind: str) -> TextElement:
    """Draw a folded text with a copy button; return the element that shows the text."""
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
