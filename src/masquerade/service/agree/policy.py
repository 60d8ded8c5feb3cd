"""A party's policy: who may ask, for what, how strictly, by which protocol, at what price. Written by its steward.

Nothing is open by default: without `users` nobody may ask, without `purposes` for nothing. answering.py applies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from masquerade.data.schema import Schema
from masquerade.errors import Key, ParameterError, Problem, hint
from masquerade.forms.declared import parameters_of
from masquerade.forms.form import Form, Problems, key, read_form
from masquerade.forms.rules import quoted
from masquerade.methods import (
    full_name,
    learning_methods,
    methods_between_parties,
    parameters_by_method,
    product_of,
)
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.contract import (
    ANSWER,
    MODEL,
    OUTCOMES,
    TABLE,
    Contribution,
    Product,
    read_requirement,
    written_requirement,
)
from masquerade.protocol.joint_keys import LEAST_RECORDS, JointKeys
from masquerade.protocol.method import AskedMethod, Proposal, SessionMethod
from masquerade.service.agree.boundary_terms import MOST_WHOLE, PolicyBoundary
from masquerade.service.agree.fitness import unfit_columns
from masquerade.service.agree.further_releases import differences
from masquerade.service.agree.request import MOST_COLLUDING, Cents, Request, Share, Text, Texts, read_privacy
from masquerade.service.agree.terms import PriceList, ServiceLevel, Terms
from masquerade.service.cards import SchemaCard, unknown_column
from masquerade.service.ledger import Ledger

ANY = "*"  # in `purposes`: any purpose; in a requirement's qid: all attributes that this party releases

WEEK = 7 * 86_400  # seconds
MOST_RATIOS = 1_000_000
MOST_DECLINED = 1000
MOST_SECONDS = 3_600  # of a response time: what takes longer is no answer

_CENTS = "a whole number of cents, of at least 0"


class Prices(BaseModel):
    """`[price]`: cents for each attribute, unless it has a price of its own, and for each released record."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    per_attribute: Cents = key(0, description=_CENTS)
    per_record: Cents = key(0, description=_CENTS)
    attributes: dict[Text, Cents] = key({}, description="a table of cents, such as { salary = 500 }")

    @property
    def listed(self) -> PriceList:
        """The same, as it is shown to others."""
        return PriceList(**self.model_dump())


