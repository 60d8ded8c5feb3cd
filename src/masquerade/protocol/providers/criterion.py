"""Whether a group withstands m colluding providers: m-privacy from counts.

Requirements on how often values occur are beside k-anonymity and distinct ℓ-diversity (`on_counts`): without coalitions
(m = 0) every model with a test on shared counts; against coalitions those that bound shares, since there the worst
coalition is known: it leaves all records of the value, and takes out the most of the others, so that of each value
(for recursive ℓ-diversity of each set of ℓ − 1 values) there is one sum without the m largest contributions. Where m or
fewer providers feed the group, one of them is left: the one with the fewest records of other values.

For k-anonymity and distinct ℓ-diversity:

A group fed by some of n providers is private when every feeding provider's records alone satisfy the requirement
(then so does any provider that is left), or when both of these hold:

- without its m largest contributions it still has k records: no coalition removes more;
- for each sensitive attribute, no coalition of m leaves fewer than ℓ values. A coalition that does leaves some ℓ − 1
  values at most, so equivalently, for each set of ℓ − 1 values more than m providers hold another. Whichever are
  fewer, coalitions or sets, are tested one by one. Where both are too many, a sufficient test is used: ℓ values are
  each held by more than m providers, so that no coalition takes one of them away. The release is then m-private all
  the same, and may be a little coarser.

With the first of the two tests this is Definition 2.1 exactly: when at most m providers feed the group, the coalitions
that count leave one of them alone. Both requirements gain from more records, so smaller coalitions need no test.

The group of all records is a single part, and its refusal ends the session: it is allowed many more look-ups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import comb, lcm
from typing import NamedTuple

import numpy as np

from masquerade.data import ProductColumn
from masquerade.engine import Counts, Flags
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.privacy import ANONYMIZATION_WEIGHT, REQUIREMENTS, GroupRequirement, constraint_of, plural

MOST_LOOK_UPS = 1_000  # coalitions × values, or sets of values × providers, of a part
MOST_OF_WHOLE = 50_000  # the same of the group of all records: some 120,000 gates
MOST_SETS = 100  # of values that are the frequent ones, in recursive ℓ-diversity of a part


class WholeCounts(NamedTuple):
    """All records' counts of the values of one attribute (one row), and the values' names."""

    counts: Counts
    labels: tuple[str, ...]


class OneByOne(NamedTuple):
    """An exact test of ℓ-diversity: whatever `left_out` of the one side are left out, `least` of the other remain.

    The sides are providers and values: without m providers ℓ values are held, or without ℓ − 1 values m + 1 providers
    hold one.
    """

    leaves_out_values: bool
    left_out: int
    least: int
    look_ups: int


@dataclass(frozen=True)
class Criterion:
    """k records, for each sensitive attribute ℓ values, and what else its counts must satisfy, against m providers.

    Arguments named `tallies` have, for each of `attributes`, the records with each value: parts × providers × values.
    """

    n_providers: int
    m: int
    k: int
    diversities: tuple[tuple[str, int], ...] = ()  # sensitive attribute, l
    on_counts: tuple[GroupRequirement, ...] = ()
    most_look_ups: int = MOST_LOOK_UPS

    @classmethod
    def of(
        cls,
        n_providers: int,
        m: int,
        parts: Sequence[GroupRequirement],
        *,
        third_party: str = "secure",
        provider_aware: bool = False,
    ) -> Criterion:
        """Combine all requirements into the strictest; refuse other kinds, naming a setting that accepts them.

        That setting depends on the third party, and on whether cuts between providers are required.
        """
        k, diversities = 1, dict[str, int]()
        on_counts: list[GroupRequirement] = []
        refused: list[str] = []
        for whole in parts:
            for part in (whole,) if whole.thresholds is not None else whole.conjuncts:
                asked = part.thresholds
                if asked is not None:
                    k = max(k, asked.records)
                    if part.sensitive is not None:
                        diversities[part.sensitive] = max(asked.values, diversities.get(part.sensitive, 1))
                elif not _testable(part, m):
                    refused.append(_refusal(whole, m, third_party == "trusted"))
                elif provider_aware:
                    refused.append(f"{whole.model} may fail of a provider alone; leave out provider_aware")
                else:
                    k = max(k, part.implied_size)
                    on_counts.append(part)
        if refused:
            raise ParameterError(*dict.fromkeys(refused))
        return cls(n_providers, m, k, tuple(diversities.items()), tuple(on_counts))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The sensitive attributes, first those whose different values are counted."""
        counted = (part.sensitive for part in self.on_counts if part.sensitive is not None)
        return tuple(dict.fromkeys([*(name for name, _ in self.diversities), *counted]))

    @property
    def compares_with_whole(self) -> bool:
        """Whether a part's verdict depends on records of other parts."""
        return any(part.compares_with_whole for part in self.on_counts)

    def bind(self, labels: Sequence[Sequence[str]]) -> None:
        """Refuse listed values that no provider has, and too many sets of values to look at each.

        `labels` are the values of each attribute that all providers have.
        """
        for part in self.on_counts:
            assert part.sensitive is not None
            values = labels[self.attributes.index(part.sensitive)]
            part.bind(values)
            sets = comb(len(values), 1 + part.passed_over) if self.m and part.passed_over else 0
            if sets > MOST_SETS:
                raise ParameterError(
                    f"{part} with m = {self.m}: {part.sensitive} has {plural(len(values), 'value')}, and so {sets} "
                    f"sets to be tested for each part, where {MOST_SETS} are allowed; use a smaller l, m = 0, or "
                    'third_party = "trusted" with choose = "certainty"'
                )

    @property
    def of_whole(self) -> Criterion:
        """The criterion of the group of all records, which every provider feeds: one of them is left."""
        return replace(self, m=min(self.m, self.n_providers - 1), most_look_ups=MOST_OF_WHOLE)

    def exact_test(self, n_values: int, least: int) -> OneByOne | None:
        """Return the cheaper exact test that `least` of `n_values` are left; None if both need too many look-ups."""
        n, colluding, rest = self.n_providers, min(self.m, self.n_providers), min(least - 1, n_values)
        tests = (
            OneByOne(False, colluding, least, comb(n, colluding) * n_values),
            OneByOne(True, rest, self.m + 1, comb(n_values, rest) * n),
        )
        cheaper = min(tests, key=lambda test: test.look_ups)
        return cheaper if cheaper.look_ups <= self.most_look_ups else None

    def alone(self, counts: Counts, tallies: Sequence[Counts]) -> Flags:
        """Return which providers have no record of a part, or k records and ℓ values alone; arguments as for `good`."""
        enough = counts >= self.k
        for tally, (_, least) in zip(tallies, self.diversities, strict=False):
            enough &= np.count_nonzero(tally, axis=-1) >= least
        fine: Flags = enough | (counts == 0)
        return fine

    def good(self, counts: Counts, tallies: Sequence[Counts], wholes: Sequence[WholeCounts] | None = None) -> Flags:
        """Return which parts have records and are private.

        `counts` has a row per part and a column per provider; `wholes` is about all records, for `on_counts`.
        """
        together = self.enough(counts)
        for tally, (_, least) in zip(tallies, self.diversities, strict=False):
            together &= self._diverse(tally > 0, least)
        good: Flags = (together | self.alone(counts, tallies).all(axis=1)) & counts.any(axis=1)
        for part in self.on_counts:
            assert part.sensitive is not None  # which all of them are about
            assert wholes is not None
            at = self.attributes.index(part.sensitive)
            good[good] = self._withstands(part, tallies[at][good], wholes[at])
        return good

    def _withstands(self, part: GroupRequirement, tally: Counts, whole: WholeCounts) -> Flags:
        """Return which parts, all with records, satisfy whatever a coalition leaves of them."""
        if not len(tally):
            return np.zeros(0, bool)
        if not self.m:
            return part.holds(tally.sum(axis=1), whole.counts, whole.labels)
        feeding = np.count_nonzero(tally.any(axis=2), axis=1)
        return constraint_of(part, whole.counts, whole.labels).withstands(tally, np.minimum(self.m, feeding - 1))

    @property
    def fitness_weights(self) -> tuple[int, tuple[int, ...]]:
        """What a record and a different value of each attribute add to a part's fitness, times a common denominator.

        The privacy fitness score: records beside k weigh 1 − α, and the values of all attributes beside ℓ weigh α.
        """
        alpha = Fraction(str(ANONYMIZATION_WEIGHT))
        shares = [(1 - alpha if self.diversities else Fraction(1)) / self.k]
        shares += [alpha / len(self.diversities) / least for _, least in self.diversities]
        denominator = lcm(*(share.denominator for share in shares))
        record, *values = (int(share * denominator) for share in shares)
        return record, tuple(values)

    def fitness(self, counts: Counts, tallies: Sequence[Counts]) -> Counts:
        """Return the privacy fitness score of each part, times the common denominator; arguments as for `good`."""
        record, values = self.fitness_weights
        score: Counts = counts.sum(axis=1) * record
        for tally, weight in zip(tallies, values, strict=False):
            score = score + weight * np.count_nonzero(tally.any(axis=1), axis=1)
        return score

    def divisible(self, counts: Counts) -> Flags:
        """Return which parts might be cut into two private ones; the others never can, whatever the values.

        If no coalition leaves fewer than k records of either of two parts, none leaves fewer of their union than
        2k. Otherwise the providers of one of the two have k records each.
        """
        doubled = 2 * self.k
        alone = (counts >= self.k).any(axis=1) & (counts.sum(axis=1) >= doubled)
        may: Flags = alone | (self._left(counts) >= doubled)
        return may

    def enough(self, counts: Counts) -> Flags:
        """Return of which parts every coalition of m leaves k records, whatever their values."""
        enough: Flags = self._left(counts) >= self.k
        return enough

    def unreachable(self, n_values: Sequence[int], enough: bool) -> RequirementUnreachable:
        """Return the error for a refused group of all records: too few records are left, or too few values.

        It names only what was agreed; with several sensitive attributes, it does not say which one failed.
        """
        who = f"some coalition of {plural(self.m, 'provider')} leaves" if self.m else "there are"
        everything = f"of all providers' records together {who}"
        tests = [self.exact_test(size, least) for size, (_, least) in zip(n_values, self.diversities, strict=False)]
        if not enough:
            why = f"k = {self.k} cannot be reached: {everything} fewer than {self.k}"
        elif self.on_counts:
            asked = [*([self._values()] if self.diversities else []), *map(str, self.on_counts)]
            why = f"{' or '.join(asked)} cannot be reached of all providers' records together"
        elif all(tests):
            why = f"{self._values()} cannot be reached: {everything} fewer"
        else:
            why = (
                f"{self._values()} may be out of reach, or not: there are too many coalitions to look at each, and the "
                f"test that so many values are each held by more than {plural(self.m, 'provider')} failed for all "
                'records together; use third_party = "trusted" with choose = "certainty", or ask for fewer values or '
                "a smaller m"
            )
        return RequirementUnreachable(f"collaborate: {why}", public=True)

    def _values(self) -> str:
        return " or ".join(f"{plural(least, 'value')} of {name}" for name, least in self.diversities)

    def _left(self, counts: Counts) -> Counts:
        """Return how many records are left of each part without its m largest contributions."""
        left: Counts = np.sort(counts, axis=1)[:, : max(self.n_providers - self.m, 0)].sum(axis=1)
        return left

    def _diverse(self, present: Flags, least: int) -> Flags:
        """Return of which parts every coalition of m is shown to leave `least` values."""
        test = self.exact_test(present.shape[2], least)
        if test is None:
            safe: Flags = np.count_nonzero(present.sum(axis=1) > self.m, axis=1) >= least
            return safe
        held = present.swapaxes(1, 2) if test.leaves_out_values else present
        size, good = held.shape[1], np.ones(len(held), bool)
        for kept in combinations(range(size), size - test.left_out):
            good &= np.count_nonzero(held[:, list(kept)].any(axis=1), axis=1) >= test.least
        return good


