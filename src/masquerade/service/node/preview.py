"""What a contract lets leave this machine: every column, figure and side effect, and who gets to see it.

Made of the contract, and of the certificates that we know, so that a steward can look before anything is signed, read
or sent. docs/leakage.md has the reasons.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from jinja2 import Environment, StrictUndefined, Template
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from masquerade.arrangement import Arrangement
from masquerade.data import Schema
from masquerade.errors import MasqueradeError, ParameterError, one_line
from masquerade.methods import method_of, product_of
from masquerade.net import Identity, TrustStore
from masquerade.protocol import DisclosedClass, DisclosedColumn, LearningMethod
from masquerade.service.agree.arrangements import RULES, against, resting
from masquerade.service.agree.objections import used, verified_signer
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.signing import ClientCertificates, SignedContract, signers
from masquerade.service.agree.terms import Terms
from masquerade.service.api.middleware import HEADERS, NOTHING
from masquerade.service.clock import SYSTEM_CLOCK, Clock, seconds_since_1970
from masquerade.service.ledger import Ledger
from masquerade.service.node.admission import Approvals, Waiting, deal_id, decide
from masquerade.service.node.settings import NodeSettings
from masquerade.service.node.state import StateFolder


@dataclass(frozen=True)
class Preview:
    """A contract as a steward looks at it before it is signed."""

    party: str
    arrangement: Arrangement
    deal: str
    contract: str
    attempt: int
    attempts: int
    expiry: str
    expired: bool
    signed_by: tuple[str, ...]  # with a signature that fits
    not_signed_by: dict[str, str]  # who has a signature in it that does not, and why not
    dataset: str
    snapshot: str
    user: str
    request_signed_by: str | None  # the certificate of the user by which it was verified; None: nobody's
    purpose: str
    recipients: tuple[str, ...]
    parties: tuple[str, ...]
    requirements: tuple[str, ...]
    over_all_attributes: str  # how alike records are for somebody who knows all of them
    columns: tuple[DisclosedColumn, ...]
    class_column: DisclosedClass | None
    peers_learn: tuple[str, ...]
    figures: dict[str, str]
    stays: tuple[str, ...]
    protocol: dict[str, str]
    price: dict[str, int | None]  # cents
    so_far: tuple[str, ...] = ()  # of what the policy bounds by number, how much was used
    rolled_up_from: str | None = None  # the hash of an earlier release's terms: nothing leaves this machine

    def content(self) -> dict[str, Any]:
        """The preview as JSON."""
        made = {"kind" if name == "arrangement" else name: each for name, each in asdict(self).items()}
        made["class"] = made.pop("class_column")
        return made


def preview(
    contract: SignedContract,
    party: str,
    schema: Schema | None = None,
    *,
    trust: TrustStore | None = None,
    own: Identity | None = None,
    clients: ClientCertificates | None = None,
    policy: Policy | None = None,
    ledger: Ledger | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Preview:
    """Say what this party would disclose; ParameterError when it is none of the contract's parties.

    The dataset's `schema`, where it is known, shows what a generalised cell is made of. Signatures count as far as they
    fit the certificates in our own trust store, and `own`; the request's, as far as it fits those of `clients`. With
    the `policy` and the `ledger` it says how much of what is granted by number was used.
    """
    now = seconds_since_1970(clock)
    signatures = signers(contract, trust or TrustStore({}), own)
    deal, terms = contract.deal, contract.deal.terms
    provision = terms.provision(party)
    if provision is None:
        raise ParameterError(
            f"{party} is none of the contract's parties, {', '.join(terms.parties)}: nothing would leave"
        )
    price = deal.prices.get(party)
    parts, agreed = terms.parts, contract.contract
    method = method_of(agreed)
    people = method.min_records if isinstance(method, LearningMethod) else 0
    disclosure = method.disclosure(agreed, party, schema, show_steps=deal.show_progress)
    return Preview(
        party=party,
        arrangement=terms.arrangement,
        deal=deal_id(deal),
        contract=contract.hash.hex(),
        attempt=contract.attempt,
        attempts=deal.attempts,
        expiry=f"{datetime.fromtimestamp(contract.expiry, UTC):%Y-%m-%d %H:%M:%S} UTC",
        expired=contract.expiry <= now,
        signed_by=tuple(name for name, problem in signatures.items() if problem is None),
        not_signed_by={name: problem for name, problem in signatures.items() if problem is not None},
        dataset=provision.dataset,
        snapshot=provision.snapshot,
        user=deal.user,
        request_signed_by=verified_signer(deal, clients or ClientCertificates(), now),
        purpose=deal.purpose,
        recipients=deal.recipients,
        parties=terms.parties,
        requirements=(*map(str, parts), *against(terms.m), *resting(people)),
        over_all_attributes=_over_all_attributes(terms),
        columns=disclosure.columns,
        class_column=disclosure.class_column,
        peers_learn=disclosure.peers_learn,
        figures=disclosure.figures,
        stays=disclosure.stays,
        protocol=disclosure.protocol | {"version": str(terms.version)},
        price={
            "fixed": price.fixed if price is not None else 0,
            "per_record": price.per_record if price is not None else 0,
            "most_of_all_parties": deal.most_cost,
            "most_records": deal.records,
            "budget": deal.budget,
        },
        so_far=tuple(used(policy, terms, party, ledger, now)) if policy is not None and ledger is not None else (),
        rolled_up_from=terms.source,
    )


def _over_all_attributes(terms: Terms) -> str:
    """Say what somebody finds who knows all released attributes of a person, not the class and sensitive columns."""
    if not (made := product_of(terms)).has_groups:
        return made.shows
    qid = {column.name for column in terms.columns if column.role == "attribute"}
    k = max((part.implied_size for part in terms.parts if qid <= set(part.qid)), default=1)
    if k > 1:
        return f"at least {k} records agree on all released attributes of all parties together"
    return (
        f"a record may be the only one with its values of {', '.join(sorted(qid))}: no requirement is over all of them "
        "together, and whoever knows all of them of a person then finds that person's record; the report counts "
        "such records"
    )


# --- preview text -------------------------------------------------------------------------------------------
# A preview in words: what a contract lets leave a party's machine, for the person who decides.


def described(made: Preview) -> list[str]:
    """A preview for a person."""
    price = made.price
    lines = [
        f"deal {made.deal}",
        f"contract {made.contract}, attempt {made.attempt} of {made.attempts}, "
        f"{'expired' if made.expired else 'valid until'} {made.expiry}",
        f"signed by: {', '.join(made.signed_by) or 'nobody yet'}",
        *(f"the signature of {name} does not count: {why}" for name, why in made.not_signed_by.items()),
        f"asked by {made.user}, for {made.purpose}; the release goes to {', '.join(made.recipients)}",
        f"  signed by {made.user} with the certificate {made.request_signed_by}"
        if made.request_signed_by is not None
        else "  on the coordinator's word: no signature of the user is known to be right",
        f"parties: {', '.join(made.parties)}; from {made.dataset}, snapshot {made.snapshot}",
    ]
    if made.rolled_up_from is not None:
        lines.append(
            f"rolled up from the release {made.rolled_up_from}: the coordinator merges its groups, no protocol runs, "
            "and nothing leaves this machine anew; what follows is what the earlier release has shown"
        )
    lines += ["", f"These columns leave {made.party}, for {RULES[made.arrangement].of_a_party}:"]
    for column in made.columns:
        lines.append(f"  {column.name}: {column.form}; {column.cells}")
        lines += [f"    coarse enough for {each}" for each in column.coarse_enough_for if column.form != "as it is"]
        lines += [f"    guarded by {each}" for each in column.coarse_enough_for if column.form == "as it is"]
        lines += [f"    {who}: {what}" for who, what in column.shown_to.items()]
    if made.class_column is not None:
        lines.append(f"  {made.class_column.name}: the class")
        lines += [f"    {who}: {what}" for who, what in made.class_column.shown_to.items()]
    if not made.columns and made.class_column is None:
        lines.append("  none")
    lines += ["", "The release as a whole satisfies:", *(f"  {each}" for each in made.requirements)]
    lines.append(f"  for somebody who knows all attributes: {made.over_all_attributes}")
    lines += ["", "Others learn besides:", *(f"  {each}" for each in made.peers_learn)]
    if made.so_far:
        lines += ["", "Granted by number, so far:", *(f"  {each}" for each in made.so_far)]
    lines += ["", "Figures:", *(f"  {name}: {what}" for name, what in made.figures.items())]
    lines += ["", "What stays:", *(f"  {each}" for each in made.stays)]
    lines += ["", "Protocol: " + ", ".join(f"{name} {value}" for name, value in made.protocol.items())]
    lines.append(
        f"Price: {price['fixed']} cents and {price['per_record']} for each released record; "
        f"all parties together at most {price['most_of_all_parties']} of a budget of {price['budget']}"
    )
    return lines


# --- review -------------------------------------------------------------------------------------------------
# The stewards' page: what waits for approval, what each contract lets leave, and the two buttons.
#
# It is served on this machine alone, while the command that serves it runs, to whoever has its address: that holds a
# secret, as long as the page. It works on the node's state folder, as `party approve` does; the node need not run.

_MOST = 10_000  # bytes of a decision
_POLICY = NOTHING.replace("form-action 'none'", "form-action 'self'")
_HEADERS = {**HEADERS, "Content-Security-Policy": f"{_POLICY}; style-src 'unsafe-inline'"}


def review_page(settings: NodeSettings, operator: Mapping[str, str | None]) -> tuple[Starlette, str]:
    """Return the page as an application, and its secret path. `operator` is noted with every decision."""
    path = f"/{secrets.token_urlsafe(24)}"

    async def show(request: Request) -> Response:
        told = request.query_params.get("told", "")
        return HTMLResponse(await run_in_threadpool(_drawn, settings, told), headers=_HEADERS)

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
        return RedirectResponse(f"{path}?told={said}+{deal[:12]}", 303, _HEADERS)

    return Starlette(routes=[Route(path, show), Route(path, decided, methods=["POST"])]), path


def _drawn(settings: NodeSettings, told: str) -> str:
    waiting = Approvals(StateFolder(settings.state)).waiting()
    deals = []
    for each in waiting:
        deal = each.contract.deal
        columns = ", ".join(column.name for column in each.contract.contract.columns_of(settings.name))
        title = one_line(f"{deal.user}, for {deal.purpose}: {columns}")
        deals.append({"name": each.deal, "title": title, "lines": _lines(settings, each)})
    return _template().render(
        party=settings.name, told=told if told.startswith(("approved ", "refused ")) else "", deals=deals
    )


def _lines(settings: NodeSettings, waiting: Waiting) -> list[str]:
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
            policy=dataset.policy if dataset is not None else None,
            ledger=Ledger.load(StateFolder(settings.state).ledger),
        )
    except MasqueradeError as error:
        return [one_line(line) for line in error.lines]
    return [one_line(line) for line in described(made)]


@cache
def _template() -> Template:
    text = resources.files("masquerade.service.node").joinpath("review.html").read_text("utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(
        text
    )
