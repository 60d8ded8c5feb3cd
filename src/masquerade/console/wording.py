"""How the console words states, times, amounts and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from masquerade.console.kinds import kind_of
from masquerade.methods import product_by, unnamed_method
from masquerade.protocol.method import RoleName
from masquerade.protocol.product import Product
from masquerade.report.wording import figure
from masquerade.service.session_states import Status

STATUS: Mapping[Status, str] = {
    Status.REQUESTED: "requested",
    Status.NEGOTIATING: "negotiating",
    Status.REFUSED: "refused",
    Status.AGREED: "agreed",
    Status.QUEUED: "queued",
    Status.RUNNING: "running",
    Status.ASSEMBLING: "assembling",
    Status.AWAITING_CLIENT: "waits for the client",
    Status.PUBLISHED: "published",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
    Status.EXPIRED: "expired",
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
    if status is Status.PUBLISHED:
        return "mark good"
    if status in (Status.REFUSED, Status.FAILED):
        return "mark bad"
    if status is Status.AWAITING_CLIENT:
        return "mark wait"
    return "mark"


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
