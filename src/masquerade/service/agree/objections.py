"""What a party has against a request, or against a deal read as one: a sentence each.

| about | by |
|---|---|
| who asks | the user's certificate, if this party has it; otherwise the coordinator's word |
| user, purpose, method, columns | the policy |
| columns that do not fit what is wanted of them | the dataset's card |
| ratios of joint keys, models | the policy's grants, and the ledger |
| a model of what a table guards, or the reverse | the ledger |
| another snapshot that was released just now | the ledger |
| alignments with a peer, and its identifiers | the policy's grants, and the ledger |

What earlier releases of the same snapshot have against it is in further_releases.py. A user whose certificate the party
has must sign: what the coordinator brings in that name is held against what was signed. Of anybody else the party has
the coordinator's word, unless its policy takes signed requests only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from masquerade.arrangement import ANSWER, ARRANGEMENTS, MODEL, TABLE
from masquerade.data import Schema
from masquerade.errors import ParameterError, Problem, hint
from masquerade.methods import product_of, written_method
from masquerade.net import fingerprint
from masquerade.privacy import GroupRequirement, KAnonymity
from masquerade.protocol import (
    OUTCOMES,
    AskedMethod,
    Contribution,
    JointKeys,
    Proposal,
    SessionMethod,
    read_requirement,
    written_requirement,
)
from masquerade.service.agree.further_releases import differences
from masquerade.service.agree.policy import ANY, WEEK, Policy
from masquerade.service.agree.request import ClientSignature, Request, read_request
from masquerade.service.agree.signing import ClientCertificates
from masquerade.service.agree.terms import Deal, Terms
from masquerade.service.cards import SchemaCard, unknown_column
from masquerade.service.ledger import Ledger

_STAY = (
    *("user", "purpose", "arrangement", "class_name", "duration", "event", "budget", "deadline", "attempts"),
    *("normalize", "most_error", "most_ncp", "most_query_error", "estimate"),
)


def against_requester(
    policy: Policy, request: Request, clients: ClientCertificates, now: int, deal: Deal | None = None
) -> Iterator[str]:
    """Yield why a request, or the `deal` that it is read from, is not taken to be its user's."""
    user, signed = request.user, request.signed
    certificate = clients.of(user)
    if signed is None and certificate is not None:
        yield f'the request is not signed, and "{user}" has a key of its own, known here'
    elif signed is None and policy.signed_requests:
        yield "the request is not signed by its client; only signed requests are taken"
    elif signed is not None and certificate is not None:
        problem = signed.problem(certificate, now)
        yield from (problem,) if problem is not None else departures(request, signed, deal)
    elif policy.signed_requests:
        yield f'no certificate of "{user}" is known here; only requests that it signed are taken'


def verified_signer(deal: Deal, clients: ClientCertificates, now: int) -> str | None:
    """Return the fingerprint of the certificate by which a deal is its user's; None: on the coordinator's word."""
    signed, certificate = deal.signed, clients.of(deal.user)
    if signed is None or certificate is None or signed.problem(certificate, now) is not None:
        return None
    try:
        request = deal.asked
    except ParameterError:
        return None
    return None if any(departures(request, signed, deal)) else fingerprint(certificate)


def departures(request: Request, signed: ClientSignature, deal: Deal | None = None) -> Iterator[str]:
    """Yield where a request, or a `deal` as a request, is not what its client signed, or a stricter form of it.

    The order of the attributes is: it decides between cuts that are equally good. In a deal those that are released as
    they are come last.
    """
    try:
        own = read_request(signed.request, "what was signed")
    except ParameterError as error:
        yield from error.lines
        return
    last = {column.name for column in deal.terms.columns if column.role == "sensitive"} if deal is not None else set()
    covers = ARRANGEMENTS[own.arrangement].covers
    known = Proposal(request.privacy, request.colluding)
    own = own.resting_on(request.min_records)  # on more people is stricter
    signed_ways = [written_method(each) for each in own.method.ways(known, own.class_name)]
    ways = [written_method(each) for each in request.method.ways(known, request.class_name)]
    unchanged = {
        **{name: getattr(request, name) == getattr(own, name) for name in _STAY},
        "recipients": request.receivers == own.receivers,
        "attributes": [*request.attributes] == sorted(own.attributes, key=lambda name: name in last),
        "privacy": all(any(covers(each, part) for each in request.privacy) for part in own.privacy),
        "m": request.colluding >= own.colluding,
        "algorithm": bool(ways) and all(each in signed_ways for each in ways),
        "providers": own.providers.items() <= request.providers.items(),
        "parties": not own.parties or {*own.parties} == {*request.parties},
        "show_progress": own.show_progress or not request.show_progress,
    }
    for name, same in unchanged.items():
        if not same:
            field = Request.model_fields.get(name)
            word = name if field is None else field.alias or name  # as a request has it
            yield f'{word}: not what "{own.user}" has signed'


