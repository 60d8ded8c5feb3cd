"""Objections to a request, from a policy and from earlier releases: each is one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from masquerade.data.schema import Schema
from masquerade.errors import hint
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.contract import OUTCOMES, Contribution, read_requirement, written_requirement
from masquerade.protocol.method import AskedMethod, Proposal, SessionMethod
from masquerade.protocol.product import ANSWER, MODEL, TABLE, Product
from masquerade.service.card import SchemaCard, unknown_column
from masquerade.service.fitness import unfit_columns
from masquerade.service.ledger import Ledger
from masquerade.service.policy import ANY, Policy
from masquerade.service.ratio_grants import against_columns, against_question
from masquerade.service.request import Request


def against_request(
    policy: Policy,
    request: Request,
    card: SchemaCard,
    mine: Sequence[Contribution],
    now: int,
) -> Iterator[str]:
    """Yield the policy's objections to the user, purpose, method and columns of a request."""
    yield from _about_people(policy, request)
    yield from _about_protocol(policy, request, now)
    yield from _about_columns(policy, request, card, mine)


def against_snapshot(policy: Policy, card: SchemaCard, ledger: Ledger, now: int) -> Iterator[str]:
    """Yield why the current table may not be released now, given the releases of its earlier snapshots."""
    if card.snapshot is None:
        yield f"{card.dataset} has not been read yet: there is no snapshot to commit to"
        return
    other = ledger.last_of_others(card.dataset, card.snapshot)
    if other is not None and now - other.time < policy.least_snapshot_interval:
        wait = policy.least_snapshot_interval - (now - other.time)
        yield (
            f"another snapshot of {card.dataset} was released {now - other.time} seconds ago; "
            f"a new one is released {wait} seconds from now at the earliest"
        )


def against_method(policy: Policy, method: SessionMethod) -> Iterator[str]:
    """Yield the policy's objections to a method and its parameters, by what it makes."""
    yield from _GRANTS[method.makes](policy, method)
    for name, asked, allowed in policy.allowed(method):
        if asked not in allowed:
            yield f'{name} "{asked}" is not allowed; allowed: {", ".join(allowed)}'


def _against_model(policy: Policy, method: SessionMethod) -> Iterator[str]:
    if not policy.allows_model(method.name):
        granted = ", ".join(policy.learn) or "none"
        yield f'models by "{method.name}" are not allowed; allowed: {granted}'


def _against_table(policy: Policy, method: SessionMethod) -> Iterator[str]:
    if not policy.tables:
        yield f"tables are not published; models that may be learned: {', '.join(policy.learn) or 'none'}"
    if policy.methods and method.name not in policy.methods:
        yield f'method "{method.name}" is not allowed; allowed: {", ".join(policy.methods)}'


_GRANTS: Mapping[Product, Callable[[Policy, SessionMethod], Iterator[str]]] = {
    TABLE: _against_table,
    MODEL: _against_model,
    ANSWER: against_question,
}


def against_schema(method: AskedMethod, mine: Sequence[Contribution], schema: Schema | None) -> Iterator[str]:
    """Yield what the method cannot do with this party's generalised attributes; all of them will be in a QID."""
    own = [column.name for column in mine if column.role == "attribute"]
    if schema is None or not own:
        return
    asked = Schema([schema[name] for name in own if name in schema])  # its other columns concern nobody
    for problem in method.refusals(Proposal((KAnonymity(own, 1),), schema=asked)):
        if problem.key[:1] == ("attributes",):
            yield f'"{problem.key[1]}": {problem.sentence}'


def triggered(
    policy: Policy, request: Request, own: Sequence[str]
) -> Iterator[tuple[GroupRequirement | None, GroupRequirement]]:
    """Yield each model whose sensitive attribute is released, over the wanted part of its QID (None if empty)."""
    for model in policy.models:
        if model.sensitive in request.released:
            wanted = own if ANY in model.qid else [name for name in model.qid if name in request.attributes]
            qid = [name for name in wanted if name != model.sensitive]
            yield (read_requirement(written_requirement(model) | {"qid": qid}) if qid else None), model


def _about_people(policy: Policy, request: Request) -> Iterator[str]:
    if not policy.allows_user(request.user):
        yield f'user "{request.user}" may not ask'
    for name in request.receivers:
        if name != request.user and not policy.allows_user(name):
            yield f'recipient "{name}" may not be given a release'
    if not policy.allows_purpose(request.purpose or ""):
        advice = hint(request.purpose or "", policy.purposes)
        allowed = ", ".join(policy.purposes) or "none"
        yield f'purpose "{request.purpose}" is not allowed{advice}; allowed: {allowed}'


def _about_protocol(policy: Policy, request: Request, now: int) -> Iterator[str]:
    objections = [[*against_method(policy, method)] for method in request.method.possible]
    if all(objections):  # where there is a choice, one way is enough
        yield from dict.fromkeys(chain(*objections))
    if request.deadline is not None and request.deadline <= now:
        yield "the request's deadline has passed"


def _about_columns(
    policy: Policy, request: Request, card: SchemaCard, mine: Sequence[Contribution]
) -> Iterator[str]:
    shares = request.class_name is not None and card.column(request.class_name) is not None
    if not mine and not shares:
        yield f"{card.dataset} has none of the wanted columns"
    for name, party in sorted(request.providers.items()):
        if party == card.party and card.column(name) is None:
            yield unknown_column(card, name)
    if card.identifier in request.released:
        yield f'"{card.identifier}" identifies people; it is never released'
    for name, objection in unfit_columns(request, card):
        yield f'"{name}" {objection}'
    raw = {column.name for column in mine if column.role not in ("attribute", *OUTCOMES)}
    for name in sorted(raw & {name for part in request.privacy for name in part.qid}):
        yield f'"{name}" is sensitive and released as it is; it cannot be in a QID'
    own = [column.name for column in mine if column.role == "attribute"]
    for name in sorted(
        {part.sensitive for part in request.privacy if part.sensitive in own and part.sensitive}
    ):
        yield f'"{name}" is an attribute and generalised; no requirement can protect it as sensitive'
    named = request.class_name
    if named is not None and request.providers.get(named, card.party) == card.party:
        column = card.column(named)
        if column is not None and column.role == "attribute" and request.method.makes.has_groups:
            yield f'"{named}" is an attribute and generalised; it cannot be the class, which is released as it is'
    if request.method.makes is ANSWER:
        yield from against_columns(policy, mine)
    for part, model in triggered(policy, request, own) if request.method.makes.has_groups else ():
        if part is None:
            yield f"{model.model} on {model.sensitive} is required, and no attribute of its QID is wanted"
