"""`predict`: a model's file and a table in; what the model says of each row out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Table
from masquerade.data.table_file import TableFile
from masquerade.data.write import write_table
from masquerade.errors import DataError, ParameterError, hint
from masquerade.files import read_file
from masquerade.job.learning import LearningPlan
from masquerade.library.model_file import read_model_file
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.learn.models.model import Cells
from masquerade.protocol.learn.models.projected import MappedSpaceModel
from masquerade.protocol.learn.numbers import cells_of
from masquerade.protocol.learn.predicting import Asked, inputs_of, predictions
from masquerade.protocol.learn.site_key import SiteKey
from masquerade.protocol.learn.values import own_codes


@dataclass(frozen=True)
class Predictions:
    """What a model says of each row of a table, in the table's order; null where a cell that it needs is missing."""

    learned: Learned
    table: pa.Table  # the columns kept, and those predicted
    predicted: tuple[str, ...]
    incomplete: int  # rows of which nothing is said
    file: Path | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each predicted class; empty where none is predicted."""
        if "prediction" not in self.predicted:
            return {}
        counted = self.table["prediction"].drop_null().value_counts().to_pylist()
        return {
            each["values"]: each["counts"] for each in sorted(counted, key=lambda each: str(each["values"]))
        }

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            "algorithm": dict(self.learned.algorithm),
            "rows": self.table.num_rows,
            "incomplete_rows": self.incomplete,
            **({"counts": self.counts} if self.counts else {}),
            **(
                {"file": str(self.file)}
                if self.file is not None
                else {"predictions": {name: self.table[name].to_pylist() for name in self.table.column_names}}
            ),
        }


def predict(
    model: str | Path,
    table: Any,
    *,
    site_key: str | Path | None = None,
    job: str | Path | None = None,
    attribute: str | None = None,
    times: Sequence[float] = (),
    keep: Sequence[str] = (),
    output: str | Path | None = None,
) -> Predictions:
    """Apply the model in a file to every row of a table: a file, a database's `TableFile`, or any frame.

    `site_key` is the file that a site keeps of a session whose records were mapped (pp-svm, pp-cox). `job` says what
    the columns mean, where they have dates or taxonomies. `attribute` is what a net predicts, `times` are those of
    survival. Columns in `keep` are copied in front. Nothing is written without `output`.
    """
    learned = read_model_file(model)
    asked = Asked(attribute or learned.roles.get("class"), tuple(times), _site_key(learned, model, site_key))
    inputs = inputs_of(learned.model, asked)
    source = _read(table)
    names = source.arrow.column_names
    if lacking := [name for name in (*inputs, *keep) if name not in names]:
        first = lacking[0]
        text = f'no column "{first}", which {"the model needs" if first in inputs else "is to be kept"}'
        raise DataError.about(
            source.origin.name, f"{text}{hint(first, names)}; the columns are: {', '.join(names)}"
        )
    schema = _schema(inputs, job)
    whole = Table(source.arrow.select(list(inputs)), schema, origin=source.origin)
    fills = isinstance(learned.model, MappedSpaceModel)  # its sites keep the means
    rows = whole.complete(inputs, "mean" if fills else "drop")
    if not len(rows):
        raise DataError.about(source.origin.name, "no row has all the cells that the model needs")
    said = predictions(learned.model, _cells(rows, inputs), asked)
    columns = {name: source.arrow[name] for name in keep}
    if clash := [name for name in said if name in columns]:
        raise ParameterError(f'keep: "{clash[0]}" is the name of what is predicted')
    columns |= {name: _spread(values, rows, len(whole)) for name, values in said.items()}
    made = Predictions(learned, pa.table(columns), tuple(said), len(whole) - len(rows))
    if output is None:
        return made
    write_table(made.table, Path(output))
    return Predictions(learned, made.table, made.predicted, made.incomplete, Path(output))


def _read(table: Any) -> Table:
    if hasattr(table, "__arrow_c_stream__"):
        return Table(table)
    found = (table if isinstance(table, TableFile) else TableFile(str(table))).read()
    return Table(found.table, Schema(()), origin=found.origin)


def _site_key(learned: Learned, model: str | Path, path: str | Path | None) -> SiteKey | None:
    """Return what the site keeps; ParameterError where it is missing, not needed, or of another model."""
    name, mapped = Path(model).name, isinstance(learned.model, MappedSpaceModel)
    if path is None:
        if mapped:
            text = f'"{learned.algorithm["name"]}" maps records by a matrix that its sites keep to themselves'
            raise ParameterError(f"{name}: {text}; at a site, give its file with --site-key")
        return None
    if not mapped:
        raise ParameterError(f'--site-key: a model by "{learned.algorithm["name"]}" needs none; leave it out')
    key = SiteKey.read(read_file(Path(path)), Path(path).name)
    if key.session != learned.session:
        told = (
            f"of session {key.session[:16]}, and {name} is of {learned.session[:16] or 'none that is named'}"
        )
        raise ParameterError(f"{Path(path).name}: the matrix is {told}: use the one of this model's session")
    return key


def _schema(inputs: Mapping[str, bool], job: str | Path | None) -> Schema:
    """Return what the columns mean: by the job, or else texts and numbers."""
    plain = {name: Attribute(name, "categorical" if each else "continuous") for name, each in inputs.items()}
    if job is not None:
        plan = LearningPlan(Path(job))
        known = plan.schema()
        plan.settle()
        plain |= {name: known[name] for name in inputs if name in known}
    return Schema(list(plain.values()))


def _cells(table: Table, inputs: Mapping[str, bool]) -> Cells:
    """Return the columns as models take them: categories as texts, numbers as numbers."""
    cells: dict[str, NDArray[Any]] = {}
    for name, is_category in inputs.items():
        if is_category:
            codes, labels = own_codes(table, name)
            cells[name] = np.array(labels, object)[codes]
        else:
            cells[name] = cells_of(table, name)
    return cells


def _spread(values: NDArray[Any], rows: Table, size: int) -> pa.Array:
    """Return predictions at their rows' places in the whole table, null elsewhere."""
    said = pa.array(values.tolist())
    if rows.source_rows is None:
        return said
    places = np.full(size, -1, np.int64)
    places[rows.source_rows] = np.arange(len(rows))
    return said.take(pa.array(places, mask=places < 0))