def unfit_columns(request: Request, card: SchemaCard) -> Iterator[tuple[str, str]]:
    """Yield each column of a dataset that the request cannot have as it wants it, and why."""
    for name in request.contributed:
        column = card.column(name)
        if column is None or request.providers.get(name, card.party) != card.party:
            continue
        role = request.outcomes.get(name)
        if role == "duration" and column.kind != "continuous":
            yield name, f"is {column.kind}; a duration is a number"
        elif role is None and column.role in OUTCOMES:
            yield name, f"is the {column.role} of models of survival; it is nothing else, and never released"
        elif role is None and column.role != "attribute" and request.method.makes is MODEL:
            yield name, f"is declared as {column.role}; a model takes attributes alone"


def unfit_problems(request: Request, card: SchemaCard) -> Iterator[Problem]:
    """Yield the same as problems with the keys of the request."""
    for name, why in unfit_columns(request, card):
        yield Problem(f'"{name}" of {card.party} {why}', key=(request.key_of(name),))


# --- questions ----------------------------------------------------------------------------------------------
# Whether a policy reveals ratios of joint keys: of which columns, how exactly, over how many people, how
# many.
#
# Each ratio is an equation about a party's columns, and a peer that makes up its own column chooses the
# equation (docs/leakage.md). So nothing is granted unless the policy names a number, and the ledger counts:
# all ratios that were told of a snapshot, to whomever, since whoever asks may know the others; and in every
# run, since a peer may make up another column in each.


def against_question(policy: Policy, method: AskedMethod) -> Iterator[str]:
    """Yield the policy's objections to a question itself: whether, how exactly, over how many records."""
    granted = policy.joint_keys
    if not isinstance(method, JointKeys):
        yield f'questions by "{method.name}" are not answered'
        return
    if not granted.ratios:
        yield "ratios of joint keys are not told"
        return
    finest = float(granted.precision)
    if finest and (method.precision is None or method.precision < finest):
        asked = "exact ones" if method.precision is None else f"precision = {method.precision}"
        yield f"ratios are told in steps of {granted.precision} or more; asked for {asked}"
    fewest = min(method.least_records, method.sample or method.least_records)
    if fewest < granted.least_records:
        yield (
            f"ratios are told over {granted.least_records:,} common records or more "
            f"(least_records, and sample if there is one); asked for {fewest:,}"
        )


def against_number(policy: Policy, asked: Terms, card: SchemaCard, ledger: Ledger, *, runs: bool) -> Iterator[str]:
    """Yield that too many ratios, or models, of this snapshot would have been revealed.

    Unless it `runs` now, what was answered or learned before may be asked for again: a coordinator may still have it.
    `asked` may be a draft (`further_releases.py`), and then be such a question as far as this party knows. Peers have
    seen what a coordinator calls declined as well, so it counts.
    """
    made = product_of(asked)
    if not made.every_run_counts:
        return
    if not runs and shown_before(asked, card, ledger):
        return
    told = [each for each in _shown_of(card, ledger) if product_of(each) is made]  # as often as it ran
    if made is MODEL:
        before, most = len(told), policy.learn.models
        if before + 1 > most:
            yield f"{before} models of this snapshot of {card.dataset} were learned before; the policy grants {most}"
        return
    before, more, most = sum(map(_ratios, told)), _ratios(asked), policy.joint_keys.ratios
    if before + more > most:
        yield (
            f"{before} ratios of this snapshot of {card.dataset} were told before; "
            f"{more} more would exceed the {most} that the policy grants"
        )