class JointKeyGrants(BaseModel):
    """`[joint_keys]`: what may be revealed of how far this party's columns and others' together identify people."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ratios: Annotated[int, Field(ge=0, le=MOST_RATIOS)] = key(
        0, description=f"a whole number from 0 to {MOST_RATIOS}: so many of one snapshot, in all; 0 for none"
    )
    columns: Texts = key((), description='a list of columns, such as ["age"]; without it, all attributes')
    precision: Share = key(
        "0.01",
        description="a number of at least 0 and at most 1: the finest steps of a ratio; 0 for exact ones",
    )
    least_records: Annotated[int, Field(ge=1, le=MOST_WHOLE)] = key(
        LEAST_RECORDS, description="a whole number of at least 1: over fewer common records no ratio is told"
    )


class Policy(Form):
    """What a party agrees to, for one dataset."""

    access: Literal["private", "public"] = key("private", description='one of "private", "public"')
    users: Texts = key((), description='a list of users, such as ["ana"]')
    purposes: Texts = key((), description='a list of purposes, such as ["research"], or ["*"] for any')
    least_k: Annotated[int, Field(ge=1, le=MOST_WHOLE)] | None = key(
        None, description="a whole number from 1 to 2^53 − 1"
    )
    privacy: Annotated[tuple[GroupRequirement, ...], Field(strict=False)] = key(
        (), description="a list of tables, each written [[privacy]] in double brackets"
    )
    joint_qid: Literal["all", "asked"] = key("all", description='one of "all", "asked"')
    methods: dict[Text, dict[Text, Texts]] = key(
        {},
        description='a table of methods and what is allowed of each, such as { tds = { argmax = ["secure"] } }',
    )
    learn: Texts = key(
        (), description='a list of methods that learn a model, such as ["logistic"], or ["*"] for any'
    )
    tables: bool = key(True, description="true or false")
    joint_keys: JointKeyGrants = key(JointKeyGrants(), description="a table, written [joint_keys]")
    least_m: Annotated[int, Field(ge=0, le=MOST_COLLUDING)] | None = key(  # None: no horizontal sessions
        None, description=f"a whole number from 0 to {MOST_COLLUDING}: so many other providers may collude"
    )
    boundaries: dict[Text, PolicyBoundary] = key(
        {}, description="a table for each attribute that has some, such as [boundaries.age]"
    )
    price: Prices = key(Prices(), description="a table, written [price]")
    sessions: Annotated[int, Field(ge=1, le=1000)] = key(4, description="a whole number from 1 to 1000")
    needs_approval: bool = key(False, description="true or false")
    signed_requests: bool = key(False, description="true or false")
    allow_rerelease: bool = key(False, description="true or false")
    max_declined: Annotated[int, Field(ge=0, le=MOST_DECLINED)] = key(
        3,
        description=f"a whole number from 0 to {MOST_DECLINED}: so many releases of one snapshot may be declined by"
        " their client, and do not count as released",
    )
    least_snapshot_interval: Annotated[int, Field(ge=0, le=MOST_WHOLE)] = key(
        WEEK, description="a whole number of seconds, of at least 0"
    )
    response_time: Annotated[int, Field(ge=1, le=MOST_SECONDS)] | None = key(
        None,
        description=f"a whole number of seconds from 1 to {MOST_SECONDS}: by then 95 % of the answers come",
    )
    availability: Share | None = key(
        None, description="a number of at least 0 and at most 1: the share of calls that is answered"
    )
    share_class: bool = key(False, description="true or false")
    show_progress: bool = key(False, description="true or false")
    publish_records: bool = key(True, description="true or false")

    @classmethod
    def convert(cls, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """Return the content with its requirements parsed, and its methods under their own names."""
        if "privacy" in content:
            content["privacy"] = read_privacy(content["privacy"], problems)
        if isinstance(content.get("methods"), Mapping):
            content["methods"] = dict(_full_names(content["methods"], problems))
        return content

    def contradictions(self) -> Iterator[tuple[Key, Problem | str]]:
        """Yield missing keys and combinations that contradict each other."""
        if self.least_k is None:
            yield ("least_k",), "missing; say how many records every group of a release has at least"
        if self.access == "public" and self.users:
            yield ("users",), 'listed, but access = "public" lets everybody ask; drop one of them'
        if not self.publish_records and self.price.per_record:
            yield (
                ("price", "per_record"),
                "needs publish_records = true: it tells what a release costs at most",
            )
        yield from self._about_methods()
        known_models = learning_methods()
        for name in self.learn:
            if name != ANY and name not in known_models:
                text = f'no method "{name}" for models{hint(name, known_models)}; there are {", ".join(known_models)}'
                yield ("learn",), text
        for position, part in enumerate(self.privacy):
            if part.only_sizes and ANY in part.qid:
                yield ("privacy", position, "qid"), "missing; for a k over all attributes write least_k"
            elif ANY in part.qid and len(part.qid) > 1:
                yield ("privacy", position, "qid"), '"*" stands for all attributes, alone'

    def _about_methods(self) -> Iterator[tuple[Key, Problem | str]]:
        """Yield unknown methods and parameters, and values that a parameter cannot have."""
        known = parameters_by_method(methods_between_parties())
        for name, limits in self.methods.items():
            if name not in known:
                yield (
                    ("methods", name),
                    f'no method "{name}" for parties{hint(name, known)}; there are {", ".join(known)}',
                )
                continue
            worded: dict[str, tuple[str, ...]] = {}
            for each in known[name]:
                if each.rule.choices:
                    worded[each.name] = (*worded.get(each.name, ()), *each.rule.choices)
            for word, allowed in limits.items():
                choices = worded.get(word)
                if choices is None:
                    text = f"not a choice of {name}{hint(word, worded)}; known here: {', '.join(worded) or 'none'}"
                    yield ("methods", name, word), text
                elif not allowed or not {*allowed} <= {*choices}:
                    wrong = quoted(each for each in allowed if each not in choices) or "an empty list"
                    must_be = f"a list of one or more of {quoted(choices)}"
                    yield ("methods", name, word), Problem(allowed=must_be, found=wrong)

    def allowed(self, method: SessionMethod) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield the choices of a method that this policy limits: name, requested value, allowed values."""
        limits = self.methods.get(method.name, {})
        for each in parameters_of(type(method)):
            allowed = limits.get(each.name) or each.granted
            if allowed:
                yield each.name, str(getattr(method, each.name)), allowed

    def allows_model(self, name: str) -> bool:
        """Return whether parties may learn a model by this method."""
        return ANY in self.learn or name in self.learn

    def allows_user(self, user: str) -> bool:
        """Return whether this user may make requests and receive a release."""
        return self.access == "public" or user in self.users

    def allows_purpose(self, purpose: str) -> bool:
        """Return whether a release may be made for this purpose."""
        return ANY in self.purposes or purpose in self.purposes

    def least(self, qid: Sequence[str]) -> int:
        """Return the least k over a QID: the maximum of `least_k` and every pattern whose attributes are all in it."""
        asked = (part.implied_size for part in self.patterns if set(part.qid) <= set(qid))
        return max(self.least_k or 1, *asked, 1)

    @property
    def service(self) -> ServiceLevel:
        """The service level that contracts promise in this party's name."""
        return ServiceLevel(self.response_time, self.availability)

    @property
    def patterns(self) -> tuple[GroupRequirement, ...]:
        """The requirements that only name a k for a QID."""
        return tuple(part for part in self.privacy if part.only_sizes)

    @property
    def models(self) -> tuple[GroupRequirement, ...]:
        """The requirements that hold whenever their sensitive attribute is released."""
        return tuple(part for part in self.privacy if not part.only_sizes)


