"""Whether a group withstands m colluding providers: m-privacy of k-anonymity and distinct ℓ-diversity, from counts.

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
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from masquerade.data.product import columns_of
from masquerade.engine.counts import Counts, Flags
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.privacy.registry import REQUIREMENTS
from masquerade.privacy.requirement import GroupRequirement, plural

MOST_LOOK_UPS = 1_000  # coalitions × values, or sets of values × providers, of a part
MOST_OF_WHOLE = 50_000  # the same of the group of all records: some 120,000 gates


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
    """k records and, for each sensitive attribute, ℓ values, against m of n providers."""

    n_providers: int
    m: int
    k: int
    diversities: tuple[tuple[str, int], ...] = ()  # sensitive attribute, l
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
        refused: list[str] = []
        for part in parts:
            asked = part.thresholds
            if asked is None:
                refused.append(_refusal(part, third_party == "trusted", provider_aware))
                continue
            k = max(k, asked.records)
            if part.sensitive is not None:
                diversities[part.sensitive] = max(asked.values, diversities.get(part.sensitive, 1))
        if refused:
            raise ParameterError(*dict.fromkeys(refused))
        return cls(n_providers, m, k, tuple(diversities.items()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that make up the sensitive attributes."""
        return tuple(dict.fromkeys(each for name, _ in self.diversities for each in columns_of(name)))

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

    def alone(self, counts: Counts, present: Sequence[Flags]) -> Flags:
        """Return which providers have no record of a part, or satisfy alone; arguments as for `good`."""
        enough = counts >= self.k
        for flags, (_, least) in zip(present, self.diversities, strict=True):
            enough &= flags.sum(axis=-1) >= least
        fine: Flags = enough | (counts == 0)
        return fine

    def good(self, counts: Counts, present: Sequence[Flags]) -> Flags:
        """Return which parts have records and are private.

        `counts` has a row per part and a column per provider; `present`, for each sensitive attribute, says whether the
        provider has a record with the value: parts × providers × values.
        """
        together = self.enough(counts)
        for flags, (_, least) in zip(present, self.diversities, strict=True):
            together &= self._diverse(flags, least)
        good: Flags = (together | self.alone(counts, present).all(axis=1)) & counts.any(axis=1)
        return good

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
        tests = [
            self.exact_test(size, least) for size, (_, least) in zip(n_values, self.diversities, strict=True)
        ]
        if not enough:
            why = f"k = {self.k} cannot be reached: {everything} fewer than {self.k}"
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


def _refusal(part: GroupRequirement, is_trusted: bool, provider_aware: bool) -> str:
    why = "where nobody sees all counts"
    instead = 'third_party = "trusted" with choose = "certainty"'
    if is_trusted:
        why = 'by the cuts at public places that third_party = "trusted" makes without choose'
        instead = 'choose = "certainty"'
    if provider_aware and not part.monotone_in_records:
        instead += " and provider_aware = false"
    allowed = ", ".join(REQUIREMENTS.declaring("thresholds"))
    return f"{part.model} cannot be tested {why}; use one of {allowed}, or {instead}"
