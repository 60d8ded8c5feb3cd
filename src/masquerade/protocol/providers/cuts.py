"""Cuts of one set of linked QIDs: how they are to be made, and the columns of the release that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from masquerade.data import Table, Taxonomy
from masquerade.errors import Bug
from masquerade.protocol.contract import Contract
from masquerade.protocol.providers.axes import CategoryAxis, Ranks
from masquerade.protocol.providers.domains import Bits, axis_of
from masquerade.protocol.providers.method import Collaboration, Qid, provider_column, qid_names
from masquerade.protocol.providers.tree import Group, Settings, providers_apart
from masquerade.utility import AttributeLoss


def settings_of(
    contract: Contract,
    table: Table,
    qids: Sequence[Qid],
    signals: Mapping[str, Bits],
    providers: Ranks,
    sizes: Sequence[int],
) -> Settings:
    """Return how the groups of linked QIDs are cut; `providers` has the provider of each row of the table by number.

    `sizes` says about how many records each provider has, where groups are cut between providers.
    """
    terms = Collaboration.of(contract)
    names = [name for name in qid_names(contract) if any(name in qid.names for qid in qids)]
    axes, ranks = zip(*(axis_of(table, name, signals.get(name)) for name in names), strict=True)
    aware = bool(terms.provider_aware) and len(qids) == 1
    # The names of providers are public; they are numbered in the contract's order.
    between = CategoryAxis(provider_column(contract), Taxonomy.flat(contract.parties, "(all)"))
    return Settings(
        (*axes, between),
        (*ranks, providers),
        tuple(frozenset(map(names.index, qid.names)) for qid in qids),
        tuple(qid.criterion.k for qid in qids),
        terms.strict,
        aware,
        providers_apart(sizes, contract.m) if aware else (),
        terms.choose == "fitness",
    )


def rounded_size(records: int) -> int:
    """Return the binary digits of the number of records, the only size that providers reveal to each other."""
    return int(records).bit_length()


@dataclass(frozen=True, eq=False)
class HolderGroups:
    """The finished groups of linked QIDs that have records of this holder."""

    settings: Settings
    groups: Sequence[Group]

    def labels(self) -> dict[str, pa.Array]:
        """Return the released cells of this holder's rows, by attribute."""
        columns = {}
        for at, axis in enumerate(self.settings.released):
            groups, of_row = self._along(at)
            cells = pa.array([axis.label(group.cells[at]) for group in groups], pa.string())
            columns[axis.name] = cells.take(pa.array(of_row))
        return columns

    def losses(self) -> dict[str, AttributeLoss]:
        """Measure what each attribute loses over this holder's rows."""
        losses = {}
        for at, axis in enumerate(self.settings.released):
            groups, of_row = self._along(at)
            losses[axis.name] = axis.loss(self.settings.ranks[at], [group.cells[at] for group in groups], of_row)
        return losses

    def _along(self, at: int) -> tuple[list[Group], Ranks]:
        """Return the groups of one QID with this axis, and each row's number among them."""
        groups = self.settings.along(at, self.groups)
        of_row = np.full(self.settings.ranks[at].size, -1, np.int64)
        for number, group in enumerate(groups):
            of_row[group.rows] = number
        if (of_row < 0).any():
            raise Bug("some record is in no group; nothing was handed in")
        return groups, of_row


def losses_of(finished: Iterable[HolderGroups]) -> dict[str, AttributeLoss]:
    """Measure what each attribute of all QIDs loses over this holder's rows."""
    return {name: loss for cut in finished for name, loss in cut.losses().items()}
