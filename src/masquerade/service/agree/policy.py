"""A party's policy: who may ask, for what, how strictly, by which protocol, at what price. Written by its steward.

Nothing is open by default: without `users` nobody may ask, without `purposes` for nothing. answering.py applies it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from masquerade.data import Schema
from masquerade.errors import Key, ParameterError, Problem, hint
from masquerade.forms import Form, Problems, key, parameters_of, quoted, read_form
from masquerade.methods import full_name, learning_methods, methods_between_parties, parameters_by_method
from masquerade.privacy import GroupRequirement
from masquerade.protocol import LEAST_RECORDS, SessionMethod
from masquerade.service.agree.boundaries import PolicyBoundary, Text
from masquerade.service.agree.request import MOST_COLLUDING, Cents, Request, Share, Texts, read_privacy
from masquerade.service.agree.terms import PriceList, ServiceLevel
from masquerade.service.canonical import MOST_WHOLE
from masquerade.service.cards import SchemaCard, unknown_column

ANY = "*"  # in `purposes`: any purpose; in a requirement's qid: all attributes that this party releases

WEEK = 7 * 86_400  # seconds
MOST_RATIOS = 1_000_000
MOST_MODELS = 1_000_000
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


class ModelGrants(BaseModel):
    """`[learn]`: which models may be learned, of which columns, resting on how many people, and how many of them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    methods: Texts = key((), description='a list of methods that learn a model, such as ["logistic"], or ["*"] for any')
    columns: Texts = key((), description='a list of columns, such as ["age"]; without it, all attributes')
    classes: Texts = key(
        (), alias="class", description='a list of sensitive columns that may be the class, such as ["disease"]'
    )
    min_records: Annotated[int, Field(ge=1, le=MOST_WHOLE)] = key(
        10, description="a whole number of at least 1: no node, row or step of a model rests on fewer people"
    )
    models: Annotated[int, Field(ge=0, le=MOST_MODELS)] = key(
        3, description=f"a whole number from 0 to {MOST_MODELS}: so many of one snapshot, in all; 0 for none"
    )


class JointKeyGrants(BaseModel):
    """`[joint_keys]`: what may be revealed of how far this party's columns and others' together identify people."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ratios: Annotated[int, Field(ge=0, le=MOST_RATIOS)] = key(
        0, description=f"a whole number from 0 to {MOST_RATIOS}: so many of one snapshot, in all; 0 for none"
    )
    columns: Texts = key((), description='a list of columns, such as ["age"]; without it, all attributes')
    precision: Share = key(
        "0.01", description="a number of at least 0 and at most 1: the finest steps of a ratio; 0 for exact ones"
    )
    least_records: Annotated[int, Field(ge=1, le=MOST_WHOLE)] = key(
        LEAST_RECORDS, description="a whole number of at least 1: over fewer common records no ratio is told"
    )


class AlignmentGrants(BaseModel):
    """`[alignments]`: how often common records are looked for, which tells a peer who of its own people is here."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    per_week: Annotated[int, Field(ge=0, le=MOST_WHOLE)] = key(
        20, description="a whole number of at least 0: so many alignments with one peer in 7 days"
    )
    identifiers_per_week: Annotated[int, Field(ge=0, le=MOST_WHOLE)] = key(
        1_000_000, description="a whole number of at least 0: so many identifiers may one peer submit in 7 days"
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
        {}, description='a table of methods and what is allowed of each, such as { tds = { argmax = ["secure"] } }'
    )
    learn: ModelGrants = key(ModelGrants(), description="a table, written [learn]")
    tables: bool = key(True, description="true or false")
    alignments: AlignmentGrants = key(AlignmentGrants(), description="a table, written [alignments]")
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
        None, description=f"a whole number of seconds from 1 to {MOST_SECONDS}: by then 95 % of the answers come"
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
        if isinstance(listed := content.get("learn"), list):
            problems.broken(("learn",), f"is a table; write it as [learn], with methods = [{quoted(map(str, listed))}]")
            del content["learn"]
        return content

    def contradictions(self) -> Iterator[tuple[Key, Problem | str]]:
        """Yield missing keys and combinations that contradict each other."""
        if self.least_k is None:
            yield ("least_k",), "missing; say how many records every group of a release has at least"
        if self.access == "public" and self.users:
            yield ("users",), 'listed, but access = "public" lets everybody ask; drop one of them'
        if not self.publish_records and self.price.per_record:
            yield (("price", "per_record"), "needs publish_records = true: it tells what a release costs at most")
        yield from self._about_methods()
        known = learning_methods()
        for name in self.learn.methods:
            if name != ANY and name not in known:
                yield (
                    ("learn", "methods"),
                    f'no method "{name}" for models{hint(name, known)}; there are {", ".join(known)}',
                )
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
                text = f'no method "{name}" for parties{hint(name, known)}; there are {", ".join(known)}'
                yield ("methods", name), text
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

    def allows_user(self, user: str) -> bool:
        """Return whether this user may make requests and receive a release."""
        return self.access == "public" or user in self.users

    def least(self, qid: Sequence[str]) -> int:
        """Return the least k over a QID: the maximum of `least_k` and every pattern whose attributes are all in it."""
        asked = (part.implied_size for part in self.patterns if set(part.qid) <= set(qid))
        return max(self.least_k or 1, *asked, 1)

    def least_people(self, request: Request) -> int:
        """Return how many people a requested model rests on at least: not fewer than in a group of a table."""
        return max(self.learn.min_records, self.least(request.released))

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


def check_policy(policy: Policy, card: SchemaCard, source: str = "policy", schema: Schema | None = None) -> None:
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
    named: list[tuple[Key, str]] = [(("joint_keys", "columns"), name) for name in policy.joint_keys.columns]
    named += [(("learn", "columns"), name) for name in policy.learn.columns]
    named += [(("learn", "class"), name) for name in policy.learn.classes]
    named += [(("price", "attributes"), name) for name in policy.price.attributes]
    sensitive = [(position, part.sensitive) for position, part in enumerate(policy.privacy)]
    named += [(("privacy", position, "sensitive"), name) for position, name in sensitive if name is not None]
    for key_of_name, name in named:
        if card.column(name) is None:
            problems.add(key_of_name, unknown_column(card, name))
    problems.settle(ParameterError)


def _full_names(methods: Mapping[str, Any], problems: Problems) -> Iterator[tuple[str, Any]]:
    """Yield each method under its own name; a short name limits the parameters that it stands for."""
    for name, limits in methods.items():
        full, fixed = full_name(name)
        if fixed and full in methods:
            problems.add(("methods", name), f"a short name of {full}, which is listed as well; limit that one")
        elif fixed and isinstance(limits, Mapping):
            yield full, {**limits, **{key: [value] for key, value in fixed.items()}}
        else:
            yield name, limits
