"""The stewards' page: what waits for approval, what each contract lets leave, and the two buttons.

It is served on this machine alone, while the command that serves it runs, to whoever has its address: that holds a
secret, as long as the page. It works on the node's state folder, as `party approve` does; the node need not run.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache
from importlib import resources
from urllib.parse import parse_qs

from jinja2 import Environment, StrictUndefined, Template
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from masquerade.errors import MasqueradeError, one_line
from masquerade.service.api.headers import HEADERS, NOTHING
from masquerade.service.node.approvals import Approvals, Waiting
from masquerade.service.node.decide import decide
from masquerade.service.node.preview import preview
from masquerade.service.node.preview_text import described
from masquerade.service.node.settings import Settings
from masquerade.service.node.state import State

_MOST = 10_000  # bytes of a decision


def review_page(settings: Settings, operator: Mapping[str, str | None]) -> tuple[Starlette, str]:
    """Return the page as an application, and its secret path. `operator` is noted with every decision."""
    path = f"/{secrets.token_urlsafe(24)}"

    async def show(request: Request) -> Response:
        told = request.query_params.get("told", "")
        return HTMLResponse(await run_in_threadpool(_drawn, settings, told), headers=_headers())

    async def decided(request: Request) -> Response:
        body = await request.body()
        given = {key: each[0] for key, each in parse_qs(body[:_MOST].decode(errors="replace")).items()}
        reason = one_line(given.get("reason", "")) if given.get("say") == "refuse" else None
        if given.get("say") not in ("approve", "refuse"):
            return PlainTextResponse("Say approve or refuse.\n", 422)
        try:
            deal, _ = await run_in_threadpool(decide, settings, given.get("deal", ""), reason, operator)
        except MasqueradeError as error:
            return PlainTextResponse("\n".join(map(one_line, error.lines)) + "\n", 409)
        said = "approved" if reason is None else "refused"
        return RedirectResponse(f"{path}?told={said}+{deal[:12]}", 303, _headers())

    return Starlette(routes=[Route(path, show), Route(path, decided, methods=["POST"])]), path


def _headers() -> dict[str, str]:
    policy = NOTHING.replace("form-action 'none'", "form-action 'self'")
    return {**HEADERS, "Content-Security-Policy": f"{policy}; style-src 'unsafe-inline'"}


def _drawn(settings: Settings, told: str) -> str:
    waiting = Approvals(State(settings.state)).waiting()
    deals = [
        {"name": each.deal, "title": _title(settings, each), "lines": _lines(settings, each)}
        for each in waiting
    ]
    return _template().render(
        party=settings.name, told=told if told.startswith(("approved ", "refused ")) else "", deals=deals
    )


def _title(settings: Settings, waiting: Waiting) -> str:
    deal = waiting.contract.deal
    columns = ", ".join(column.name for column in waiting.contract.contract.columns_of(settings.name))
    return one_line(f"{deal.user}, for {deal.purpose}: {columns}")


def _lines(settings: Settings, waiting: Waiting) -> list[str]:
    provision = waiting.contract.deal.terms.provision(settings.name)
    dataset = settings.datasets.get(provision.dataset) if provision is not None else None
    try:
        made = preview(
            waiting.contract,
            settings.name,
            dataset.schema if dataset is not None else None,
            trust=settings.trust,
            own=settings.identity,
            clients=settings.clients,
        )
    except MasqueradeError as error:
        return [one_line(line) for line in error.lines]
    return [one_line(line) for line in described(made)]


@cache
def _template() -> Template:
    text = resources.files("masquerade.service.node").joinpath("review.html").read_text("utf-8")
    return Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(text)
