"""What a site keeps of a session whose records were mapped: the common matrix B, and how records become numbers.

A model of mapped records says nothing of a new record without B. Every site keeps B in a file of its own, which only
its owner may read; whoever has it and the mapped records has most of the records, so it never goes to the builder, into
a model's file or into a log. The file names the session of its model: another session's B gives other numbers, and no
error would show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from masquerade.engine.numbering import distinct_values
from masquerade.errors import DataError, ParameterError
from masquerade.forms.json import read_json
from masquerade.protocol.learn.models.model import Cells, Numbers
from masquerade.protocol.learn.projection import Kernel, Projection

Row = tuple[float, ...]


@dataclass(frozen=True)
class SiteKey:
    """One session's secret, the same at each of its sites."""

    session: str
    attributes: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]  # of the attributes that have categories
    matrix: tuple[Row, ...] = field(repr=False)
    means: Row = field(repr=False)
    low: Row = field(repr=False)
    high: Row = field(repr=False)
    kernel: Kernel
    width: float

    @classmethod
    def of(
        cls,
        session: str,
        attributes: tuple[str, ...],
        values: Mapping[str, tuple[str, ...]],
        projection: Projection,
    ) -> SiteKey:
        """Return the key of a session in which records were mapped like this."""
        return cls(
            session=session,
            attributes=attributes,
            values={name: values[name] for name in attributes if name in values},
            matrix=tuple(tuple(row) for row in projection.matrix.tolist()),
            means=tuple(projection.means.tolist()),
            low=tuple(projection.low.tolist()),
            high=tuple(projection.high.tolist()),
            kernel=projection.kernel,
            width=projection.width,
        )

    def written(self) -> bytes:
        """Return the content of its file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @classmethod
    def read(cls, data: bytes, source: str) -> SiteKey:
        """Read the content of a file; DataError, which quotes nothing of it, if it is none."""
        try:
            key: SiteKey = read_json(data, cls, source)
        except ParameterError:
            raise DataError.about(source, "this is no file of a site's matrix") from None
        rows = {len(row) for row in key.matrix} | {len(each) for each in (key.means, key.low, key.high)}
        if rows != {key.columns}:
            raise DataError.about(source, "its matrix does not fit its attributes")
        return key

    @property
    def columns(self) -> int:
        """How many numbers a record has: one for an attribute, or for each of its values but the first."""
        return sum(len(self.values[name]) - 1 if name in self.values else 1 for name in self.attributes)

    @property
    def projection(self) -> Projection:
        """How records are mapped."""
        return Projection(
            matrix=np.array(self.matrix),
            means=np.array(self.means),
            low=np.array(self.low),
            high=np.array(self.high),
            kernel=self.kernel,
            width=self.width,
        )

    def design(self, cells: Cells) -> Numbers:
        """Return records as numbers: each category but an attribute's first is a column of 0 and 1."""
        columns = []
        for name in self.attributes:
            if name not in self.values:
                columns.append(np.asarray(cells[name], np.float64))
                continue
            found, places = distinct_values(np.asarray(cells[name], object).astype(str))
            for value in found:
                if value not in self.values[name]:
                    known = ", ".join(f'"{each}"' for each in self.values[name][:10])
                    text = f'attribute {name}: "{value}" is none of the categories that the model knows'
                    raise ParameterError(f"{text}: {known}")
            columns += [(found == value)[places].astype(np.float64) for value in self.values[name][1:]]
        return np.column_stack(columns)