def _testable(part: GroupRequirement, m: int) -> bool:
    """Return whether counts that nobody sees tell if a group satisfies, whatever a coalition leaves of it."""
    if isinstance(part.sensitive, ProductColumn) and part.values is not None:
        return False
    return part.has_shared_test and (not m or part.worst_share(1) is not None)


def _refusal(part: GroupRequirement, m: int, is_trusted: bool) -> str:
    why = "where nobody sees all counts"
    instead = 'third_party = "trusted" with choose = "certainty"'
    if is_trusted:
        why = 'by the cuts at public places that third_party = "trusted" makes without choose'
        instead = 'choose = "certainty"'
    if m and all(each.thresholds is not None or each.has_shared_test for each in part.conjuncts):
        instead = f"m = 0, which leaves no coalition to be found, or {instead}"
    allowed = ", ".join(testable_models(m))
    return f"{part.model} cannot be tested {why}; use one of {allowed}, or {instead}"


def testable_models(m: int) -> tuple[str, ...]:
    """The names of the models that counts which nobody sees can test against m providers, if not of all parameters."""
    able = {*REQUIREMENTS.declaring("thresholds"), *REQUIREMENTS.declaring("worst_share" if m else "shared_test")}
    return tuple(name for name in REQUIREMENTS.plain if name in able)
