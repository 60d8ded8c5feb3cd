"""The form for a request, with a preview of its effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from nicegui import background_tasks, ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from masquerade.console.draft import Draft, as_json, as_toml, columns_of
from masquerade.console.elements import Place, bullets, button, choice, radios, tag, text_field, tick
from masquerade.console.frame import View, page, problem_place, tell_problems
from masquerade.console.kinds import KINDS
from masquerade.console.refill import refilled
from masquerade.console.request_boundaries import Boundaries
from masquerade.console.request_columns import Columns
from masquerade.console.request_preview import draw_preview, sentence
from masquerade.console.request_proposals import draw_proposals, proposed_draft
from masquerade.console.request_wishes import Wishes
from masquerade.console.wording import PARAMETERS, ROLE_HINTS, short
from masquerade.errors import ParameterError
from masquerade.forms.declared import Parameter, parameters_of
from masquerade.protocol.method import RoleName
from masquerade.service.policy import ANY
from masquerade.service.quality import QUALITY_TERMS
from masquerade.service.resources import Provider, RequestPreview
from masquerade.service.session_states import Status

_SETTLE = 0.25  # seconds without a change before the coordinator is asked


@page("/request", "New request")
async def request_page(view: View) -> None:
    """Draw the form and its preview."""
    found = await view.ask(view.coordinator.providers)
    tag("h1", "New request")
    if not found:
        tag("p", "No party lets you ask for anything yet. Their stewards decide who may ask.")
        return
    draft = Draft(columns_of(found))
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
    def __init__(self, view: View, found: list[Provider], draft: Draft, place: Element) -> None:
        self._view, self._place = view, place
        self._found = found
        self._draft = draft
        self._changes = 0
        self._sent = False

    async def draw(self) -> None:
        """Draw the whole form."""
        kinds = {name: (each.title, each.example) for name, each in KINDS.items()}
        with tag("div", look="beside"):
            with tag("form", aria_label="Request").on(
                "submit", js_handler="(event) => event.preventDefault()"
            ):
                radios("What the parties hold", kinds, self._draft.kind, self._choose_kind)
                self._columns = Columns(self._draft, self._found, self._chosen)
                self._draw_purpose()
                with tag("fieldset") as self._privacy:
                    tag("legend", "Privacy requirement")
                    tag(
                        "p",
                        "All must hold. The parties may ask for more; you see it in the negotiation.",
                        "quiet",
                    )
                    self._wishes = Wishes(self._draft, self._changed, self._view.say)
                self._boundaries = Boundaries(self._draft, self._changed)
                self._limits_place = Place()
                self._protocol_place = Place()
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

    def _draw_purpose(self) -> None:
        with tag("fieldset"):
            tag("legend", "What for")
            with tag("div", look="cols"):
                self._draw_purposes()
                self._roles_place = Place()
                self._sharer_place = Place()

    def _draw_purposes(self) -> None:
        """Draw a list of what the parties allow; where one of them allows anything, a field that suggests them."""
        allowed: dict[str, list[str]] = {}
        for each in self._found:
            for purpose in each.purposes:
                allowed.setdefault(purpose, []).append(each.party)
        names = sorted({*allowed} - {ANY})
        if ANY in allowed or not names:
            hint = "What it is for, such as research"
            field = text_field("Purpose", self._draft.purpose, self._set("purpose"), hint=hint, required="")
            with tag("datalist") as listed:
                for name in names:
                    tag("option", **{"^value": name})
            field.props["list"] = listed.html_id
            return
        options = {"": "choose"} | {name: f"{name} ({', '.join(allowed[name])})" for name in names}
        if self._draft.purpose not in options:
            options[self._draft.purpose] = f"{self._draft.purpose} (nobody)"
        choice(
            "Purpose",
            options,
            self._draft.purpose,
            self._set("purpose"),
            hint="What it is for; in brackets, who allows it",
        )

    def _draw_limits(self) -> None:
        terms = QUALITY_TERMS if self._draft.has_groups else ()  # otherwise nothing is generalised
        with tag("fieldset"):
            tag("legend", "Quality, price, recipients" if terms else "Price, recipients")
            with tag("div", look="cols"):
                for term in terms:
                    text_field(
                        f"Largest {term.name}",
                        getattr(self._draft, term.key),
                        self._set(term.key),
                        hint=term.help,
                        inputmode="decimal",
                    )
                text_field(
                    "Budget",
                    self._draft.budget,
                    self._set("budget"),
                    hint="The most it may cost, such as 25.00",
                    inputmode="decimal",
                )
                text_field(
                    "Recipients",
                    self._draft.recipients,
                    self._set("recipients"),
                    hint="Names of users, separated by commas or spaces. Empty: you alone",
                )
            if terms:
                tick(
                    "Show me losses and cost first",
                    self._draft.estimate,
                    self._estimate,
                    note="The release is made and waits for your word. Without this it waits only if it loses nearly"
                    " all of a column, or misses a limit above",
                )

    def _draw_roles(self) -> None:
        """Draw the columns that the method takes apart from the others."""
        for role, name in self._draft.roles.items():
            nothing = "choose" if self._draft.chosen_method.roles[role] else "none"
            options = {"": nothing} | {name: name for name in self._draft.candidates(role)}
            choice(role.capitalize(), options, name, self._role_chooser(role), hint=ROLE_HINTS[role])

    def _draw_sharer(self) -> None:
        """Draw the choice of who contributes the class, if there is one."""
        if self._draft.sharers:
            options = {"": "all who hold it"} | {name: name for name in self._draft.sharers}
            choice("Class contributed by", options, self._draft.class_from, self._set("class_from"))

    def _draw_protocol(self) -> None:
        kind = self._draft.view
        with tag("fieldset"):
            tag("legend", kind.legend)
            for each in kind.numbers if self._draft.has_groups else ():
                text_field(
                    each.label,
                    getattr(self._draft, each.key),
                    self._set(each.key),
                    hint=each.hint,
                    inputmode="numeric",
                )
            self._draw_method()
            tick(
                "Show the progress",
                self._draft.show_progress,
                self._show_progress,
                note=f"You watch {kind.watched}, where every party's policy allows it; otherwise the rounds alone",
            )

    def _draw_method(self) -> None:
        """Draw the method and its declared parameters."""
        draft = self._draft
        method = draft.chosen_method
        if len(draft.methods) > 1:
            names = {name: name for name in draft.methods}
            choice("Method", names, method.name, self._choose_method, hint=method.summary)
        with tag("div", look="cols"):
            for each in parameters_of(method):
                self._draw_parameter(each)

    def _draw_parameter(self, parameter: Parameter) -> None:
        label = PARAMETERS.get(parameter.name) or parameter.name.replace("_", " ").capitalize()
        change = self._setting(parameter.name)
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

    def _set(self, key: str) -> Callable[[str], None]:
        def change(text: str) -> None:
            setattr(self._draft, key, text)
            self._changed()

        return change

    def _estimate(self, wanted: bool) -> None:
        self._draft.estimate = wanted
        self._changed()

    def _show_progress(self, wanted: bool) -> None:
        self._draft.show_progress = wanted
        self._changed()

    def _choose_kind(self, kind: str) -> None:
        self._draft.kind = KINDS[kind].name
        self._chosen()

    def _choose_method(self, name: str) -> None:
        self._draft.method = name
        self._chosen()

    def _setting(self, name: str) -> Callable[[str], None]:
        def change(value: str) -> None:
            self._draft.choose_setting(name, value)
            self._chosen()

        return change

    def _chosen(self) -> None:
        self._refresh()
        self._changed()

    def _role_chooser(self, role: RoleName) -> Callable[[str], None]:
        def change(name: str) -> None:
            self._draft.name_role(role, name)
            self._chosen()

        return change

    # --- the coordinator ---

    def _changed(self) -> None:
        self._changes += 1
        background_tasks.create(
            self._settled(self._changes)
        )  # not a timer: the changed control may be gone by then

    async def _settled(self, change: int) -> None:
        await asyncio.sleep(_SETTLE)
        if change == self._changes and not self._preview_place.is_deleted:  # no later change
            with self._preview_place:
                await self._preview(change)

    async def _preview(self, change: int) -> None:
        content = self._draft.content()
        shown = await self._view.trying(
            self._view.ask(self._view.coordinator.preview, content), self._problems
        )
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
