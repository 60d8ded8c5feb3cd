"""The base class of methods between parties: where it fits, how parties and assembler run it, what it discloses.

A method is asked for what it refuses several times while a session takes shape: from the requirement alone, with the
parties and their columns, with the schema. It answers as far as it can from what is known (`Proposal`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import pyarrow as pa

from masquerade.anonymize import Method, Provenance
from masquerade.arrangement import TABLE, Arrangement, Product
from masquerade.data import Records, Schema, Table
from masquerade.engine import Engine
from masquerade.errors import ParameterError, Problem
from masquerade.forms import choice, parameter, parameters_of, read_declared, without_floats
from masquerade.net import Message, Script
from masquerade.privacy import GroupRequirement
from masquerade.progress import OnStage, silent
from masquerade.protocol.align.alignment_ways import BY_SIZE, WAYS
from masquerade.protocol.contract import Contract, MethodChoice, PassedOver
from masquerade.protocol.disclosure import Disclosure
from masquerade.protocol.hand_in import Columns, OwnPart, ReportedStep

ASSEMBLER = "assembler"
REPORTED_SETTINGS = (
    "argmax",
    "joint_histogram",
    "third_party",
)  # settings of a release that its summary reports, if present

RoleName = Literal["class", "duration", "event"]  # of a column that a job or a request names apart from attributes

OnStep = Callable[[ReportedStep], None]
Judge = Callable[[pa.Table, str], float | None]  # a release's classification error, given the class


@dataclass(frozen=True)
class Proposal:
    """What is known of a session; None means not yet known. Refused requirements are named by index in `parts`."""

    parts: tuple[GroupRequirement, ...]
    m: int = 0  # how many providers may collude
    parties: tuple[str, ...] | None = None
    holder: Mapping[str, str] | None = None  # who holds each column
    schema: Schema | None = None
    bounded: frozenset[str] = frozenset()  # attributes that may be generalised only so far, known to be

    @property
    def boundaries(self) -> frozenset[str]:
        """All attributes that are known to have boundaries, be it agreed or in the schema."""
        return self.bounded | {each.name for each in self.schema or () if each.is_bounded}


def allowed() -> None:
    """Let everything be shown."""


Settled = Literal["people", "cells"]  # what sessions on the same terms have in common
OnSettled = Callable[[Settled, bytes], None]  # with its digest


def accepted(what: Settled, digest: bytes) -> None:
    """Compare with nothing."""


def any_list(party: str, identifiers: int) -> None:
    """Let everybody align a list of any length."""


def forgotten(name: str, secret: bytes) -> None:
    """Keep nothing."""


@dataclass(frozen=True)
class Participant:
    """One party of a session: its input and its callbacks.

    `table` has the columns that the contract asks of this party, without missing cells; `identifiers`, one per row, if
    the arrangement is vertical. Without `show_steps` the assembler gets columns and figures alone. `before_showing` is
    called before the first message that depends on the columns leaves (a class, a count, a bid), and once more before
    they are handed in; it may veto: what it raises ends the session. So may `before_list`, which is called before the
    first message of an alignment leaves with this party and the length of its list, and with each peer and its length
    before anything is answered; and `settled`, which is called with a digest of what every session on the same terms
    must come to again: of the people in common before anything of the columns is shown, and of the released cells
    before they are handed in. `notes` is where a method that can resume after an
    interruption saves its rounds. `on_joined` is called at the end with what the party's gain follows from, if there
    is a class and the assembler has told the release's error. `keep` is called with a name and a secret that the party
    needs to use what was made, to be written where only its owner may read it.
    """

    name: str
    contract: Contract
    table: Table
    identifiers: Sequence[bytes] = ()
    left_out: Sequence[str] = ()
    show_steps: bool = True
    on_stage: OnStage = silent
    on_step: OnStep | None = None
    before_showing: Callable[[], None] = allowed
    settled: OnSettled = accepted
    before_list: Callable[[str, int], None] = any_list
    notes: Path | None = None
    on_joined: Callable[[OwnPart], None] | None = None
    engine: Engine | None = None  # where a method that can (`off_engine`) counts its groups
    records: Records | None = None  # the rows, where the engine has read them; `table` then has none
    keep: Callable[[str, bytes], None] = forgotten


@dataclass(frozen=True)
class Assembly:
    """The assembler of a session: what it knows besides what the parties hand in.

    `schema` has the taxonomies, which only a trusted third party needs; if None, it uses those that the parties send.
    `seed` draws the random queries that judge a release; `judge` measures its classification error, if somebody wants
    to know.
    """

    contract: Contract
    schema: Schema | None = None
    seed: int = 7
    on_stage: OnStage = silent
    provenance: Provenance = field(default_factory=Provenance)
    judge: Judge | None = None


@dataclass(frozen=True)
class Preference:
    """How a method offers itself where nobody names one: of those that fit, the one of the lowest rank is taken."""

    rank: int
    because: str  # why it is taken then, for people: a clause
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Agreed:
    """A method with its defaults spelled out, and why it is the one, if nobody named it."""

    method: SessionMethod
    choice: MethodChoice | None = None


@dataclass(frozen=True)
class AskedMethod(Method):
    """What parties may be asked for: one method, or that one be chosen (method.py)."""

    arrangement: ClassVar[Arrangement]
    makes: ClassVar[Product] = TABLE
    roles: ClassVar[Mapping[RoleName, bool]] = {"class": False}  # that it has a use for; True: it needs one

    @property
    @abstractmethod
    def possible(self) -> tuple[SessionMethod, ...]:
        """The methods that may come of it, the preferred ones first."""

    @abstractmethod
    def restricted(self, permits: Callable[[SessionMethod], bool]) -> Self:
        """Return the same with fewer possible methods, if there was a choice."""

    def as_agreed(self, written: Mapping[str, Any]) -> Self:
        """Return the same with its parameters as in a method that was agreed, if there was a choice."""
        return self

    @abstractmethod
    def agreed(self, proposal: Proposal, class_name: str | None) -> Agreed:
        """Return the method as a contract over these requirements states it."""

    def ways(self, proposal: Proposal, class_name: str | None) -> list[SessionMethod]:
        """Return every method that a contract over these requirements may state."""
        found = []
        for each in self.possible:
            with suppress(ParameterError):  # settings that do not fit, and so are never agreed on
                found.append(each.fitted(proposal.parts, proposal.m, class_name))
        return found

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Yield what it cannot do, as far as known. Keys are below `algorithm`, or `privacy` and `attributes`."""
        yield from ()

    def off_engine(self, parts: Sequence[GroupRequirement]) -> str | None:
        """Return why a party that has an engine (`Participant.engine`) works in its own memory even so: a sentence.

        None: its groups are on the engine.
        """
        return f"by {self.name} each party counts in its own memory; tds and mondrian count on an engine"

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns that its parameters name; whoever asks must want all of them."""
        return ()

    def refused_roles(self, named: Container[str]) -> Iterator[Problem]:
        """Yield the roles that it needs and nobody has named, and those named that it has no use for."""
        for role in get_args(RoleName):
            if self.roles.get(role) and role not in named:
                yield Problem(f"missing; {self.name} needs the column of the {role}", key=("roles", role))
            elif role not in self.roles and role in named:
                yield Problem(f"{self.name} has no use for it; leave it out", key=("roles", role))


@dataclass(frozen=True)
class SessionMethod(AskedMethod):
    """A method by which several parties make one release, learn one model (`learn/`), or answer (`joint_keys/`)."""

    activity: ClassVar[str]  # what the parties do while it runs, for human readers
    resumes: ClassVar[bool] = False  # whether an interrupted session can resume from the parties' notes
    # The messages by which a party hands in what it has made for the assembler: with them its part is over.
    ends_with: ClassVar[tuple[type[Message], ...]] = (Columns,)
    preferences: ClassVar[tuple[Preference, ...]] = ()  # none: it is taken only by name
    # How it keeps to boundaries of generalisation: each record to its own; all records of a column alike; not at all.
    boundaries: ClassVar[Literal["records", "columns", "ignored"]] = "ignored"

    @property
    def outlives_parties(self) -> bool:
        """Whether the others may go on when a party is lost."""
        return False

    @classmethod
    def of(cls, contract: Contract) -> Self:
        """Return the method of a contract, with its parameters."""
        written = dict(contract.method)
        if written.pop("name", None) != cls.name:
            raise ParameterError(f"contract: the method is {contract.method.get('name')}, not {cls.name}")
        made, problems = read_declared(cls, written)
        if made is None:
            raise ParameterError(*(problem.within("contract", ("method",)) for problem in problems))
        return made

    @abstractmethod
    def party(self, participant: Participant) -> Script[int]:
        """Run one party's part from start to end. Return how many records it had in the session."""

    @abstractmethod
    def disclosure(self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool) -> Disclosure:
        """Return what leaves a party, and who gets to see it."""

    def fitted(self, parts: Sequence[GroupRequirement], m: int, class_name: str | None) -> Self:
        """Return the method with its defaults spelled out for these requirements, as written in a contract."""
        return self

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Yield what it cannot do, as far as known. Keys are below `algorithm`, or `privacy` and `attributes`.

        Boundaries are refused, unless the method declares how it keeps to them.
        """
        if self.boundaries != "ignored":
            return
        for at, part in enumerate(proposal.parts):
            if part.within_boundaries:
                yield Problem(
                    f"{self.name} keeps to no boundaries between parties; ask for k-anonymity", key=("privacy", at)
                )
        for name in sorted(proposal.boundaries):
            text = f"{self.name} keeps to no boundaries between parties; leave out max_generalization, max_width "
            yield Problem(f"{text}and marks in the taxonomy", key=("attributes", name))

    @property
    def possible(self) -> tuple[SessionMethod, ...]:
        """Itself: it was asked for by name."""
        return (self,)

    def restricted(self, permits: Callable[[SessionMethod], bool]) -> Self:
        """Return itself: who does not permit it refuses."""
        return self

    def agreed(self, proposal: Proposal, class_name: str | None) -> Agreed:
        """Return itself, fitted."""
        return Agreed(self.fitted(proposal.parts, proposal.m, class_name))

    @abstractmethod
    def assembler(self, assembly: Assembly) -> Script[Any]:
        """Run the part of the assembler, which is no party: join, verify, and only then return what was made."""

    def rounds(self, contract: Contract, sent: Sequence[str], steps: int) -> int:
        """Return how many rounds were run, from the tags of the first party's messages and the steps made."""
        return steps


