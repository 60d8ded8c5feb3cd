"""The kinds of sessions as the console shows them: one object a kind, which forms and pages ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from masquerade.arrangement import Arrangement, Product
from masquerade.methods import product_by, unnamed_method
from masquerade.protocol import RoleName
from masquerade.report import figure
from masquerade.service import DEFAULT_ARRANGEMENT, RequestPreview, Status, read_request

if TYPE_CHECKING:
    from masquerade.console.draft import RequestDraft

Facts = list[tuple[str, object]]


class KindView(ABC):
    """How sessions of one kind are asked for and shown."""

    name: ClassVar[Arrangement]
    title: ClassVar[str]
    example: ClassVar[str]
    brief: ClassVar[str]  # in a word or two
    rounds: ClassVar[str] = "Rounds"  # what a party's rounds count
    watched: ClassVar[str] = "the stages"  # where the progress is shown
    legend: ClassVar[str] = "Protocol"
    numbers: ClassVar[tuple[tuple[str, str, str], ...]] = ()  # of tables: name in the draft, label and hint
    least_holders: ClassVar[int] = 1  # of each column that can be asked for
    # Whether every party holds all columns: a column is chosen once, and the client says who takes part.
    every_party_holds_all: ClassVar[bool] = False

    def sharers(self, holders: list[str]) -> list[str]:
        """Return the parties of which one can be chosen to contribute the class."""
        return []

    @abstractmethod
    def content(self, draft: RequestDraft) -> dict[str, Any]:
        """Return the keys that only requests of this kind have."""

    def problems(self, draft: RequestDraft) -> list[str]:
        """Return the problems that do not show in the request itself."""
        return []

    @abstractmethod
    def contributors(self, shown: RequestPreview) -> tuple[str, list[str]]:
        """Return who would take part, as a heading and lines."""

    @abstractmethod
    def asked(self, asked: Mapping[str, Any]) -> Facts:
        """Return what only requests of this kind ask for."""

    def agreed(self, asked: Mapping[str, Any], terms: Mapping[str, Any]) -> Facts:
        """Return what only contracts of this kind agree on; without terms, what was asked."""
        return []


class JoinedColumns(KindView):
    """Vertical sessions."""

    name = "vertical"
    title = "Different columns about the same people"
    example = "Such as a bank and a clinic that know the same persons. What they know of a person is joined in one row."
    brief = "columns joined"
    watched = "the stages and the taxonomies being cut"

    def sharers(self, holders: list[str]) -> list[str]:
        """All that hold the class, where there is a choice."""
        return holders if len(holders) > 1 else []

    def content(self, draft: RequestDraft) -> dict[str, Any]:
        """Who contributes what several parties hold."""
        providers = {each.name: each.party for each in draft.chosen if len(draft.holders(each.name)) > 1}
        if draft.class_from in draft.sharers:
            providers[draft.class_name] = draft.class_from
        return {"providers": providers}

    def contributors(self, shown: RequestPreview) -> tuple[str, list[str]]:
        """The holders of each column."""
        found = shown.contributors.items()
        return "Who contributes", [f"{name}: {', '.join(parties) or 'nobody'}" for name, parties in found]

    def asked(self, asked: Mapping[str, Any]) -> Facts:
        """Whether the client watches."""
        shown = "shown, where all parties allow it" if asked.get("show_progress") else "not shown"
        return [("Progress", shown)]


class PooledRecords(KindView):
    """Horizontal sessions."""

    name = "horizontal"
    title = "The same columns about different people"
    example = "Such as hospitals, each with patients of its own. Their records are published together, as one table."
    brief = "records pooled"
    rounds = "Cuts tried"
    legend = "Between the providers"
    numbers = (
        (
            "m",
            "How many providers may collude (m)",
            "Even if so many put their own records together, the requirement holds for the people of the others. 0:"
            " against outsiders alone",
        ),
    )
    least_holders = 2
    every_party_holds_all = True

    def content(self, draft: RequestDraft) -> dict[str, Any]:
        """Who takes part, and how many may collude."""
        return {"parties": draft.together, **({"m": draft.number("m")} if draft.has_groups else {})}

    def problems(self, draft: RequestDraft) -> list[str]:
        """Nobody is left to publish."""
        if draft.able and not draft.together:
            return ["parties: none is ticked; at least two must take part"]
        return []

    def contributors(self, shown: RequestPreview) -> tuple[str, list[str]]:
        """The providers."""
        return "Who takes part", list(shown.parties)

    def asked(self, asked: Mapping[str, Any]) -> Facts:
        """The providers, and how many of them may collude."""
        wish = read_request(asked)
        return [
            ("Providers", ", ".join(asked.get("parties") or ()) or "all that have these columns"),
            *([("Providers that may collude", str(wish.colluding))] if wish.method.makes.has_groups else []),
        ]

    def agreed(self, asked: Mapping[str, Any], terms: Mapping[str, Any]) -> Facts:
        """How many providers may collude."""
        wish = read_request(asked)
        if not wish.method.makes.has_groups:
            return []
        wished = wish.colluding
        agreed = terms.get("m", wished)
        more = "" if agreed == wished else f"; asked for {wished}"
        return [("Providers that may collude", f"{agreed}{more}")]


KINDS: Mapping[str, KindView] = {each.name: each for each in (JoinedColumns(), PooledRecords())}


def kind_of(request: Mapping[str, Any]) -> KindView:
    """Return the kind of a request."""
    return KINDS[request.get("kind", DEFAULT_ARRANGEMENT)]


# --- wording ------------------------------------------------------------------------------------------------
# How the console words states, times, amounts and sizes.

STATUS: Mapping[Status, str] = {
    **{status: status.value for status in Status},
    Status.AWAITING_CLIENT: "waits for the client",
}

THIRD_PARTIES: Mapping[str, tuple[str, str]] = {
    "secure": (
        "Secure",
        "No provider's records are seen by anybody else; this coordinator gets the finished rows of the release.",
    ),
    "trusted": (
        "Trusted",
        "This coordinator gets every provider's records as they are, and the providers see nothing of each other;"
        " each must allow it in its policy.",
    ),
}

PARAMETERS: Mapping[str, str] = {"argmax": "Comparison of scores"}  # where a method's own name says little

ROLE_HINTS: Mapping[RoleName, str] = {
    "class": "What a classifier will predict",
    "duration": "How long each person was followed: a number",
    "event": "Whether that ended by the event: 1 or 0, yes or no",
}


def asked_method(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the requested method with its parameters, or the one for requests that name none."""
    return request.get("algorithm") or unnamed_method(kind_of(request).name).settings()


