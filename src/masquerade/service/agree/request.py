"""An analyst's request: attributes, purpose, wished requirement and quality, budget, method.

A **vertical** request wants different columns about the same people; a **horizontal** one wants the same columns about
different people, from providers of whom up to `m` may collude.

The request is sent to every party, and each party's policy answers it. The coordinator sets the user once it is known
(`asked_by`); a user written in the request itself is not trusted. A client with a key of its own signs the request
(`signed`), and then parties need not trust the coordinator with it either.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, get_args

import msgspec
from pydantic import Field, PlainValidator

from masquerade.arrangement import ARRANGEMENTS, Arrangement
from masquerade.errors import Key, ParameterError, Problem, nearest
from masquerade.forms import Form, Problems, convert, fill, key, kinds_of_keys, known_keys, words_of
from masquerade.jobs import Job, requirement_of
from masquerade.methods import (
    learning_methods,
    methods_between_parties,
    parameters_by_method,
    questions,
    read_method,
    requestable_methods,
    unnamed_method,
    written_method,
)
from masquerade.net import Identity, is_signed, out_of_date
from masquerade.privacy import M_PRIVACY, REQUIREMENTS, GroupRequirement
from masquerade.protocol import (
    OUTCOMES,
    AskedMethod,
    AttributeTerms,
    LearningMethod,
    LearningProposal,
    OutcomeRole,
    Proposal,
    RoleName,
    SessionMethod,
    written_requirement,
)
from masquerade.service.agree.boundaries import RequestedTerms, Text as Text, decimal_between, written_terms
from masquerade.service.canonical import MOST_WHOLE, canonical, insist_on_plain

# --- client's signature -------------------------------------------------------------------------------------
# A client's signature over its request, by which parties need not take user, purpose and recipients on trust.
#
# Signed is the canonical JSON (RFC 8785) of the whole request with its user, a time and a nonce, by the key of the
# client's own identity: ECDSA on P-256 with SHA-256. The signed request travels with what the coordinator makes of it,
# because negotiation changes the requirement on the way: parties compare the two (objections.py).

LIFETIME = 7 * 86_400  # seconds for which a signed request can be carried out
_CLOCKS_DIFFER = 300  # seconds
_CONTEXT = b"masquerade request\n"  # separates these signatures from all others


class ClientSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request as its client signed it, when (seconds since 1970), and the signature in hexadecimal digits."""

    request: dict[str, Any]
    time: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    nonce: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    signature: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{2}){1,100}\Z")]

    @property
    def until(self) -> int:
        """When it ends."""
        return self.time + LIFETIME

    def problem(self, certificate: bytes, now: int) -> str | None:
        """Return why the owner of a certificate (PEM) has not signed this, or not for now; None when they have."""
        if (invalid := out_of_date(certificate)) is not None:
            return f"the client's certificate {invalid}"
        if not is_signed(certificate, bytes.fromhex(self.signature), _covered(self.request, self.time, self.nonce)):
            return "the signature is not one over this request with the client's key that we know"
        if self.time > now + _CLOCKS_DIFFER:
            return "the request was signed in the future; compare the clocks"
        if self.until <= now:
            return f"the request was signed more than {LIFETIME // 86_400} days ago; sign it anew"
        return None


def _covered(request: dict[str, Any], time: int, nonce: str) -> bytes:
    return _CONTEXT + canonical({"request": request, "time": time, "nonce": nonce})


# --- form values --------------------------------------------------------------------------------------------
# Values shared by the service's forms: durations, and requirements in the format of a job file.


Duration = Annotated[float, Field(gt=0, le=86_400, strict=True)]  # in seconds


