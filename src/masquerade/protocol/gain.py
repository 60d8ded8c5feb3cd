"""What a party gains by taking part: SE − IE (secure data integration, §7).

SE is the error of a decision tree on the party's own raw columns of the common records, IE that of a tree on the
release. The assembler measures IE and tells it in whole percent; SE stays with the party. Both are measured alike
(utility/release_error.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from masquerade.data.column import Coded
from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Origin, Table
from masquerade.utility.release_error import error_of

PERCENT = 100


@dataclass(frozen=True)
class Gain:
    """A party's error alone and with the others, as shares of 1."""

    alone: float  # SE
    together: float  # IE

    @property
    def gain(self) -> float:
        """SE − IE: what the others' columns are worth to this party; negative where anonymity costs more."""
        return round(self.alone - self.together, 4)


@dataclass(frozen=True)
class OwnPart:
    """A party's raw columns of the common records with their class, and the release's error."""

    table: Table
    class_name: str
    together: float

    def gain(self) -> Gain | None:
        """Grow the trees; None with too few records to tell."""
        alone = error_of(self.table, self.class_name)
        return Gain(round(alone, 4), self.together) if alone is not None else None


def own_part(own: Table, names: list[str], classes: Coded, percent: int) -> OwnPart:
    """Return what a party has: its columns of these names, and the classes, in the common order."""
    cells = {name: own.cells(name) for name in names if name != classes.name}
    labels = pa.array(classes.labels, pa.string()).take(pa.array(classes.codes))
    schema = Schema(own.schema[name] if name in own.schema else Attribute(name) for name in cells)
    table = Table(pa.table({**cells, classes.name: labels}), schema, origin=Origin("the common records"))
    table.keeps_missing = own.keeps_missing
    return OwnPart(table, classes.name, percent / PERCENT)
