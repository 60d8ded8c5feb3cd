"""What every requirement is: a test on the counts of each group of a quasi-identifier.

A requirement sees a table only as a histogram: one row a group, one column a sensitive value (a single column
for requirements that look at sizes alone). So the same test serves an algorithm that tries a split, the
independent check of a release, and parties that hold shares of the counts. `registry.py` finds them by name.

Requirements are **monotone under specialization**: when a group violates, so does at least one part of every way to
split it (m-privacy of some models is not, and says so). Hence a union of satisfying groups satisfies, a specialization
that violates once always will, and a requirement over more attributes covers one over fewer. Each file gives its reason
in one line.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, dataclass_transform

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data import ProductColumn, columns_of, texts
from masquerade.engine import Counts
from masquerade.errors import ParameterError, Problem, hint, one_line
from masquerade.forms import Declared, Rule, optional, parameter, parameter_error

if TYPE_CHECKING:
    from masquerade.crypto import Builder, Circuit, Literal as Bit, Word
    from masquerade.privacy.m_privacy.constraint import Constraint
    from masquerade.privacy.sql import GroupTest, SqlWords

# --- parameters ---------------------------------------------------------------------------------------------
# The parameters that requirements have in common: quasi-identifier, sensitive attribute, listed values, and
# limits.

Model = TypeVar("Model")

_LIMIT = "limit"
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}


@dataclass(frozen=True)
class Limit:
    """A number that a requirement is stricter with when it is larger, or smaller."""

    stricter: Literal["larger", "smaller"]
    symbol: str  # as papers write it
    example: int | float  # a value to begin with

    def implies(self, one: float, other: float) -> bool:
        """Whether a requirement with the one number is at least as strict as with the other."""
        return one >= other if self.stricter == "larger" else one <= other


def limit(
    rule: Rule,
    *,
    stricter: Literal["larger", "smaller"],
    example: int | float,
    help: str,
    symbol: str,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a number of a requirement, of which it is known which way is stricter."""
    made = parameter(rule, help=help, aliases=aliases)
    return dataclasses.field(metadata={**made.metadata, _LIMIT: Limit(stricter, symbol, example)})


def limits_of(model: type) -> dict[str, Limit]:
    """The limits that a requirement declares, by name."""
    return {each.name: each.metadata[_LIMIT] for each in dataclasses.fields(model) if _LIMIT in each.metadata}


def qid() -> Any:
    """Declare the quasi-identifier: one name, or several."""
    rule = Rule("a list of one or more attribute names", _checked_names, _NAMES)
    return parameter(rule, help="the attributes by which somebody may be recognised")


class GivenOnce(str):
    """The sensitive attribute of a requirement that leaves it to the call that it is given to."""

    __slots__ = ()


GIVEN_ONCE = GivenOnce()


def sensitive(*, default: Any = dataclasses.MISSING) -> Any:
    """Declare the sensitive attribute; several names stand for one attribute, their Cartesian product.

    With `GIVEN_ONCE` as its default it may be left out in Python; files and requests always have it.
    """
    rule = Rule("the name of an attribute", _checked_sensitive, {"type": "string", "minLength": 1})
    made = parameter(rule, help="the attribute whose values are protected")
    return dataclasses.field(default=default, metadata=made.metadata)


def values(*, default: None) -> Any:
    """Declare the listed sensitive values, as cells are read: text without surrounding space; None: all values."""
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    rule = optional(Rule("a list of one or more different values", _checked_values, schema))
    return parameter(rule, default, help="the sensitive values that are protected, where not all are")


@dataclass_transform(
    frozen_default=True, field_specifiers=(dataclasses.field, parameter, limit, qid, sensitive, values)
)
def requirement(declared: type[Model]) -> type[Model]:
    """Make a class that declares parameters a frozen dataclass; type checkers see which of them are required."""
    return dataclass(frozen=True)(declared)


