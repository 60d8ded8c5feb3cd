"""When a group withstands m colluding providers: m-privacy of k-anonymity and distinct ℓ-diversity, from counts.

A group fed by some of n providers is private when every feeding provider's records alone satisfy the requirement
(then whoever is left does), or when both of these hold:

- without its m largest contributions it still has k records: no coalition takes away more;
- for each sensitive attribute, no coalition of m leaves fewer than ℓ values. Tested for each coalition where there are
  few; otherwise by a test that is sufficient: ℓ values are each held by more than m providers, so that no coalition
  takes one of them away. The release is then m-private all the same, and may be a little coarser.

With the first of the two tests this is Definition 2.1 exactly: when at most m providers feed the group, the coalitions
that count leave one of them alone. Both requirements gain from more records, so smaller coalitions need no look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from masquerade.data.product import columns_of
from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.m_privacy import MPrivateGroups
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.requirement import GroupRequirement

Flags = NDArray[np.bool_]

MOST_LOOK_UPS = 1_000  # coalitions × values that are looked at one by one
_KNOWN = (KAnonymity, LDiversity, PSensitiveKAnonymity)


@dataclass(frozen=True)
class Criterion:
    """k records and, of each sensitive attribute, so many values, against m of n providers."""

    n_providers: int
    m: int
    k: int
    diversities: tuple[tuple[str, int], ...] = ()  # sensitive attribute, l

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
        """The strictest of all requirements; those of another kind are refused, with what would take them.

        That depends on who the third party is, and on whether cuts between providers are insisted on.
        """
        refused = [part for part in parts if not isinstance(part, _KNOWN)]
        if refused:
            problems = (_refusal(part, m, third_party == "trusted", provider_aware) for part in refused)
            raise ParameterError(*dict.fromkeys(problems))
        least = [int(getattr(part, "k", 1)) for part in parts]
        diversities: dict[str, int] = {}
        for part in parts:
            if part.sensitive is not None:
                asked = int(getattr(part, "l", 0) or getattr(part, "p", 0))
                diversities[part.sensitive] = max(asked, diversities.get(part.sensitive, 1))
        return cls(n_providers, m, max(least, default=1), tuple(diversities.items()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the sensitive attributes are made of."""
        return tuple(dict.fromkeys(each for name, _ in self.diversities for each in columns_of(name)))

    def is_exact(self, n_values: int) -> bool:
        """Whether each coalition is tested for an attribute of so many values."""
        return self.m >= self.n_providers or comb(self.n_providers, self.m) * n_values <= MOST_LOOK_UPS

    def alone(self, counts: Counts, present: Sequence[Flags]) -> Flags:
        """Which providers have no record of a part, or satisfy alone; arguments as for `good`."""
        enough = counts >= self.k
        for flags, (_, least) in zip(present, self.diversities, strict=True):
            enough &= flags.sum(axis=-1) >= least
        fine: Flags = enough | (counts == 0)
        return fine

    def good(self, counts: Counts, present: Sequence[Flags]) -> Flags:
        """Which parts have records and are private.

        `counts` has a row a part and a column a provider; `present`, for each sensitive attribute, says whether the
        provider has a record with the value: parts × providers × values.
        """
        together = self._left(counts) >= self.k
        for flags, (_, least) in zip(present, self.diversities, strict=True):
            together &= self._values_left(flags) >= least
        good: Flags = (together | self.alone(counts, present).all(axis=1)) & counts.any(axis=1)
        return good

    def divisible(self, counts: Counts) -> Flags:
        """Of which parts two disjoint parts may be private; of the others they never are, whatever the values.

        Two parts of which no coalition leaves fewer than k records are together one of which none leaves fewer than
        2k. Otherwise the providers of one of the two have k records each.
        """
        doubled = 2 * self.k
        alone = (counts >= self.k).any(axis=1) & (counts.sum(axis=1) >= doubled)
        may: Flags = alone | (self._left(counts) >= doubled)
        return may

    def _left(self, counts: Counts) -> Counts:
        """How many records are left of each part without its m largest contributions."""
        left: Counts = np.sort(counts, axis=1)[:, : max(self.n_providers - self.m, 0)].sum(axis=1)
        return left

    def _values_left(self, present: Flags) -> Counts:
        """How many values every coalition of m leaves; or how many of them no coalition can take away."""
        if not self.is_exact(present.shape[2]):
            safe: Counts = np.count_nonzero(present.sum(axis=1) > self.m, axis=1)
            return safe
        if self.m >= self.n_providers:
            return np.zeros(len(present), np.int64)
        left = [
            present[:, rest].any(axis=1).sum(axis=1)
            for rest in map(list, combinations(range(self.n_providers), self.n_providers - self.m))
        ]
        fewest: Counts = np.min(left, axis=0)
        return fewest


def _refusal(part: GroupRequirement, m: int, is_trusted: bool, provider_aware: bool) -> str:
    why = "where nobody sees all counts"
    instead = 'third_party = "trusted" with choose = "certainty"'
    if is_trusted:
        why = 'by the cuts at public places that third_party = "trusted" makes without choose'
        instead = 'choose = "certainty"'
    if provider_aware and not MPrivateGroups(m, "provider", (part,)).monotone_in_records:
        instead += " and provider_aware = false"
    allowed = ", ".join(model.model for model in _KNOWN)
    return f"collaborate: {part.model} cannot be tested {why}; use one of {allowed}, or {instead}"