def against_guarded_class(asked: Terms, card: SchemaCard, ledger: Ledger) -> Iterator[str]:
    """Yield that a model would tell what a requirement of a table guards, or has told it before the table is asked for.

    A requirement on a sensitive column bounds what the groups of a table tell of it; nothing bounds what they tell
    together with a model of that column.
    """
    for earlier in _shown_of(card, ledger):
        made, before = product_of(asked), product_of(earlier)
        model, table = (asked, earlier) if made is MODEL else (earlier, asked)
        if {made, before} != {MODEL, TABLE}:
            continue
        told = {model.class_name, *(column.name for column in model.columns if column.role in OUTCOMES)}
        for part in table.parts:
            if part.sensitive is None or part.sensitive not in told:
                continue
            if made is MODEL:
                yield (
                    f'"{part.sensitive}" was released in a table with {part}; a model of it and that table could '
                    "together tell more of a person; allowed: a model of another class"
                )
            else:
                yield (
                    f'a model of "{part.sensitive}" was learned of this snapshot; together with it a table could tell '
                    f"more of a person than {part} allows; allowed: a table without {part.sensitive}"
                )


def shown_before(asked: Terms, card: SchemaCard, ledger: Ledger) -> bool:
    """Return whether the same was made of this snapshot before: then the coordinator may still have it."""
    return any(not differences(each, asked) for each in _shown_of(card, ledger))


def _shown_of(card: SchemaCard, ledger: Ledger) -> list[Terms]:
    """Return the terms of everything that peers have seen of this snapshot, declined or not."""
    if card.snapshot is None:
        return []
    of = card.dataset, card.snapshot
    return [each.terms for each in (*ledger.of_snapshot(*of), *ledger.declined_of(*of)) if each.terms.source is None]


def _ratios(terms: Terms) -> int:
    """Return how many ratios a question opens."""
    return len(terms.method.get("sets") or ((),))


# --- alignments ---------------------------------------------------------------------------------------------
# An alignment tells each peer which of the people on its list are in the table, before any requirement
# matters. Whoever begins and breaks off sessions could ask for any guessed identifiers, so the ledger
# counts: how often each peer aligned, and how many identifiers it submitted.


def against_alignments(
    policy: Policy, asked: Terms, peers: Iterable[str], card: SchemaCard, ledger: Ledger, now: int
) -> Iterator[str]:
    """Yield that a peer has aligned with this dataset as often as it may, or has submitted all identifiers."""
    granted = policy.alignments
    if asked.arrangement != "vertical" or asked.source is not None:  # nobody looks for common records
        return
    for peer in sorted({*peers} - {card.party}):
        times, identifiers = ledger.aligned_with(peer, card.dataset, now - WEEK)
        if times >= granted.per_week:
            yield f"{times} alignments with {peer} in the last 7 days; the policy allows {granted.per_week}"
        elif identifiers >= granted.identifiers_per_week:
            yield against_identifiers(policy, peer)


def used(policy: Policy, asked: Terms, party: str, ledger: Ledger, now: int) -> Iterator[str]:
    """Yield how much of what the policy bounds by number was used before these terms, for the party's steward."""
    provision = asked.provision(party)
    if provision is None or asked.source is not None:
        return
    of, made = (provision.dataset, provision.snapshot), product_of(asked)
    shown = [each.terms for each in (*ledger.of_snapshot(*of), *ledger.declined_of(*of))]
    told = [each for each in shown if product_of(each) is made]
    if made is MODEL:
        yield f"models of this snapshot: {len(told)} of {policy.learn.models}"
    elif made is ANSWER:
        yield f"ratios of this snapshot: {sum(map(_ratios, told))} of {policy.joint_keys.ratios}"
    granted = policy.alignments
    for peer in asked.parties if asked.arrangement == "vertical" else ():
        if peer != party:
            times, identifiers = ledger.aligned_with(peer, provision.dataset, now - WEEK)
            yield (
                f"alignments with {peer} in the last 7 days: {times} of {granted.per_week}; identifiers that it "
                f"submitted: {identifiers:,} of {granted.identifiers_per_week:,}"
            )