def read_policy(content: Mapping[str, Any], source: str = "policy") -> Policy:
    """Read a policy from TOML; raise ParameterError with every problem at once.

    An entry of `[[privacy]]` without `qid` is over all attributes that the party releases.
    """
    entries = content.get("privacy")
    if isinstance(entries, list):
        entries = [
            {"qid": [ANY], **each} if isinstance(each, Mapping) else each  # other types are reported later
            for each in entries
        ]
        content = {**content, "privacy": entries}
    return read_form(Policy, content, source)


def check_policy(
    policy: Policy, card: SchemaCard, source: str = "policy", schema: Schema | None = None
) -> None:
    """Refuse a policy that names columns of this party that the dataset does not have, or values that they do not.

    A QID may name attributes of other parties; columns with a price and sensitive columns must be in the dataset. The
    values of boundaries are held against the taxonomies of `schema`.
    """
    problems = Problems(source)
    for name, boundary in policy.boundaries.items():
        column = card.column(name)
        if column is None:
            problems.add(("boundaries", name), unknown_column(card, name))
        elif column.role != "attribute":
            problems.add(("boundaries", name), "it is released as it is, and has no boundaries")
        elif schema is not None and name in schema:
            for word, problem in boundary.problems(schema[name]):
                problems.add(("boundaries", name, word), problem)
    for name in policy.joint_keys.columns:
        if card.column(name) is None:
            problems.add(("joint_keys", "columns"), unknown_column(card, name))
    for name in policy.price.attributes:
        if card.column(name) is None:
            problems.add(("price", "attributes"), unknown_column(card, name))
    for position, part in enumerate(policy.privacy):
        if part.sensitive is not None and card.column(part.sensitive) is None:
            problems.add(("privacy", position, "sensitive"), unknown_column(card, part.sensitive))
    problems.settle(ParameterError)


def _full_names(methods: Mapping[str, Any], problems: Problems) -> Iterator[tuple[str, Any]]:
    """Yield each method under its own name; a short name limits the parameters that it stands for."""
    for name, limits in methods.items():
        full, fixed = full_name(name)
        if fixed and full in methods:
            problems.add(
                ("methods", name), f"a short name of {full}, which is listed as well; limit that one"
            )
        elif fixed and isinstance(limits, Mapping):
            yield full, {**limits, **{key: [value] for key, value in fixed.items()}}
        else:
            yield name, limits


# --- ratio grants -------------------------------------------------------------------------------------------
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


def against_columns(policy: Policy, mine: Sequence[Contribution]) -> Iterator[str]:
    """Yield the party's columns that may not be in a joint key: those not granted, or else all but attributes."""
    allowed = policy.joint_keys.columns
    for column in mine:
        if allowed and column.name not in allowed:
            yield f'"{column.name}" may not be in a joint key; allowed: {", ".join(allowed)}'
        if not allowed and column.role != "attribute":
            yield f'"{column.name}" is sensitive; it may be in a joint key only where the policy names it'


def against_number(
    policy: Policy, asked: Terms, card: SchemaCard, ledger: Ledger, *, runs: bool
) -> Iterator[str]:
    """Yield that too many ratios of this snapshot would have been revealed.

    Unless it `runs` now, a question that was answered before may be asked again: a coordinator may still have the
    answer. `asked` may be a draft (`further_releases.py`), and then be such a question as far as this party knows.
    """
    told = _told(card, ledger)
    if not runs and any(not differences(each, asked) for each in told):
        return
    before, more, most = sum(map(_ratios, told)), _ratios(asked), policy.joint_keys.ratios
    if before + more > most:
        yield (
            f"{before} ratios of this snapshot of {card.dataset} were told before; "
            f"{more} more would exceed the {most} that the policy grants"
        )


def _told(card: SchemaCard, ledger: Ledger) -> list[Terms]:
    """Return the questions about this snapshot that were answered, or begun to be, as often as they were."""
    if card.snapshot is None:
        return []
    terms = (each.terms for each in ledger.of_snapshot(card.dataset, card.snapshot))
    return [each for each in terms if product_of(each) is ANSWER]


def _ratios(terms: Terms) -> int:
    """Return how many ratios a question opens."""
    return len(terms.method.get("sets") or ((),))


# --- reservations -------------------------------------------------------------------------------------------
# Objections to a request, from a policy and from earlier releases: each is one sentence.


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