def read_privacy(entries: Any, problems: Problems) -> tuple[GroupRequirement, ...]:
    """Read `[[privacy]]` entries as in a job file; decimals may be strings, as in canonical JSON."""
    if isinstance(entries, list | tuple):
        if all(isinstance(each, GroupRequirement) for each in entries):
            return tuple(entries)
        plain: list[Any] = []
        for at, each in enumerate(entries):
            given = each if isinstance(each, Mapping) else {}
            if given.get("model") == M_PRIVACY:  # it wraps all entries of a job, and here it is a key of its own
                text = f"{M_PRIVACY} is no entry here; a horizontal request has m, and a policy least_m"
                problems.add(("privacy", at), text)
                continue
            for name, value in given.items():
                if isinstance(value, int) and abs(value) > MOST_WHOLE:  # a contract cannot hold it
                    problems.broken(("privacy", len(plain), name), "must be at most 2^53 − 1")
            plain.append(each)
        entries = plain
    job = fill(Job, {"privacy": entries}, problems)
    for position, entry in enumerate(job.privacy):
        model = REQUIREMENTS.get(entry.model)
        if model is not None and "sensitive" in words_of(model) and "sensitive" not in entry.given():
            # A job file may state it elsewhere.
            needed = f"missing; {entry.model} needs a sensitive attribute"
            problems.broken(("privacy", position, "sensitive"), needed)
    return requirement_of(job, problems).parts if job.privacy else ()


# --- request ------------------------------------------------------------------------------------------------

MOST_ATTEMPTS = 10
MOST_RATIO = 1000  # of a query error: no query is wrong by more (utility/queries.py)

Texts = Annotated[tuple[Text, ...], Field(strict=False, max_length=1000)]

MOST_COLLUDING = 1_000
DEFAULT_ARRANGEMENT: Arrangement = "vertical"
_OF_TABLES = ("most_error", "most_ncp", "most_query_error", "estimate", "m", "boundaries")
_NAMES = 'a list of names, such as ["age", "job"]'


def _seconds(value: object) -> int:
    if isinstance(value, str):  # JSON has no times of its own
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError
        return int(value.astimezone(UTC).timestamp())
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_WHOLE:
        return value
    raise ValueError


Cents = Annotated[int, Field(ge=0, le=MOST_WHOLE)]
Seconds = Annotated[int, PlainValidator(_seconds)]
Share = Annotated[str, PlainValidator(partial(decimal_between, high=1))]  # of 1, as text: contracts have no fractions


