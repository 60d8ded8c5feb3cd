"""One session: its state, offers and contract, each party's progress, and the client's possible actions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nicegui import ui
from nicegui.element import Element

from masquerade.console.elements import bullets, button, facts, link, tag, text_field
from masquerade.console.frame import SignedOut, View, leave, page, problem_place
from masquerade.console.guard import PREFIX
from masquerade.console.request_preview import acceptable
from masquerade.console.session_parts import (
    draw_contract,
    draw_held,
    draw_lines,
    draw_offers,
    draw_progress,
    draw_request,
    draw_stepper,
    draw_trees,
    draw_warnings,
    draw_who_sees,
    kind_facts,
)
from masquerade.console.session_progress import SessionProgress
from masquerade.console.words import STATUS, asked_product, kind_of, look_of, moment, short
from masquerade.errors import MasqueradeError
from masquerade.service import (
    Event,
    PartyOffer,
    RequestPreview,
    SessionRecord,
    Status,
    User,
    limits_of,
    missed_terms,
    said_of_binding,
)

_News = tuple[SessionRecord, list[Event], list[PartyOffer], tuple[str, ...], RequestPreview | None, tuple[str, ...]]

_EVERY = 0.7
_PAGE = 500  # events per request


@page("/sessions/{session_id}", "Session")
async def session_page(view: View) -> None:
    """Draw the page, which polls for news."""
    shown = _Shown(view, view.parameters["session_id"])
    await shown.load()
    ui.page_title(f"Session {short(shown.session.id)} · Masquerade")
    shown.draw()
    ui.timer(_EVERY, shown.refresh)


class _Shown:
    def __init__(self, view: View, session_id: str) -> None:
        self._view, self._id = view, session_id
        self._progress = SessionProgress()
        self._places: dict[str, Element] = {}
        self._busy = False
        self.session: SessionRecord
        self._offers: list[PartyOffer] = []
        self._reasons: tuple[str, ...] = ()
        self._foreseen: RequestPreview | None = None  # once it is refused: what would be accepted
        self._warnings: tuple[str, ...] = ()  # once it is published: what to know before using it

    async def load(self) -> None:
        """Load the session and all its events so far."""
        self._take(await self._view.ask(self._look, True))

    def _look(self, user: User, whole: bool) -> _News:
        """Fetch everything new in one call."""
        coordinator = self._view.coordinator
        last, events = self._progress.last, []
        while True:
            new = coordinator.events(user, self._id, last)
            events += new
            if len(new) < _PAGE:
                break
            last = new[-1].number
        telling = any(event.kind not in ("progress", "step") for event in events)
        offers = coordinator.offers(user, self._id) if whole or telling else self._offers
        session = coordinator.session(user, self._id)  # last, so that it is no older than its events
        foreseen = self._foreseen
        if session.status is Status.REFUSED and foreseen is None and session.client == user.name:
            foreseen = coordinator.preview(user, dict(session.request))
        warnings = self._warnings
        if session.status is Status.PUBLISHED and user.name in (session.client, *session.recipients):
            warnings = tuple(coordinator.summary(user, session.id).get("warnings") or ())
        return session, events, offers, coordinator.reasons(session), foreseen, warnings

    def _take(self, found: _News) -> set[str]:
        self.session, events, self._offers, self._reasons, self._foreseen, self._warnings = found
        return self._progress.take(events)

    async def refresh(self) -> None:
        """Poll for news and redraw only what changed."""
        told = self._progress.reached[-1:] == [self.session.status]
        if self._busy or (self.session.status.final and told):
            return
        self._busy = True
        before = self.session
        try:
            changed = self._take(await self._view.look(self._look, False))
        except SignedOut:
            leave()
            return
        except MasqueradeError:
            return  # the next poll tries again
        finally:
            self._busy = False
        for part in changed | ({"status"} if self.session != before else set()):
            self._draw_part(part)
        if self.session.status is not before.status:
            self._view.say(f"The session is {STATUS[self.session.status]}")

    # --- drawing ---

    def draw(self) -> None:
        """Draw the whole page."""
        session = self.session
        tag("h1", f"Session {short(session.id)}")
        self._places["status"] = tag("div")
        for name, title in (
            ("progress", "Progress"),
            ("steps", "Specializations"),
            ("offers", "Negotiation"),
            ("request", "What was asked"),
            ("lines", "What happened"),
        ):
            with tag("section") as section:
                tag("h2", title)
                self._places[name] = tag("div")
            self._places[f"{name} section"] = section
        for part in ("status", "progress", "steps", "offers", "request", "lines"):
            self._draw_part(part)

    def _draw_part(self, part: str) -> None:
        place = self._places[part]
        place.clear()
        session, progress = self.session, self._progress
        with place:
            match part:
                case "status":
                    self._draw_status()
                case "progress":
                    draw_progress(progress, kind_of(session.request).rounds)
                case "steps":
                    draw_trees(progress)
                case "offers":
                    draw_offers(self._offers, progress, self._view.money)
                    draw_contract(session)
                case "request":
                    draw_request(session, self._view.money)
                case "lines":
                    draw_lines(progress)
        if part == "progress":
            self._places["progress section"].set_visibility(bool(progress.by_party))
        if part == "steps":
            self._places["steps section"].set_visibility(bool(progress.steps))

    def _draw_status(self) -> None:
        session = self.session
        draw_stepper(session, self._progress)
        with tag("p"):
            tag("span", STATUS[session.status], look_of(session.status))
            tag("span", f" for {session.purpose}, asked by {session.client} on {moment(session.created)}", "quiet")
        if self._reasons and session.status is not Status.PUBLISHED:
            ended_badly = session.status in (Status.REFUSED, Status.FAILED)
            with tag("div", look="problems" if ended_badly else "asked"), tag("ul"):
                for reason in self._reasons:
                    tag("li", reason)
        draw_warnings(self._warnings)
        # What the parties would accept instead of what they refused.
        lines = acceptable(self._foreseen, self._view.money) if self._foreseen is not None else []
        if session.status is Status.REFUSED and lines:
            with tag("section", look="asked"):
                tag("h2", "What would be accepted")
                bullets(lines)
        for party in self._progress.approvals:
            if session.status is Status.NEGOTIATING:
                tag("p", f"A person at {party} has to approve the contract.", "asked")
        self._problems = problem_place()
        mine = session.client == self._view.user.name
        if session.status is Status.AWAITING_CLIENT:
            self._draw_question(mine)
        with tag("div", look="row"):
            if session.status is Status.PUBLISHED and self._view.user.name in (session.client, *session.recipients):
                made = asked_product(session.request)
                title = "Release" if made.has_groups else made.name.capitalize()
                link(f"{title} and report", f"{PREFIX}/sessions/{session.id}/release", "act first")
            if mine and session.status.final and session.status is not Status.PUBLISHED:
                link("Change and ask again", f"{PREFIX}/request?again={session.id}", "act first")
            if not session.status.final:
                button(
                    "Cancel the session",
                    partial(self._do, self._view.coordinator.cancel),
                    "danger",
                    sure="Cancel the session? What was computed is lost, nothing is published and nothing is"
                    " charged. It cannot be resumed.",
                )
        facts(
            [
                *kind_facts(session),
                ("Parties", ", ".join(session.providers)),
                ("Recipients", ", ".join(session.recipients) or session.client),
                ("Attempt", _attempt(session)),
                ("Started", moment(session.started)),
                (
                    "Finished" if session.status.final else "Waits at most until",
                    moment(session.finished or session.expires),
                ),
            ]
        )
        draw_who_sees(session)

    def _draw_question(self, mine: bool) -> None:
        told = limits_of(self.session.request) | dict(self._progress.quality or {})
        with tag("section", look="asked"):
            tag("h2", "The release is made, and waits for you" if mine else "The release waits for its client")
            draw_held(told, self._view.money)
            binding = said_of_binding(told)
            tag("p", f"Nothing is published before you say so{f': {binding}' if binding else ''}.")
            if not mine:
                tag("p", f"{self.session.client} decides.")
                return
            self._relaxed = {term.key: "" for term in missed_terms(told)}
            with tag("div", look="row"):
                button("Accept it as it is", partial(self._do, self._view.coordinator.accept), "first")
                button(
                    "Decline it",
                    partial(self._do, self._view.coordinator.withdraw),
                    sure="Decline the release? It is deleted, nobody is given it, and nothing is charged.",
                )
            if not self._relaxed:
                return
            with tag("div", look="cols"):
                for term in missed_terms(told):
                    change = partial(self._relaxed.__setitem__, term.key)
                    hint = "Empty: any. A table that meets it is published"
                    text_field(f"Or relax: largest {term.name}", "", change, hint=hint, inputmode="decimal")
            button("Relax", self._relax)

    # --- actions ---

    async def _relax(self) -> None:
        content = {key: text.strip().replace(",", ".") or None for key, text in self._relaxed.items()}
        await self._do(lambda user, session: self._view.coordinator.relax(user, session, content))

    async def _do(self, action: Callable[[User, str], SessionRecord]) -> None:
        if await self._view.trying(self._view.ask(action, self._id), self._problems) is not None:
            await self.refresh()


def _attempt(session: SessionRecord) -> str:
    """Return the number of the attempt; reusing a kept table for the same terms takes none."""
    if session.status is Status.PUBLISHED and not session.attempts:
        return "none: the release was there already"
    return f"{session.attempts} of {session.attempt_limit}"