def asked_product(request: Mapping[str, Any]) -> Product:
    """Return what a request asks for; of a model or an answer no requirement or quality term says anything."""
    return product_by(request.get("algorithm"))


def look_of(status: Status) -> str:
    """Return the CSS classes of a status mark."""
    looks = {Status.PUBLISHED: " good", Status.REFUSED: " bad", Status.FAILED: " bad", Status.AWAITING_CLIENT: " wait"}
    return f"mark{looks.get(status, '')}"


def moment(time: datetime | None) -> str:
    """Format a time in UTC; "–" for None."""
    return "–" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def money(cents: int, currency: str) -> str:
    """Format cents as an amount with two decimals and its currency."""
    return f"{'−' if cents < 0 else ''}{abs(cents) // 100:,}.{abs(cents) % 100:02d} {currency}"


def size(count: float) -> str:
    """Format a number of bytes in a unit that keeps it short (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return ""


def number(value: Any) -> str:
    """Format a figure of a summary as the report does."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "–" if value is None else str(value)
    return figure(value)


def share(written: Any) -> str:
    """Format a number from 0 to 1 with three significant digits; other values as text."""
    try:
        return f"{float(written):.3g}"
    except (TypeError, ValueError):
        return str(written)


def short(identifier: str | None) -> str:
    """Return the first eight characters of an identifier."""
    return "–" if not identifier else identifier[:8]


def requirement(written: Mapping[str, Any]) -> str:
    """Describe a requirement from an offer in words."""
    parameters = ", ".join(
        f"{key} = {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for key, value in written.items()
        if key not in ("model", "qid") and value is not None
    )
    over = ", ".join(map(str, written.get("qid") or ()))
    return f"{written.get('model', '?')} ({parameters}) over {over}"
