"""m-privacy: a requirement must still hold for what remains when up to m colluding providers take their records out.

Several providers feed one table, and each knows its own records. A group that satisfies a requirement C against
outsiders may not against a provider that recognises, and removes, what it contributed. A group is **m-private**
(Definition 2.1) when C holds for every set of records between those that are left without a coalition's and all of
them, for every coalition of at most m of the group's providers that leaves somebody else's records. A
group from one provider has no such coalition; C must hold for it as it is.

Monotone under specialization when C only gains from more records (k-anonymity, distinct ℓ-diversity, p-sensitive
k-anonymity): take a coalition of a union. Where it spans a whole part, it leaves somebody in another; in each part that
it does not span, it leaves records that satisfy, and so does their union.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.data import ProductColumn, Table, columns_of
from masquerade.engine import Counts, first_rows, weighted_counts
from masquerade.forms import Declared, Rule, checked, number, parameter, parameter_error, text, whole
from masquerade.privacy.check import Reading, Verdict, WholeTable
from masquerade.privacy.m_privacy.constraint import VERIFICATION_WEIGHT, can_wrap, constraint_of
from masquerade.privacy.m_privacy.groups import GroupCheck, ProviderCounts, provider_counts
from masquerade.privacy.m_privacy.strategies import TOP_DOWN_FROM, Strategy, adaptive, strategy_named
from masquerade.privacy.requirement import GroupRequirement, Requirement, plural, requirement, with_sensitive_given_once

if TYPE_CHECKING:
    from masquerade.privacy.sql import GroupTest, SqlWords

_COLLUDING = "the providers that may collude, at most"
_PROVIDER = "the name of a column outside the qid that is not sensitive"


def _with_parts(value: Any) -> Requirement:
    if not isinstance(value, Requirement) or not value.parts:
        raise ValueError
    return value


@requirement
class MPrivacy(Requirement, Declared):
    """A requirement, against up to m colluding providers; `provider` is the column that names each record's.

    `verification` names the way to verify; all give the same verdict. It is "exact", or as in the m-privacy paper
    "direct", "top-down", "bottom-up", "binary" or "adaptive".
    """

    m: int = parameter(whole(0), help=_COLLUDING)
    requirement: Requirement = parameter(
        Rule('a requirement such as KAnonymity(["age", "job"], k=30)', _with_parts),
        help="what must hold without their records, too",
    )
    provider: str = parameter(text(_PROVIDER), help="the column that names each record's provider")
    verification: str = field(default="exact", compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for part in self.requirement.parts:
            if not can_wrap(part):
                raise parameter_error(self, "requirement", f"made of {_wrappable()}", part.model)
        if self.provider in {*self.requirement.qid_attributes, *self.requirement.special_columns}:
            raise parameter_error(self, "provider", _PROVIDER, self.provider)
        strategy_named(self.verification)

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """One for each quasi-identifier."""
        by_qid: dict[frozenset[str], list[GroupRequirement]] = {}
        for part in self.requirement.parts:
            by_qid.setdefault(frozenset(part.qid), []).append(part)
        return tuple(
            MPrivateGroups(self.m, self.provider, tuple(members), self.verification) for members in by_qid.values()
        )

    def __str__(self) -> str:
        return " & ".join(map(str, self.parts))


@requirement
class MPrivateGroups(GroupRequirement):
    """m-privacy over one quasi-identifier: what `MPrivacy` is made of.

    To the rest of the house its sensitive attribute is the product of provider and sensitive attributes, so that a
    group's histogram holds the counts by provider and value.
    """

    model: ClassVar[str] = "m-privacy"
    promise = "the other requirements still hold when up to m providers take their records out"
    figure_meaning = "colluding providers that every group withstands, in all that follows"
    wraps = True

    m: int = parameter(whole(0), help=_COLLUDING)
    provider: str = field()
    members: tuple[GroupRequirement, ...] = field()
    verification: str = field(default="exact", compare=False)
    qid: Sequence[str] = field(init=False)
    sensitive: ProductColumn = field(init=False)
    colluding: int = field(init=False, compare=False, repr=False)
    provider_column: str = field(init=False, compare=False, repr=False)
    # Not where a coalition can break a union of groups of which each has one provider, and is safe from all.
    monotone: bool = field(init=False, compare=False, repr=False)
    monotone_in_records: bool = field(init=False, compare=False, repr=False)
    compares_with_whole: bool = field(init=False, compare=False, repr=False)
    within_boundaries: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        gain = all(member.monotone_in_records for member in self.members)
        derived = {
            "qid": self.members[0].qid,
            "colluding": self.m,
            "provider_column": self.provider,
            "monotone": gain,
            "monotone_in_records": gain,
            "compares_with_whole": any(member.compares_with_whole for member in self.members),
            "within_boundaries": any(member.within_boundaries for member in self.members),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        looked_at = [member.sensitive for member in self.members if member.sensitive is not None]
        columns = dict.fromkeys(column for name in looked_at for column in columns_of(name))
        object.__setattr__(self, "sensitive", ProductColumn((self.provider, *columns)))

    def with_k(self, k: int) -> MPrivateGroups:
        """Return the same with this k in place of each k that it wraps."""
        return replace(self, members=tuple(member.with_k(k) for member in self.members))

    @property
    def leaves_sensitive_open(self) -> bool:
        """Whether one of those that it wraps does."""
        return any(member.leaves_sensitive_open for member in self.members)

    def with_sensitive(self, name: str) -> MPrivateGroups:
        """Return the same with this sensitive attribute wherever it is left open."""
        return replace(self, members=tuple(member.with_sensitive(name) for member in self.members))

    @property
    def wrapped(self) -> tuple[GroupRequirement, ...]:
        """What holds against outsiders."""
        return self.members

    def bind(self, labels: Sequence[str]) -> None:
        """Refuse sensitive values that the table does not have."""
        for member, (names, _) in zip(self.members, self._layout(labels).values, strict=True):
            member.bind(names)

    def check(
        self, whole: Counts, labels: Sequence[str], strategy: Strategy | None = None
    ) -> tuple[ProviderCounts, GroupCheck]:
        """How the counts are laid out, and the check of groups that are counted so; by another strategy if given."""
        layout = self._layout(labels)
        everything = layout.counts(whole).sum(axis=1)
        constraints, places = [], []
        for member, (names, of_value) in zip(self.members, layout.values, strict=True):
            if member.sensitive is None:
                mine = everything.sum(axis=1, keepdims=True)
            else:
                mine = weighted_counts(of_value, everything[0], len(names)).astype(np.int64)[None]
            constraints.append(constraint_of(member, mine, names))
            places.append(None if np.array_equal(of_value, np.arange(layout.n_values)) else of_value)
        return layout, GroupCheck(self.m, constraints, places, strategy or self.verification)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> Counts:
        """How many colluding providers each group withstands, up to m; −1 where not even outsiders."""
        layout, check = self.check(whole, labels)
        counts = layout.counts(histogram)
        withstood = np.full(len(histogram), self.m, np.int64)
        for group in np.flatnonzero(~check.holds(counts)):
            withstood[group] = check.withstands(counts[group])
        return withstood

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which groups are m-private."""
        layout, check = self.check(whole, labels)
        return check.holds(layout.counts(histogram))

    def parameters(self) -> dict[str, object]:
        """`m`, `provider`, and the requirements that it wraps."""
        wrapped = [{"model": member.model, **member.parameters()} for member in self.members]
        return {"m": self.m, "provider": self.provider, "of": wrapped}

    def sql(self, words: SqlWords) -> GroupTest:
        """What violates one of the requirements that it wraps, for the worst coalition of m providers."""
        tests = [
            self._sql_of(each, words) for member in self.members for each in (member.conjuncts if self.m else (member,))
        ]
        either = "\n  UNION ALL\n  ".join(tests)
        return words.test("NULL::BIGINT", "bool_or(broken)", f"(\n  {either})")

    def _sql_of(self, member: GroupRequirement, words: SqlWords) -> str:
        value = "''" if member.sensitive is None else words.value_of(member.sensitive)
        provider = f"{words.value[self.provider]} AS p, " if self.m else ""
        by = f"{words.qid}, {'p, ' if self.m else ''}v"
        test = member.sql_against(words, self.m) if self.m else member.sql(words)
        counted = f"{words.qid}, {provider}{value} AS v, count(*) AS records FROM release GROUP BY {by}"
        return (
            f"SELECT {words.qid}, broken FROM (\n"
            f"   WITH {'held' if self.m else 'counts'} AS (SELECT {counted})\n"
            f"   SELECT {words.qid}, {test.violates} AS broken FROM {test.relation} GROUP BY {words.qid})"
        )

    def complaint(self, figure: float, size: int) -> str:
        """How many colluding providers it withstands, and how many it must."""
        if figure < 0:
            return f"does not satisfy {self._wrapped()} even against outsiders"
        withstood = plural(int(figure), "colluding provider") if figure else "no provider"
        return f"withstands {withstood}; {self.m} are required"

    def explain(self, figure: float, histogram: Counts, whole: Counts, labels: Sequence[str]) -> str:
        """Who breaches it, and what remains without them."""
        layout, check = self.check(whole, labels)
        counts = layout.counts(histogram)[0]
        coalition = check.outcome(counts).coalition
        if coalition is None:
            return self.complaint(figure, int(histogram.sum()))
        left = np.delete(counts, list(coalition), axis=0)
        for constraint, matrix in zip(check.constraints, check.group(left).matrices, strict=True):
            rest = matrix.sum(axis=0, keepdims=True)
            if not constraint.holds_as_is(rest)[0]:
                value = constraint.part.figures(rest, constraint.whole, constraint.labels)[0]
                what = constraint.part.complaint(float(value), int(rest.sum()))
                break
        else:
            what = f"can be made to violate {self._wrapped()}"
        if not coalition:
            return what
        names = [layout.providers[each] for each in coalition]
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        return f"without the records of {self.provider} {who} {what}"

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """As large an m, around requirements that cover the other's."""
        return (
            isinstance(other, MPrivateGroups)
            and self.m >= other.m
            and self.provider == other.provider
            and all(any(mine.covers(theirs) for mine in self.members) for theirs in other.members)
        )

    def covers(self, other: GroupRequirement) -> bool:
        """What is m-private satisfies as it is too; over fewer attributes where more records never break it."""
        if not isinstance(other, MPrivateGroups):
            return any(member.covers(other) for member in self.members)
        same_groups = set(self.qid) == set(other.qid)
        return (same_groups or self.monotone_in_records) and self.as_strict_as(other)

    def _layout(self, labels: Sequence[str]) -> ProviderCounts:
        return provider_counts(tuple(labels), self.sensitive, tuple(each.sensitive for each in self.members))

    def _wrapped(self) -> str:
        return ", ".join(member.without_qid for member in self.members)

    def __str__(self) -> str:
        over = ", ".join(self.qid)
        return f"m-privacy (m = {self.m}, provider = {self.provider}) of {self._wrapped()} over {over}"


