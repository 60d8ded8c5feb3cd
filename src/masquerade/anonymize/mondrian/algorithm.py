"""Mondrian: cut groups of records repeatedly, while every part satisfies the requirement.

LeFevre, DeWitt and Ramakrishnan's multidimensional partitioning: each group is cut where it suits that group, so one
column may hold a value and its ancestor. Equal records are always in one group. Along a taxonomy a group is cut into
the children of the lowest node that covers it, along numbers beside the median. See `cuts.py` for which cuts
are allowed, and `choose` for which of them is made.

The requirements may be over different QIDs: each is judged on the groups of its own. QIDs without a common attribute
are cut apart from each other; those with one in two ways, of which the better is kept (`linked.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.mondrian.axes import Shares
from masquerade.anonymize.mondrian.cuts import Choice, Cuts
from masquerade.anonymize.mondrian.judge import Histograms, Judge, Merge
from masquerade.anonymize.mondrian.linked import cut_by_value, linked
from masquerade.anonymize.mondrian.method import (
    BY_CLASS,
    CLASS_FIRST,
    GAIN,
    INFORMATION_GAIN,
    MERGE_HELP,
    OR_BY_CLASS,
    USUAL_PRIORITY,
    MondrianVariant,
    by_priority,
    choice_named,
    priority,
    priority_problems,
    strict,
)
from masquerade.anonymize.mondrian.multidimensional import (
    Dimensions,
    Released,
    cut_qid,
    judge_of_records,
    outcome_of,
    place_providers,
)
from masquerade.anonymize.preparation import prepare
from masquerade.data import OnStep, Outcome, Records, Schema, kept_query_log
from masquerade.errors import Problem
from masquerade.forms import Rule, choice, number, optional, parameter, switch
from masquerade.privacy import ANONYMIZATION_WEIGHT, GroupRequirement, Requirement, without_redundant
from masquerade.utility import FIXED_ONE, edges_of, workload, workload_problems

# --- provider-aware ---------------------------------------------------------------------------------------
# Provider-aware Mondrian (Algorithm 2 of the m-privacy paper): the provider is one more dimension to cut along.
#
# A cut between providers leaves fewer of them in each part, and a part with few providers more easily withstands what
# they know: so it can be cut further. Providers are ordered by how many records they have, then by name, and a group
# is cut beside its median record.
#
# Groups that were cut apart between providers may look alike in the release, which does not name the provider; they
# are then one group there. `cuts.py` sees to it that this one satisfies, too.
#
# Each QID is cut by itself. QIDs that share attributes are cut by value alone (`linked.py`).

_AT_ONCE, _AT_LAST = np.inf, -1.0  # scores before and after those of all attributes


@dataclass(frozen=True)
class ProviderAwareMondrian(MondrianVariant):
    """Mondrian for m-privacy, which also cuts between providers.

    `choose` says which allowed cut is made. "certainty": a cut between providers at once where it makes the group
    fitter against the largest coalition, so that there is more to cut afterwards; otherwise along the attribute that
    Mondrian chooses; where none is left, between providers. "class-first" and "information-gain": likewise, with the
    attribute that Mondrian chooses by these. "fitness", as in the paper: the cut whose least fit part has the highest
    privacy fitness score (Definition 3.1, in which sensitive values weigh `alpha`); of equals the first in the schema,
    providers last. `strict` and `merge` are as for Mondrian.
    """

    choose: str = parameter(
        Rule(f'"certainty" or "fitness"{OR_BY_CLASS}', choice("certainty", "fitness", *BY_CLASS).check),
        "certainty",
        help="which allowed cut is made",
    )
    strict: bool = parameter(switch(), False, help="as for Mondrian")
    alpha: float = parameter(
        number(0, 1), ANONYMIZATION_WEIGHT, help="what sensitive values weigh in the fitness of a part"
    )
    merge: Merge | None = parameter(optional(choice("violating", "small")), None, help="as for Mondrian")

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Nothing to cut between providers for, and fitness where QIDs share attributes, too."""
        yield from super().refusals(parts, schema)
        if not any(part.provider_column is not None for part in parts):
            yield Problem("there is no m-privacy to reach; use provider_aware = false", key=("provider_aware",))
        elif not cut_apart(parts):
            text = "each QID shares attributes with another, and such are cut by value alone; leave it out"
            yield Problem(text, key=("provider_aware",))
        elif self.choose == "fitness" and len(cut_apart(parts)) < len(linked(parts)):
            yield Problem("not possible with QIDs that share attributes", key=("choose",))

    def settings(self) -> dict[str, object]:
        """Return Mondrian's name and parameters, with the variant."""
        weight = {"alpha": float(self.alpha)} if self.choose == "fitness" else {}
        merge = {"merge": self.merge} if self.merge is not None else {}
        return {
            "name": self.name,
            "provider_aware": True,
            "choose": self.choose,
            "strict": self.strict,
            **merge,
            **weight,
        }

    @property
    def _merge(self) -> Merge:
        return self.merge or "violating"

    def run(self, records: Records, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Cut until no cut is allowed: large groups by counts of the chunks, then each in one memory."""
        task = prepare(records, requirement, self)
        providers = place_providers(task.records, requirement.provider_columns)
        apart, classes = cut_apart(task.parts), self.target if self.choose in BY_CLASS else None
        released = {}
        for parts in linked(task.parts):
            own = tuple(column for column in task.columns if any(column.name in part.qid for part in parts))
            if parts in apart:
                judge = judge_of_records(task.records, parts, classes, self._merge)
                choice = self._choice(judge.made(), parts, len(task.records))
                dimensions = Dimensions(own, providers)
                released.update(cut_qid(task.records, dimensions, judge, choice, self.strict))
                continue
            choice, dimensions = choice_named(self.choose, parts, len(task.records)), Dimensions(own)
            released.update(cut_by_value(task.records, dimensions, parts, choice, self.strict, classes, self._merge))
        return outcome_of(task, released)

    def _choice(self, judge: Judge, parts: Sequence[GroupRequirement], n_rows: int) -> Choice:
        if self.choose == "fitness":
            return _by_fitness(judge, self.alpha)
        return _by_value(judge, choice_named(self.choose, parts, n_rows))


def may_cut_providers(parts: Sequence[GroupRequirement]) -> bool:
    """Return whether there are providers to cut between."""
    return bool(cut_apart(parts))


def cut_apart(parts: Sequence[GroupRequirement]) -> list[Sequence[GroupRequirement]]:
    """Return the requirements against providers over QIDs that share no attribute with another, by QID."""
    return [
        each
        for each in linked(parts)
        if len({frozenset(part.qid) for part in each}) == 1 and any(part.provider_column for part in each)
    ]


def _by_fitness(judge: Judge, alpha: float) -> Choice:
    def least_fit(candidates: Cuts) -> Shares:
        """Return the privacy fitness score of the least fit part, in fixed point so that ties are exact."""
        scores = judge.fitness(candidates.parts.counts, alpha)
        starts = candidates.parts.starts(candidates.sizes.size)
        least: Shares = np.rint(np.minimum.reduceat(scores, starts) * FIXED_ONE)
        return least

    return least_fit


def _by_value(judge: Judge, choice: Choice) -> Choice:
    def score(candidates: Cuts) -> Shares:
        """Score cuts between providers above all others or below them, and cuts between values as Mondrian does."""
        if candidates.released:
            return choice(candidates)
        return np.where(_gets_fitter(judge, candidates), _AT_ONCE, _AT_LAST)

    return score


def _gets_fitter(judge: Judge, candidates: Cuts) -> NDArray[np.bool_]:
    """Return whether the parts are fitter against the largest coalition than the whole is.

    What such a coalition leaves is what may still be cut, repeatedly: so it counts by its logarithm, in the
    mean over the records.
    """
    parts, sizes = candidates.parts, candidates.sizes
    starts = parts.starts(sizes.size)
    whole: Histograms = tuple(np.add.reduceat(counts, starts, axis=0) for counts in parts.counts)
    before = np.log2(np.maximum(judge.left(whole), 1))
    after = np.add.reduceat(parts.sizes * np.log2(np.maximum(judge.left(parts.counts), 1)), starts) / sizes
    fitter: NDArray[np.bool_] = np.rint((after - before) * FIXED_ONE) > 0
    return fitter


# --- mondrian ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mondrian(MondrianVariant):
    """Multidimensional Mondrian over taxonomies and numbers.

    `choose` says which allowed cut of a group is made: "certainty", the one that lowers the normalised certainty
    penalty most for each bit by which it tells the parts apart; "widest", the one along the attribute on which the
    group is widest, as its authors do; "class-first", the one that tells most about the class for each such bit, and
    where none tells more than chance that of "certainty"; or "information-gain", the former throughout. With `strict` a
    cut into the children of a value is made only as a whole; without, children stay at the value if they violate the
    requirement (`merge` = "violating", the default), or if they have too few records ("small"). Provider-aware there is
    also "fitness", the cut whose least fit part has the highest privacy fitness score, and no "widest".

    `priority` makes the release for a purpose: the cut is made that has the highest score of the group's `spread` along
    an attribute, that attribute's `weight` in the job, and the information `gain` about the class, all from 0 to 1 and
    counted as the table says. `workload` names a log of SQL queries, such as those that the release will be asked:
    groups are first cut where its predicates begin or end to hold, as far as the requirement allows, so that its
    selections stay exact; then as usual.
    """

    seconds_per_million: ClassVar[float] = 0.5
    both_ways: ClassVar[bool] = True  # of cutting QIDs that share attributes are tried; see `linked.py`
    worth_trying: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"choose": CLASS_FIRST},
        {"choose": "widest"},
        {"choose": "fitness"},
    )

    choose: str = parameter(
        choice("certainty", "widest", CLASS_FIRST, INFORMATION_GAIN, "fitness"),
        "certainty",
        help="which allowed cut is made: the one that lowers the certainty penalty most, the one along the widest "
        "attribute, the one that tells most about the class and then the one by certainty, the one that tells most "
        "about the class throughout, or between providers the one with the fittest parts",
    )
    strict: bool = strict()
    provider_aware: bool | None = parameter(
        optional(switch()),
        None,
        help="for m-privacy: cut between providers too; by default wherever the requirements allow it",
    )
    merge: Merge | None = parameter(
        optional(choice("violating", "small")), None, help=f"{MERGE_HELP}; by default violating"
    )
    priority: Mapping[str, float] | None = priority()
    workload: str | None = workload(
        "a log of queries; groups are first cut where its predicates do, so that its selections stay exact"
    )

    def settings(self) -> dict[str, Any]:
        """Return the name and parameters, without the choice that a priority replaces."""
        told = super().settings()
        return told if self.priority is None else {key: told[key] for key in told if key != "choose"}

    @classmethod
    def tried_on(cls, schema: Schema) -> Sequence[Mapping[str, Any]]:
        """Return also the usual priority, where the attributes have different weights."""
        weighted = len({attribute.weight for attribute in schema}) > 1
        return (*cls.worth_trying, *([{"priority": USUAL_PRIORITY}] if weighted else []))

    def fitted(self, parts: Sequence[GroupRequirement]) -> TableMethod:
        """Return the provider-aware variant where the requirement names providers and allows cuts between them."""
        named = any(part.provider_column is not None for part in parts)
        if self._has_purpose or not named:  # by value alone: a cut between providers serves no purpose of the release
            return self
        # Between providers there is no "widest": who asks for it without more has the cuts by value alone.
        possible = self.choose != "widest" and may_cut_providers(parts)
        if self.provider_aware or (self.provider_aware is None and possible):
            return ProviderAwareMondrian(self.target, self.choose, self.strict, merge=self.merge)
        return self

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Fitness without providers, a priority that lacks what it counts, a workload that is no log, too."""
        yield from super().refusals(parts, schema)
        if self.priority is not None:
            qid = [name for part in parts for name in part.qid]
            yield from priority_problems(self.priority, self.choose, self.target, qid, schema)
        if self._has_purpose and self.provider_aware:
            yield Problem("not possible with priority or workload: those cut by value alone", key=("provider_aware",))
        yield from workload_problems(self.workload)
        if self.choose == "fitness":
            yield Problem(key=("choose",), allowed=f'"certainty" or "widest"{OR_BY_CLASS}', found='"fitness"')

    def run(self, records: Records, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Cut until no cut is allowed: large groups by counts of the chunks, then each in one memory."""
        variant = self.fitted(without_redundant(requirement.parts)) if self.provider_aware else self
        if variant is not self:
            return variant.run(records, requirement, on_step)
        task = prepare(records, requirement, self)
        by_class = self.choose in BY_CLASS if self.priority is None else bool(self.priority.get(GAIN))
        classes = self.target if by_class else None
        schema, edges = records.schema, {}
        if self.workload is not None:  # whose predicates may name any column
            known = records.wanted.used if records.table is None else records.table.arrow.column_names
            domains = {column.name: (column.domain, schema[column.name].kind) for column in task.columns}
            edges = edges_of(kept_query_log(self.workload), [*known, *schema.identifiers], domains)
        released: Released = {}
        for parts in linked(task.parts):
            own = tuple(column for column in task.columns if any(column.name in part.qid for part in parts))
            if self.priority is None:
                choice = choice_named(self.choose, parts, len(task.records))
            else:
                n_classes = len(records.coded[classes].labels) if classes is not None else 1
                choice = by_priority(self.priority, [schema[each.name].weight for each in own], n_classes)
            dimensions, merge = Dimensions(own, edges=edges), self.merge or "violating"
            released |= cut_by_value(
                task.records, dimensions, parts, choice, self.strict, classes, merge, self.both_ways
            )
        return outcome_of(task, released)

    @property
    def _has_purpose(self) -> bool:
        return self.priority is not None or self.workload is not None