def _checked_names(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError
    if len(set(names)) < len(names):
        raise ValueError("a list of different attribute names")
    return tuple(map(str, names))


def _checked_sensitive(value: Any) -> str:
    if isinstance(value, GivenOnce):
        return value
    if isinstance(value, ProductColumn | list | tuple):
        names = _checked_names(value.names if isinstance(value, ProductColumn) else value)
        return names[0] if len(names) == 1 else ProductColumn(names)
    if not isinstance(value, str) or not value:
        raise ValueError
    return str(value)


def _checked_values(value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    try:
        names = [texts(pa.array([each]))[0].as_py() for each in given]
    except (pa.ArrowException, TypeError):
        raise ValueError from None
    if not given or None in given or len(set(names)) < len(names):
        raise ValueError
    return tuple(names)


# --- requirement --------------------------------------------------------------------------------------------

# Fractions, entropies and distances are equal when they differ by less than rounding can make them differ.
TOLERANCE = 1e-9

_LISTED = 10  # known values that an error lists: a sensitive attribute may have thousands


class Thresholds(NamedTuple):
    """The least number of records, and of different sensitive values."""

    records: int = 1
    values: int = 1


class SharedRow(NamedTuple):
    """The counts of one group as two parties share them: `n_values` numbers of `width` binary digits.

    The first `n_bounded` are the sensitive values that the requirement is about. There are `n_records` records in all.
    """

    n_values: int
    n_bounded: int
    n_records: int
    width: int


class CircuitCounts(NamedTuple):
    """The counts of one group as words of a circuit, and those of the whole table; no more than `most_records`.

    `bounded` are the places of the values that the requirement is about.
    """

    cells: Sequence[Word]
    whole: Sequence[Word]
    most_records: int
    bounded: Sequence[int]


class Requirement(ABC):
    """Something that must hold, alone or joined to others with `&`."""

    @property
    @abstractmethod
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements that must all hold."""

    def __and__(self, other: Requirement) -> Conjunction:
        if not isinstance(other, Requirement):
            return NotImplemented
        return Conjunction((self, other))

    def with_k(self, k: int) -> Requirement:
        """Return the same with this k in place of each k that a part has."""
        return Conjunction(part.with_k(k) for part in self.parts)

    def with_sensitive(self, name: str) -> Requirement:
        """Return the same with this sensitive attribute in each part that leaves it open."""
        return Conjunction(part.with_sensitive(name) for part in self.parts)

    @property
    def qid_attributes(self) -> tuple[str, ...]:
        """The attributes of all quasi-identifiers, each once, in order of appearance."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.qid))

    @property
    def sensitive_attributes(self) -> tuple[str, ...]:
        """The sensitive attributes that some part looks at, each once; one may be a product of columns."""
        return tuple(dict.fromkeys(part.sensitive for part in self.parts if part.sensitive is not None))

    @property
    def special_columns(self) -> tuple[str, ...]:
        """The columns that those are made of, each once."""
        return tuple(dict.fromkeys(each for name in self.sensitive_attributes for each in columns_of(name)))

    @property
    def provider_columns(self) -> tuple[str, ...]:
        """Those of them that name a record's provider: they are for the check, and not released with the others."""
        named = (part.provider_column for part in self.parts)
        return tuple(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True)
class Conjunction(Requirement):
    """Several requirements that must all hold, in the order in which they were joined."""

    members: tuple[GroupRequirement, ...]

    def __init__(self, members: Iterable[Requirement]) -> None:
        object.__setattr__(self, "members", tuple(part for member in members for part in member.parts))

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements that must all hold."""
        return self.members

    def __str__(self) -> str:
        return " & ".join(map(str, self.members))


class GroupRequirement(Requirement, Declared):
    """A requirement on each group of records that share their values on one quasi-identifier.

    Subclasses are frozen dataclasses, validated when constructed. A model must declare its name, its parameters,
    `figures`, `allows` (or `holds`) and `complaint`; with that it works on one table. The rest has defaults that say
    "not known": what needs it (m-privacy, parties that share counts) refuses the model, and says why.
    """

    # --- what it is ---
    model: ClassVar[str]  # its name in a job file
    promise: ClassVar[str] = ""  # in a line for people: "at least k records in each group"
    figure_meaning: ClassVar[str] = "the worst group’s figure"  # "records in the smallest group"
    worst: ClassVar[Literal["smallest", "largest"]] = "smallest"  # which figure is the worst group's
    wraps: ClassVar[bool] = False  # made of other requirements, to which it adds something

    qid: Sequence[str]  # as a tuple
    sensitive: str | None = None  # the sensitive attribute it looks at, if any
    values: Sequence[str] | None = None  # the sensitive values it is about, as a tuple; None: all

    # --- how it behaves ---
    monotone: bool = True  # under specialization; see above
    monotone_in_records: bool = False  # more records never break it (EG-monotone, Definition 2.3 of m-privacy)
    hereditary: ClassVar[bool] = False  # when a group violates, so does every part of it, and not just one
    compares_with_whole: bool = False  # a group's verdict depends on the records of other groups
    within_boundaries: bool = False  # no value may be generalised beyond its attribute's boundary

    # --- against colluding providers ---
    constraint: ClassVar[type[Constraint] | None] = None  # what they can make of its counts, where that is known
    colluding: int = 0  # how many of them it withstands
    provider_column: str | None = None  # the column that names each record's provider, where that matters

    def with_k(self, k: int) -> GroupRequirement:
        """Return the same with this k, if it has one."""
        return replace(self, k=k) if "k" in limits_of(type(self)) else self  # type: ignore[type-var] # a dataclass

    @property
    def leaves_sensitive_open(self) -> bool:
        """Whether its sensitive attribute is left to the call that it is given to."""
        return isinstance(self.sensitive, GivenOnce)

    def with_sensitive(self, name: str) -> GroupRequirement:
        """Return the same with this sensitive attribute, if it leaves it open."""
        return replace(self, sensitive=name) if self.leaves_sensitive_open else self  # type: ignore[type-var] # a dataclass

    @property
    def limit(self) -> float | None:
        """What the figure is compared with: k, ℓ, t, …; None where it is no single number."""
        return None

    @property
    def required_size(self) -> int | None:
        """The least size of a group, where the model itself has a parameter for it (k)."""
        return None

    @property
    def implied_size(self) -> int:
        """A size that every satisfying group has at least, whatever its values: k, or for ℓ values ℓ records."""
        return max(self.required_size or 1, *(self.thresholds or (1,)))

    @property
    def conjuncts(self) -> tuple[GroupRequirement, ...]:
        """Simpler requirements that together ask for exactly the same."""
        return (self,)

    @property
    def wrapped(self) -> tuple[GroupRequirement, ...]:
        """The requirements that it asks for even more of, and that hold wherever it does."""
        return ()

    # --- for parties that see no counts but their own ---

    @property
    def thresholds(self) -> Thresholds | None:
        """What it asks for, where that is enough records and enough different sensitive values, and nothing else."""
        return None

    @property
    def only_sizes(self) -> bool:
        """Whether it asks for groups of a least size, and for nothing else."""
        return self.thresholds is not None and self.sensitive is None

    @property
    def has_circuit(self) -> bool:
        """Whether there is a circuit for these parameters."""
        return self.declares("circuit")

    def circuit(self, row: SharedRow) -> Circuit:
        """The circuit that judges one group from shared counts.

        It accepts an empty group, and need not judge a size: what evaluates it refuses groups that are too small. Of
        all others its answer is that of `holds`, so that parties decide as one table does. A model that compares with
        the whole table gets the whole table's counts as an input "whole".

        Models import what builds circuits here, not at their top: who checks one table has no use for it.
        """
        raise NotImplementedError(f"{self.model} has no circuit")

    @property
    def has_shared_test(self) -> bool:
        """Whether there is a `shared_test` for these parameters."""
        return self.declares("shared_test")

    def shared_test(self, build: Builder, counts: CircuitCounts) -> Bit:
        """Build the same test, in a shallow circuit, where nobody knows how many records there are in all."""
        raise NotImplementedError(f"{self.model} has no test on shared counts")

    def worst_share(self, most_records: int) -> tuple[int, int] | None:
        """The largest fraction of a group that a value may be, where coalitions do best to take out all other values.

        Of the group without `passed_over` other values, whichever they are. None where another coalition may be the
        worst.
        """
        return None

    @property
    def passed_over(self) -> int:
        """How many other values are not counted beside a value whose share is bounded (`worst_share`)."""
        return 0

    @classmethod
    def needs_taxonomy(cls, given: Mapping[str, Any]) -> bool:
        """Whether, with these parameters, it looks at the tree of its sensitive values (its parameter `taxonomy`)."""
        return False

    @classmethod
    def declares(cls, name: str) -> bool:
        """Whether the model has an answer of its own to this question, and not the default, which is "not known"."""
        return getattr(cls, name) is not getattr(GroupRequirement, name)

    # --- what it does ---

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.title = getattr(cls, "model", "")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in columns_of(self.sensitive) if self.sensitive is not None else ():
            if name in self.qid:  # what is generalised cannot be what is protected
                allowed = f"an attribute outside the qid {', '.join(self.qid)}"
                raise parameter_error(self, "sensitive", allowed, name)

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """Just this one."""
        return (self,)

    def bind(self, labels: Sequence[str]) -> None:
        """Refuse listed values that the table does not have; `labels` are those it has. An empty table has no say."""
        unknown = [value for value in self.values or () if value not in set(labels)] if labels else []
        if not unknown:
            return
        more = f" and {len(labels) - _LISTED} more" if len(labels) > _LISTED else ""
        known = ", ".join(f'"{label}"' for label in labels[:_LISTED]) + more
        rule = f"The values parameter of {type(self).__name__} must list values of {self.sensitive}: {known}."
        raise ParameterError(*(one_line(f'{rule} Got "{value}" instead{hint(value, labels)}.') for value in unknown))

    @abstractmethod
    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[Any]:
        """Each group's figure (its size for k, its distinct values for ℓ, …).

        `histogram` has a row a non-empty group and a column a sensitive value; `whole` is the histogram of
        the whole table, one row; `labels` names the columns.
        """

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Whether each group satisfies the requirement; arguments as for `figures`."""
        return self.allows(self.figures(histogram, whole, labels))

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether groups with these figures satisfy; for models of which the figure alone decides."""
        raise NotImplementedError(f"{self.model} declares neither `allows` nor `holds`")

    def sql(self, words: SqlWords) -> GroupTest:
        """The same test in SQL, over `counts`: each group's `records` by sensitive value `v`; or NotInSql."""
        from masquerade.privacy.sql import NotInSql

        raise NotInSql(f"{self.model} does not say how it is checked in SQL")

    def sql_against(self, words: SqlWords, m: int) -> GroupTest:
        """The same of what m providers leave of `held`: each group's `records` by provider `p` and value `v`."""
        from masquerade.privacy.sql import NotInSql

        raise NotInSql(f"which coalition is the worst for {self.model} cannot be said in SQL")

    def parameters(self) -> dict[str, object]:
        """The parameters beside `qid`, as a job file names them."""
        return {name: value for name, value in super().parameters().items() if name != "qid"}

    @abstractmethod
    def complaint(self, figure: float, size: int) -> str:
        """What is wrong with a violating group, and what is allowed.

        For example: "has 3 records; at least 50 are required".
        """

    def explain(self, figure: float, histogram: Counts, whole: Counts, labels: Sequence[str]) -> str:
        """The complaint about one violating group, whose counts are the only row of `histogram`."""
        return self.complaint(figure, int(histogram.sum()))

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """Whether, over the same groups and the same sensitive attribute, this one implies the other.

        Limits may be stricter, and more values may be listed; all else must be the same.
        """
        if type(self) is not type(other):
            return False
        limits, mine, theirs = limits_of(type(self)), self.parameters(), other.parameters()
        more = self.values is None or (other.values is not None and {*other.values} <= {*self.values})
        return more and all(
            limits[name].implies(mine[name], theirs[name]) if name in limits else mine[name] == theirs[name]  # type: ignore[arg-type] # limits are numbers
            for name in mine
            if name not in ("sensitive", "values")
        )

    def covers(self, other: GroupRequirement) -> bool:
        """Whether the other follows from this one: same kind, at least its attributes, at least as strict."""
        return (
            type(self) is type(other)
            and self.monotone
            and self.sensitive == other.sensitive
            and set(other.qid) <= set(self.qid)
            and self.as_strict_as(other)
        )

    def shown_parameters(self) -> dict[str, object]:
        """The parameters that a person wants to read in a line."""
        return {name: value for name, value in self.parameters().items() if name != "taxonomy"}

    @property
    def without_qid(self) -> str:
        """The model with its parameters, for a person."""
        settings = ", ".join(f"{key} = {_plain(value)}" for key, value in self.shown_parameters().items())
        return f"{self.model} ({settings})"

    def __str__(self) -> str:
        return f"{self.without_qid} over {', '.join(self.qid)}"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


Covers = Callable[[GroupRequirement, GroupRequirement], bool]


def covers(one: GroupRequirement, other: GroupRequirement) -> bool:
    """Whether the other follows from the one."""
    return one.covers(other)


def covers_against_insiders(one: GroupRequirement, other: GroupRequirement) -> bool:
    """Whether the other follows from the one also where m-privacy wraps both.

    What holds for all groups over more attributes need not hold over fewer, where a coalition can break their union.
    """
    same_groups = set(one.qid) == set(other.qid)
    return (same_groups or one.monotone_in_records) and one.covers(other)


def without_redundant(parts: Iterable[GroupRequirement], covers: Covers = covers) -> tuple[GroupRequirement, ...]:
    """The parts that no other part covers; of two that cover each other, the first."""
    kept: list[GroupRequirement] = []
    for part in parts:
        if any(covers(other, part) for other in kept):
            continue
        kept = [other for other in kept if not covers(part, other)]
        kept.append(part)
    return tuple(kept)


def settled(holds: NDArray[np.bool_], close: NDArray[np.bool_], exactly: Callable[[int], bool]) -> NDArray[np.bool_]:
    """Decide anew, in exact numbers, the few groups whose figure is so close to its bound that rounding might."""
    for group in np.flatnonzero(close):
        holds[group] = exactly(int(group))
    return holds


def plural(count: int, noun: str) -> str:
    """`1 record`, `3 records`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def beside(figure: float, limit: float) -> str:
    """A figure in as few digits as still tell it from the limit that it breaks."""
    for digits in range(4, 17):
        text = f"{figure:.{digits}g}"
        if float(text) != limit:
            return text
    return repr(figure)


# --- given once ---------------------------------------------------------------------------------------------
# The sensitive attribute of requirements that name none: given once, to the call or in another requirement.

_ALLOWED = "the name of an attribute, here or as the only sensitive one of the call or of another requirement"


def with_sensitive_given_once(requirement: Requirement, sensitive: Sequence[str] = ()) -> Requirement:
    """Return the requirement with every sensitive attribute named.

    A part that leaves it open gets that of the call, `sensitive`, or without one that of the other parts. If there is
    none, or there are several, ParameterError. A column that names providers is not sensitive.
    """
    parts = [each for part in requirement.parts for each in part.wrapped or (part,)]
    unnamed = [part for part in parts if part.leaves_sensitive_open]
    if not unnamed:
        return requirement
    of_others = [part.sensitive for part in parts if part.sensitive and not part.leaves_sensitive_open]
    of_call = [name for name in sensitive if name not in requirement.provider_columns]
    names = list(dict.fromkeys(of_call or of_others))
    if len(names) != 1:
        found = ", ".join(f'"{name}"' for name in names) or "none"
        owner = type(unnamed[0]).__name__
        raise ParameterError(Problem(parameter="sensitive", owner=owner, allowed=_ALLOWED, found=found))
    return requirement.with_sensitive(names[0])