def _wrappable() -> str:
    from masquerade.privacy.registry import REQUIREMENTS  # which knows this module, too

    return ", ".join(name for name, model in REQUIREMENTS.items() if can_wrap(model))


# --- group by group -----------------------------------------------------------------------------------------
# Who feeds each group of a table, whether it is m-private, who breaches it, after how many checks.


@dataclass(frozen=True)
class GroupVerdict:
    """One group of a table: its cells on the quasi-identifier, its providers, and the verdict.

    `coalition` are providers without whose records the others' violate; () are outsiders, None is nobody.
    """

    group: Mapping[str, str]
    providers: tuple[str, ...]
    size: int
    private: bool
    coalition: tuple[str, ...] | None
    checks: int


def verify_m_privacy(
    frame: Any,
    requirement: MPrivacy,
    verification: str | None = None,
    *,
    alpha: float = VERIFICATION_WEIGHT,
    threshold: float = TOP_DOWN_FROM,
) -> tuple[GroupVerdict, ...]:
    """Verify each group of a table that has a column of providers; `verification` names another way to do it.

    `alpha` and `threshold` are those of "adaptive", and change how many checks it makes: what constraints on values
    weigh in a provider's fitness, and from which mean fitness of a group's providers on it goes top-down.
    """
    table = frame if isinstance(frame, Table) else Table(frame)
    wanted = replace(
        requirement,
        requirement=with_sensitive_given_once(requirement.requirement),
        verification=verification or requirement.verification,
    )
    checked(verify_m_privacy, "alpha", number(0, 1), alpha)
    checked(verify_m_privacy, "threshold", number(0), threshold)
    chosen = (alpha, threshold) != (VERIFICATION_WEIGHT, TOP_DOWN_FROM)
    if chosen and wanted.verification != "adaptive":
        must_be = '"adaptive" where alpha or threshold is given'
        raise parameter_error(verify_m_privacy, "verification", must_be, wanted.verification)
    strategy = partial(adaptive, alpha=alpha, threshold=threshold) if chosen else None
    reading = Reading(table, [*wanted.qid_attributes, *wanted.special_columns])
    verdicts: list[GroupVerdict] = []
    for part in wanted.parts:
        assert isinstance(part, MPrivateGroups)
        verdicts += _verdicts(reading, part, strategy)
    return tuple(verdicts)


