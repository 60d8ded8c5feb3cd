"""Provider-aware Mondrian (Algorithm 2 of the m-privacy paper): the provider is one more dimension to cut along.

A cut between providers leaves fewer of them in each part, and a part with few providers more easily withstands what
they know: so it can be cut further. Providers are ordered by how many records they have, then by name,
and a group is cut beside its median record.

Groups that were cut apart between providers may look alike in the release, which does not name the provider; they
are then one group there. `hidden_cuts.py` sees to it that this one satisfies, too.

Each QID is cut by itself. QIDs that share attributes are cut by value alone (`linked.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.axes import Shares
from masquerade.anonymize.mondrian.cuts import Choice, Cuts
from masquerade.anonymize.mondrian.judge import Histograms, Judge, Merge
from masquerade.anonymize.mondrian.method import BY_CLASS, OR_BY_CLASS, MondrianVariant, choice_named
from masquerade.anonymize.mondrian.multidimensional import (
    Dimensions,
    cut_qid,
    judge_of_records,
    outcome_of,
    place_providers,
)
from masquerade.anonymize.mondrian.qids import cut_by_value, linked
from masquerade.anonymize.preparation import prepare
from masquerade.data import OnStep, Outcome, Records, Schema
from masquerade.errors import Problem
from masquerade.forms import Rule, choice, number, optional, parameter, switch
from masquerade.privacy import ANONYMIZATION_WEIGHT, GroupRequirement, Requirement
from masquerade.utility import FIXED_ONE

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
