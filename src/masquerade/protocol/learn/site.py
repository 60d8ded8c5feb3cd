"""What one party of a learning session has and knows when it learns: its records, all parties' values, who is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from masquerade.data.table import Table
from masquerade.net.progress import OnStage, silent
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.contract import EVERYBODY, Contract
from masquerade.protocol.learn.aggregate import Openings
from masquerade.protocol.learn.models.model import Cells
from masquerade.protocol.learn.numbers import cells_of
from masquerade.protocol.learn.values import Codes, own_codes
from masquerade.protocol.method import forgotten


@dataclass(frozen=True)
class Site:
    """One party's side of the records: its own ones, or its columns of the common ones, in the common order."""

    name: str
    contract: Contract
    table: Table
    values: Mapping[str, tuple[str, ...]]  # of each column that has categories, whoever holds it
    most_bits: int  # of the number of records of the party that has most
    parties: tuple[str, ...]  # who takes part, in the contract's order: all but those that have dropped out
    on_stage: OnStage = silent
    openings: Openings | None = None  # what was opened; None: nothing is made again when a site drops out
    keep: Callable[[str, bytes], None] = forgotten  # as the party's seat has it
    memory: dict[str, Any] = field(default_factory=dict)  # what a method goes on from when a site drops out

    @property
    def me(self) -> int:
        """This party's number."""
        return self.parties.index(self.name)

    @property
    def count_bits(self) -> int:
        """No count of records reaches 2 to the power of this."""
        adds_up = self.arrangement == "horizontal"
        return self.most_bits + (len(self.parties) - 1).bit_length() if adds_up else self.most_bits

    @property
    def arrangement(self) -> Arrangement:
        """How the parties hold their data."""
        return self.contract.arrangement

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the model, in the joint order."""
        return attributes_of(self.contract)

    @property
    def classes(self) -> tuple[str, ...]:
        """The values of the class."""
        assert self.contract.class_name is not None
        return self.values[self.contract.class_name]

    def holder(self, column: str) -> int | None:
        """Return the number of the party that holds a column; None if every party does."""
        if column == self.contract.class_name:
            who = self.contract.class_from
        else:
            who = next(each.holder for each in self.contract.columns if each.name == column)
        return None if who in (None, EVERYBODY) else self.parties.index(who)

    def holds(self, column: str) -> bool:
        """Return whether this party has a column."""
        return self.holder(column) in (None, self.me)

    def codes(self, column: str) -> Codes:
        """Return each record's place among the column's values."""
        codes, labels = own_codes(self.table, column)
        place = {value: at for at, value in enumerate(self.values[column])}
        return np.array([place[label] for label in labels], np.int64)[codes]

    def cells(self) -> Cells:
        """Return this party's attributes as models take them: categories as texts, numbers as numbers."""
        held = [name for name in self.attributes if self.holds(name)]
        return {
            name: np.array(self.values[name], object)[self.codes(name)]
            if name in self.values
            else cells_of(self.table, name)
            for name in held
        }

    def purpose(self, word: str) -> bytes:
        """Return a text that is fresh in this session, to key primitives with; `word` is for one use."""
        return word.encode() + b"\0" + self.contract.hash


def attributes_of(contract: Contract) -> tuple[str, ...]:
    """Return the attributes of a contract's model, in the joint order, without class, duration and event."""
    return tuple(
        column.name
        for column in contract.columns
        if column.role == "attribute" and column.name != contract.class_name
    )