def with_coalitions(
    table: Table, verdicts: Sequence[Verdict], times: Counts | None = None, whole: WholeTable | None = None
) -> tuple[Verdict, ...]:
    """The verdicts on a table; those on m-privacy with who breaches the first violating group, and the checks made.

    `times` and `whole` as for `verify`.
    """
    parts = [each.requirement for each in verdicts if isinstance(each.requirement, MPrivateGroups)]
    if not parts:
        return tuple(verdicts)
    names = [name for part in parts for name in (*part.qid, *columns_of(part.sensitive))]
    reading = Reading(table, names, times, whole)

    def completed(verdict: Verdict) -> Verdict:
        if not isinstance(verdict.requirement, MPrivateGroups):
            return verdict
        groups = _verdicts(reading, verdict.requirement)
        coalition = next((group.coalition for group in groups if not group.private), None)
        return replace(verdict, coalition=coalition, checks=sum(group.checks for group in groups))

    return tuple(map(completed, verdicts))


def _verdicts(reading: Reading, part: MPrivateGroups, strategy: Strategy | None = None) -> list[GroupVerdict]:
    labels, n_groups = reading.groups(part.qid)
    coded = reading.sensitive(part.sensitive)
    part.bind(coded.labels)
    if not n_groups:
        return []
    whole = reading.whole(coded)
    layout, check = part.check(whole, coded.labels, strategy)
    rows = first_rows(labels, n_groups)
    n_values = len(coded.labels)
    histograms = reading.counts(labels * n_values + coded.codes, n_groups * n_values)
    verdicts = []
    for group in np.argsort(rows):  # in the order of the rows
        histogram = histograms[group * n_values : (group + 1) * n_values]
        counts = layout.counts(histogram[None])[0]
        found = check.outcome(counts)
        feeding = np.flatnonzero(counts.sum(axis=1))
        verdicts.append(
            GroupVerdict(
                {name: reading.cell(name, int(rows[group])) for name in part.qid},
                tuple(layout.providers[each] for each in feeding),
                int(histogram.sum()),
                found.private,
                None if found.coalition is None else tuple(layout.providers[each] for each in found.coalition),
                found.checks,
            )
        )
    return verdicts
