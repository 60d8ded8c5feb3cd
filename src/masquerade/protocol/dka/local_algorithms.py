"""The algorithms by which a party of DkA generalises its own columns: everything that `local` may say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from masquerade.anonymize.datafly import Datafly
from masquerade.anonymize.mondrian.algorithm import Mondrian
from masquerade.data.column import Column
from masquerade.protocol.dka.anonymizers import Descent, FullDomain
from masquerade.protocol.dka.datafly_side import DataflySide
from masquerade.protocol.dka.mondrian_levels import ByMondrian
from masquerade.protocol.dka.side import BottomUpSide, Side, TopDownSide


@dataclass(frozen=True)
class LocalAlgorithm:
    """How a side starts."""

    make: Callable[[Sequence[Column], int, int, bool], Side]
    by_steps: bool = True  # whether attributes need taxonomies to climb along
    opens_chi: bool = False  # whether which records pass is opened, and not only whether all do

    def side(self, columns: Sequence[Column], n_records: int, k: int, *, only_sizes: bool = True) -> Side:
        """Return a side of these columns; `only_sizes`: whether groups of k satisfy, whatever is in them."""
        return self.make(columns, n_records, k, only_sizes)


LOCAL_ALGORITHMS = {
    Datafly.name: LocalAlgorithm(
        lambda columns, n, k, only_sizes: DataflySide(columns, n, k, only_sizes=only_sizes), opens_chi=True
    ),
    "top-down": LocalAlgorithm(lambda columns, n, k, _: TopDownSide(Descent(columns, n, k), n, k)),
    "full-domain": LocalAlgorithm(lambda columns, n, k, _: BottomUpSide(FullDomain(columns, n, k), n, k)),
    Mondrian.name: LocalAlgorithm(
        lambda columns, n, k, _: BottomUpSide(ByMondrian(columns, n, k), n, k), by_steps=False
    ),
}