def against_identifiers(policy: Policy, peer: str) -> str:
    """Say that a peer may not submit its list. How long that is, is for the ledger alone."""
    most = policy.alignments.identifiers_per_week
    return f"{peer} may submit {most:,} identifiers in 7 days by the policy, and has or would with this list"


def against_request(
    policy: Policy, request: Request, card: SchemaCard, mine: Sequence[Contribution], now: int
) -> Iterator[str]:
    """Yield the policy's objections to the user, purpose, method and columns of a request."""
    for name in dict.fromkeys((request.user, *request.receivers)):
        if not policy.allows_user(name):
            asks = name == request.user
            yield f'user "{name}" may not ask' if asks else f'recipient "{name}" may not be given a release'
    if not {ANY, request.purpose or ""} & {*policy.purposes}:
        advice, allowed = hint(request.purpose or "", policy.purposes), ", ".join(policy.purposes) or "none"
        yield f'purpose "{request.purpose}" is not allowed{advice}; allowed: {allowed}'
    objections = [[*against_method(policy, method)] for method in request.method.possible]
    if all(objections):  # where there is a choice, one way is enough
        yield from dict.fromkeys(chain(*objections))
    if request.deadline is not None and request.deadline <= now:
        yield "the request's deadline has passed"
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
    granted = ", ".join(policy.learn.methods) or "none"
    if method.makes is ANSWER:
        yield from against_question(policy, method)
    elif method.makes is MODEL:
        if not {ANY, method.name} & {*policy.learn.methods}:
            yield f'models by "{method.name}" are not allowed; allowed: {granted}'
    else:
        if not policy.tables:
            yield f"tables are not published; models that may be learned: {granted}"
        if policy.methods and method.name not in policy.methods:
            yield f'method "{method.name}" is not allowed; allowed: {", ".join(policy.methods)}'
    for name, asked, allowed in policy.allowed(method):
        if asked not in allowed:
            yield f'{name} "{asked}" is not allowed; allowed: {", ".join(allowed)}'


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


def _about_columns(policy: Policy, request: Request, card: SchemaCard, mine: Sequence[Contribution]) -> Iterator[str]:
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
    for name in sorted({part.sensitive for part in request.privacy if part.sensitive in own and part.sensitive}):
        yield f'"{name}" is an attribute and generalised; no requirement can protect it as sensitive'
    named = request.class_name
    if named is not None and request.providers.get(named, card.party) == card.party:
        column = card.column(named)
        if column is not None and column.role == "attribute" and request.method.makes.has_groups:
            yield f'"{named}" is an attribute and generalised; it cannot be the class, which is released as it is'
    if request.method.makes is MODEL:
        yield from _about_model_columns(policy, request, card, own)
    granted = policy.joint_keys.columns
    for each in mine if request.method.makes is ANSWER else ():
        if granted and each.name not in granted:
            yield f'"{each.name}" may not be in a joint key; allowed: {", ".join(granted)}'
        if not granted and each.role != "attribute":
            yield f'"{each.name}" is sensitive; it may be in a joint key only where the policy names it'
    for part, model in triggered(policy, request, own) if request.method.makes.has_groups else ():
        if part is None:
            yield f"{model.model} on {model.sensitive} is required, and no attribute of its QID is wanted"


def _about_model_columns(policy: Policy, request: Request, card: SchemaCard, own: Sequence[str]) -> Iterator[str]:
    """Yield the attributes that may not be in a model, and what it may not predict."""
    granted, classes = policy.learn.columns, policy.learn.classes
    for name in own if granted else ():
        if name not in granted:
            yield f'"{name}" may not be in a model; allowed: {", ".join(granted)}'
    for name in request.roles.values():  # what it predicts: the class, or how long and whether
        column = card.column(name) if request.providers.get(name, card.party) == card.party else None
        if column is None or name in (*classes, *own):
            continue
        if column.role == "sensitive":
            yield (
                f'"{name}" is sensitive; a model may predict it only where the policy names it; '
                f"named: {', '.join(classes) or 'none'}"
            )
        elif column.role == "attribute" and granted and name not in granted:
            yield f'"{name}" may not be in a model; allowed: {", ".join(granted)}'