class Request(Form):
    """One request. Money is in cents; times are seconds since 1970 (a TOML date-time with its zone will do)."""

    user: str = key("", description="a user's name")
    purpose: Text | None = key(None, description='a purpose, such as "research"')
    attributes: Texts = key((), description=_NAMES)  # in the order of the joint schema
    class_name: Text | None = key(None, alias="class", description='a name, such as "income"')
    duration: Text | None = key(None, description='a name, such as "months": how long each record was followed')
    event: Text | None = key(None, description='a name, such as "died": whether that ended by the event')
    privacy: Annotated[tuple[GroupRequirement, ...], Field(strict=False)] = key(
        (), description="a list of tables, each written [[privacy]] in double brackets"
    )
    most_error: Share | None = key(
        None, description="a number of at least 0 and at most 1: the largest classification error"
    )
    most_ncp: Share | None = key(
        None,
        description="a number of at least 0 and at most 1: the largest normalised certainty penalty, 0 for nothing"
        " lost",
    )
    most_query_error: Annotated[str, PlainValidator(partial(decimal_between, high=MOST_RATIO))] | None = key(
        None,
        description=f"a number of at least 0 and at most {MOST_RATIO}: the largest mean relative error of counting"
        " queries",
    )
    estimate: bool = key(False, description="true or false")
    budget: Cents = key(0, description="a whole number of cents, of at least 0")
    recipients: Texts = key((), description='a list of users, such as ["ana"]')  # none: the user alone
    providers: dict[Text, Text] = key(
        {}, description='a table of attributes and who contributes them, such as { age = "bank" }', only="vertical"
    )
    arrangement: Arrangement = key(DEFAULT_ARRANGEMENT, alias="kind", description='one of "vertical", "horizontal"')
    algorithm: SessionMethod | None = key(None, description="a table, written [algorithm]")  # None: chosen
    m: Annotated[int, Field(ge=0, le=MOST_COLLUDING)] | None = key(
        None,
        description=f"a whole number from 0 to {MOST_COLLUDING}: the number of providers that may collude",
        only="horizontal",
    )
    parties: Texts = key(  # none: all that can
        (), description='a list of parties, such as ["north", "south"]', only="horizontal"
    )
    normalize: Literal["none", "strip", "casefold"] = key(
        "strip", description='one of "none", "strip", "casefold"', only="vertical"
    )
    boundaries: dict[Text, RequestedTerms] = key(
        {}, description="a table for each attribute that has some, such as [boundaries.age]"
    )
    deadline: Seconds | None = key(
        None, description="a date and time with its zone, such as 2030-01-31T12:00:00Z, or seconds since 1970"
    )
    attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)] = key(
        3, description=f"a whole number from 1 to {MOST_ATTEMPTS}"
    )
    show_progress: bool = key(False, description="true or false")
    signed: ClientSignature | None = key(None, description="a client's signature over the other keys")

    @classmethod
    def convert(cls, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """Return the content with its requirements and its method parsed."""
        if "privacy" in content:
            content["privacy"] = read_privacy(content["privacy"], problems)
        table = content.get("algorithm")
        if isinstance(table, Mapping):
            named = content.get("kind")
            arrangement = next((each for each in ARRANGEMENTS if each == named), DEFAULT_ARRANGEMENT)
            content["algorithm"] = _method(table, arrangement, problems)
        if isinstance(content.get("signed"), Mapping):
            try:
                content["signed"] = convert(content["signed"], ClientSignature)
            except msgspec.ValidationError as error:
                problems.broken(("signed",), str(error))
                del content["signed"]
        methods = (*learning_methods().values(), *questions().values(), *methods_between_parties())
        homes = {each.name: name for name, own in parameters_by_method(methods).items() for each in own}
        for word in [each for each in content if each in homes and each not in known_keys(cls)]:
            problems.broken((word,), f"belongs to [algorithm], as a key of {homes[word]}")
            del content[word]
        return content

    def contradictions(self) -> Iterator[tuple[Key, Problem | str]]:
        """Yield missing keys and combinations that contradict each other."""
        if self.purpose is None:
            yield ("purpose",), "missing; say what the table is for"
        if not self.attributes:
            yield ("attributes",), "missing; name the columns that are wanted"
        for name in dict.fromkeys(self.attributes):
            if self.attributes.count(name) > 1:
                yield ("attributes",), f'"{name}" is listed twice'
        if self.class_name is not None and self.class_name in self.attributes:
            yield ("class",), f'"{self.class_name}" is among the attributes too; the class is released anyway'
        for name, role in self.outcomes.items():
            if name in self.attributes:
                yield ((role,), f'"{name}" is among the attributes too; a model cannot be told what it predicts')
        if len(set(self.roles.values())) < len(self.roles):
            yield (*self.roles,)[-1:], "names the column of another role too; each has its own"
        if self.most_error is not None and self.class_name is None:
            yield ("most_error",), "needs a class to be wrong about; name it in class"
        for position, part in enumerate(self.privacy):
            for name in part.qid:
                if name not in self.attributes:
                    yield ("privacy", position, "qid"), _unlisted(name, self.attributes)
            if part.sensitive is not None and part.sensitive not in self.released:
                yield ("privacy", position, "sensitive"), _unlisted(part.sensitive, self.released)
        for name in self.boundaries:
            if name not in self.attributes:
                yield ("boundaries", name), _unlisted(name, self.attributes)
        if self.boundaries and not self.method.makes.has_groups:
            yield ("boundaries",), "belongs to requests for tables: a model shows no value of a column"
        for name in self.providers:
            if name not in self.released:
                yield ("providers", name), _unlisted(name, self.released)
        for name, only in kinds_of_keys(Request).items():
            if only != self.arrangement and getattr(self, name) != Request.model_fields[name].default:
                yield (name,), f'belongs to a {only} request; this one has kind = "{self.arrangement}"'
        for name in dict.fromkeys(self.parties):
            if self.parties.count(name) > 1:
                yield ("parties",), f'"{name}" is listed twice'
        if len(self.parties) == 1:
            yield ("parties",), "a horizontal session needs at least two; leave it out to ask all who can"
        provider = ARRANGEMENTS[self.arrangement].provider
        if provider in self.released:
            yield (
                ("attributes",),
                f'"{provider}" is the name of the column that tells whose a record is, which nobody gets',
            )
        yield from self._about_method()

    def _about_method(self) -> Iterator[tuple[Key, Problem]]:
        """Yield what the method cannot do with any parties; its objections to requirements depend on who takes part."""
        for problem in self.method.refused_roles(self.roles):
            yield problem.key[1:], problem
        made = self.method.makes
        for name in () if made.has_groups else _OF_TABLES:
            if getattr(self, name):
                yield (name,), Problem(f"belongs to requests for tables; {self.method.name} {made.comes}")
        known = Proposal(self.privacy, self.colluding)  # what the request itself tells of a session
        if not made.has_groups:
            known = LearningProposal(self.privacy, arrangement=self.arrangement, tries_again=True)
        try:
            self.method.agreed(known, self.class_name)
        except ParameterError as error:
            for problem in error.within("").problems:
                yield ("algorithm", *problem.key), problem
            return
        for name in self.method.named_columns:
            if name not in self.attributes:
                yield ("algorithm",), Problem(_unlisted(name, self.attributes))
        for problem in self.method.refusals(known):
            if problem.key[:1] == ("privacy",):
                if not made.has_groups:  # whoever takes part
                    yield problem.key, problem
            else:
                yield ("algorithm", *problem.key), problem

    @property
    def roles(self) -> dict[RoleName, str]:
        """The columns that are named apart from the attributes."""
        named: dict[RoleName, str | None] = {"class": self.class_name, "duration": self.duration, "event": self.event}
        return {role: name for role, name in named.items() if name is not None}

    @property
    def outcomes(self) -> dict[str, OutcomeRole]:
        """The roles of the columns that tell of survival, by name; contracts list them with the attributes."""
        return {self.roles[role]: role for role in OUTCOMES if role in self.roles}

    @property
    def contributed(self) -> tuple[str, ...]:
        """Every wanted column except the class, about which parties agree by itself."""
        return (*self.attributes, *self.outcomes)

    @property
    def released(self) -> tuple[str, ...]:
        """Every wanted column, including the class."""
        return (*self.attributes, *self.roles.values())

    def key_of(self, column: str) -> str:
        """Return the key that names a wanted column."""
        return next((role for role, name in self.roles.items() if name == column), "attributes")

    @property
    def terms(self) -> dict[str, AttributeTerms]:
        """What is wished for attributes, by name."""
        return {name: each.terms(name) for name, each in self.boundaries.items()}

    @property
    def method(self) -> AskedMethod:
        """The requested method, or the choice of one."""
        return self.algorithm or unnamed_method(self.arrangement)

    @property
    def colluding(self) -> int:
        """How many providers may collude; nothing is promised about that where no groups are released."""
        if not self.method.makes.has_groups:
            return 0
        return ARRANGEMENTS[self.arrangement].default_m if self.m is None else self.m

    @property
    def min_records(self) -> int:
        """How many people every part of a model rests on at least; 0 where no model is learned."""
        return self.algorithm.min_records if isinstance(self.algorithm, LearningMethod) else 0

    def resting_on(self, people: int) -> Request:
        """Return the same request with a model that rests on so many people, if it wishes for one that may on fewer."""
        if not isinstance(self.algorithm, LearningMethod) or people <= self.min_records:
            return self
        return self.model_copy(update={"algorithm": replace(self.algorithm, min_records=people)})

    @property
    def receivers(self) -> tuple[str, ...]:
        """The users who receive the table, each once, in order."""
        return tuple(sorted(set(self.recipients or (self.user,))))

    def asked_by(self, user: str) -> Request:
        """Return the same request, made by this user."""
        return self.model_copy(update={"user": user})

    def signed_by(self, identity: Identity, now: int) -> Request:
        """Return the same request, signed by its client; it names its user."""
        content, nonce = self.model_copy(update={"signed": None}).content(), secrets.token_hex(16)
        signed = ClientSignature(content, now, nonce, identity.sign(_covered(content, now, nonce)).hex())
        return self.model_copy(update={"signed": signed})

    def wishing(self, parts: Iterable[GroupRequirement], m: int = 0) -> Request:
        """Return the same request with other wished requirements, against `m` colluding providers."""
        return self.model_copy(update=only_of(self.arrangement, {"privacy": tuple(parts), "m": m}))

    def content(self) -> dict[str, Any]:
        """Return the request as canonical JSON can hold it; `read_request` reads it back."""
        plain = self.model_dump(by_alias=True, exclude={"privacy", "algorithm", "signed", "boundaries"})
        boundaries = {name: written_terms(each) for name, each in self.terms.items()}
        written = {key: list(each) if isinstance(each, tuple) else each for key, each in plain.items()}
        return written | {
            "privacy": [written_requirement(part) for part in self.privacy],
            "algorithm": written_method(self.algorithm) if self.algorithm is not None else None,
            **({"boundaries": boundaries} if boundaries else {}),
            **({"signed": msgspec.to_builtins(self.signed)} if self.signed is not None else {}),
        }

    def canonical(self) -> bytes:
        """Encode the request in canonical form."""
        return canonical(self.content())


def released_columns(content: Mapping[str, Any]) -> list[str]:
    """Return every wanted column of a request that was read before, as `Request.released` does."""
    named = (content.get(role) for role in get_args(RoleName))
    return [*content["attributes"], *(name for name in named if name is not None)]


def only_of(arrangement: Arrangement, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a request without the keys that only requests in another arrangement have."""
    only = kinds_of_keys(Request)
    return {name: each for name, each in content.items() if only.get(name, arrangement) == arrangement}


def _unlisted(name: str, listed: Iterable[str]) -> str:
    """Say that a name is not among the attributes; which of two similar spellings is wrong, only a party can tell."""
    similar = nearest(name, listed)
    return f'"{name}" is not among the attributes' + (
        f', but "{similar}" is: write the same in both places' if similar is not None else ""
    )


def _method(table: Mapping[str, Any], arrangement: Arrangement, problems: Problems) -> SessionMethod | None:
    """Return the method that a request names; None where it leaves the choice."""
    usual = unnamed_method(arrangement).name
    method, _, wrong = read_method(requestable_methods(arrangement), table, usual, in_job=False)
    for problem in wrong:
        problems.broken(("algorithm", *problem.key), problem)
    return method if isinstance(method, SessionMethod) else None


def read_request(content: Any, source: str = "request") -> Request:
    """Read a request from TOML or JSON; raise ParameterError with every problem at once."""
    request = fill_request(content, problems := Problems(source))
    problems.settle(ParameterError)
    return request


def fill_request(content: Any, problems: Problems) -> Request:
    """Read the valid part of a request; everything else is added to `problems`."""
    if not isinstance(content, Mapping):
        raise ParameterError(f"{problems.source}: must be a table of keys and values")
    insist_on_plain(content, problems.source)
    return fill(Request, {key: each for key, each in content.items() if each is not None}, problems)