def proposal_of(contract: Contract) -> Proposal:
    """Return the proposal that a contract makes."""
    limited = frozenset(each.name for each in contract.attributes if each.is_bounded)
    return Proposal(contract.parts, contract.m, contract.parties, contract.holders, bounded=limited)


def refuse(problems: Iterator[Problem]) -> None:
    """Raise if the method refuses anything."""
    if found := tuple(dict.fromkeys(problems)):
        raise ParameterError(*found)


# --- automatic ----------------------------------------------------------------------------------------------
# A method between parties that nobody named: chosen from what is agreed, before any party computes anything.
#
# Methods declare in which settings they offer themselves, and how far in front
# (`SessionMethod.preferences`). The first that takes the requirements is it. Nobody's records are looked
# at, so the choice shows nothing about them, and no party sees the course of a release that is not made.
# What is written into the contract is the method's own name, with why.

Written = Mapping[str, Any]  # a method with its parameters, as a contract has it


@dataclass(frozen=True)
class PreferredMethod:
    """A method with the settings of one of its preferences."""

    method: SessionMethod
    preference: Preference

    @property
    def written(self) -> dict[str, Any]:
        """The method as a contract has it, before it is fitted to requirements."""
        return without_floats(self.method.settings())


@dataclass(frozen=True)
class Automatic(AskedMethod):
    """The first of several methods that takes the requirements, in the order that they declare."""

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = (
        "takes the first of the parties' methods, in the order of what their releases are worth, that takes the "
        "requirements; which one is agreed in the contract, before anything is computed"
    )

    among: tuple[Written, ...] | None = None  # the candidates left, as `PreferredMethod.written`; None: all

    @classmethod
    def methods(cls) -> Iterable[type[SessionMethod]]:
        """Return the methods to choose from; a registry's affair."""
        raise NotImplementedError

    @property
    def candidates(self) -> tuple[PreferredMethod, ...]:
        """The methods in their settings, the preferred ones first."""
        found = []
        for method in self.methods():
            # The parameters of the choice that the method has, too, are passed on.
            own = {each.name for each in parameters_of(method)}
            given = {each.name: getattr(self, each.name) for each in parameters_of(type(self)) if each.name in own}
            found += [PreferredMethod(method(**given, **each.settings), each) for each in method.preferences]
        found.sort(key=lambda each: each.preference.rank)
        return tuple(each for each in found if self.among is None or each.written in self.among)

    def as_agreed(self, written: Written) -> Self:
        """Return the choice with its own parameters as in a method that was agreed."""
        own = {each.name: written[each.name] for each in parameters_of(type(self)) if each.name in written}
        return replace(self, **own)

    @property
    def possible(self) -> tuple[SessionMethod, ...]:
        """The candidates' methods."""
        return tuple(each.method for each in self.candidates)

    def restricted(self, permits: Callable[[SessionMethod], bool]) -> Self:
        """Return the choice among those candidates that are permitted; there may be none."""
        return replace(self, among=tuple(each.written for each in self.candidates if permits(each.method)))

    def off_engine(self, parts: Sequence[GroupRequirement]) -> str | None:
        """What is chosen is known too late."""
        return "a method that is chosen may count in each party's own memory; tds and mondrian count on an engine"

    def agreed(self, proposal: Proposal, class_name: str | None) -> Agreed:
        """Return the first candidate that takes the proposal; where none does, the last one."""
        passed: list[PassedOver] = []
        last: Agreed | None = None
        for each in self.candidates:
            try:
                made = each.method.fitted(proposal.parts, proposal.m, class_name)
            except ParameterError:  # settings for another session: there is no class, for one
                continue
            last = Agreed(made, MethodChoice(each.preference.because, tuple(passed)))
            against = tuple(dict.fromkeys(problem.sentence for problem in made.refusals(proposal)))
            if not against:
                return last
            passed.append(PassedOver(each.written, against))
        if last is None:
            raise ParameterError(Problem("no method is left to choose from; name one", key=("name",)))
        return last

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """What the last candidate refuses, if all refuse something."""
        problems: list[Problem] = []
        for each in self.possible:
            problems = [*each.refusals(proposal)]
            if not problems:
                return
        yield from problems


# --- vertical method ----------------------------------------------------------------------------------------
# What all methods between parties with different columns of the same people declare: how they find common records.


def way_to_align() -> Any:
    """Declare the parameter `align` (protocol/align/align.py)."""
    return parameter(
        choice(*WAYS),
        BY_SIZE,
        help="how common records are found: by commutative encryption on a curve, by oblivious pseudo-random "
        "functions, some forty times faster on long lists, or auto, the curve where no party has 2,000 identifiers or "
        "one has fewer than 300; the result is the same",
    )


@dataclass(frozen=True)
class VerticalMethod(SessionMethod):
    """A method that starts with an alignment (`common_records.find_common_rows`)."""

    arrangement: ClassVar[Arrangement] = "vertical"

    align: str = way_to_align()
