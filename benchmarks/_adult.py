"""Adult, as the papers use it: 45,222 complete records, the quasi-identifiers of the experiments, jobs on them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

import _data
from masquerade.data import Attribute, Schema, read_taxonomy
from masquerade.errors import ParameterError

CLASS = "income"
TRAINING_RECORDS = 30_162  # the complete ones of adult.data; they come first

CONTINUOUS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ALL14 = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
TOP5 = ("capital-gain", "age", "marital-status", "education-num", "relationship")
TOP7 = (*TOP5, "hours-per-week", "sex")
TOP9 = (*TOP7, "education", "occupation")


def data() -> Path:
    """Return the folder with UCI's files, ARX's hierarchies and the taxonomies."""
    return _data.folder("adult")


def taxonomies() -> Path:
    """Return the folder of the taxonomies."""
    return data() / "taxonomies"


def adult() -> pa.Table:
    """The complete records of adult.data, then those of adult.test, every cell as text without space around it."""
    require_data()
    records = [record for name in ("adult.data", "adult.test") for record in _records(data() / name)]
    columns = zip(*records, strict=True)
    return pa.table(dict(zip((*ALL14, CLASS), map(pa.array, columns), strict=True)))


def _records(path: Path) -> Iterable[list[str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        for cells in csv.reader(lines, skipinitialspace=True):
            if len(cells) == len(ALL14) + 1 and "?" not in cells:
                yield [*(cell.strip() for cell in cells[:-1]), cells[-1].strip().rstrip(".")]


def require_data() -> None:
    """Say where the data is expected when it is not there."""
    for name in ("adult.data", "adult.test", "taxonomies"):
        if not (data() / name).exists():
            raise ParameterError(
                f"bench: {name} is missing; the experiments on Adult expect UCI's files and the taxonomies "
                "in ../shared/data/adult beside the checkout, or in the folder that --data names"
            )


def schema(names: Sequence[str] = ALL14) -> Schema:
    """The attributes with the project's taxonomies; numbers grow theirs at run time."""
    return Schema(
        Attribute(name, "continuous")
        if name in CONTINUOUS
        else Attribute(name, "categorical", read_taxonomy(taxonomies() / f"{name}.csv"))
        for name in names
    )


def write_csv(table: pa.Table, path: Path) -> Path:
    """A plain CSV file with a header; no cell of Adult needs quotes."""
    import pyarrow.csv

    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as file:  # Arrow would put the names of the columns in quotes
        file.write(",".join(table.column_names).encode() + b"\n")
        pyarrow.csv.write_csv(table, file, options)
    return path


def write_job(source: Path, qid: Sequence[str], k: int, attributes: Sequence[str] = ALL14) -> Path:
    """A job beside its table: k-anonymity over the QID, top-down towards the class by gain-ratio, no report."""
    name = f"{source.stem}-{len(qid)}-of-{len(attributes)}-{k}"
    lines = ["[data]", f'source = "{source.name}"']
    for attribute in attributes:
        meaning = (
            'type = "continuous"'
            if attribute in CONTINUOUS
            else f'taxonomy = "{(taxonomies() / attribute).resolve()}.csv"'
        )
        lines += [f"[attributes.{attribute}]", meaning]
    lines += ["[roles]", f'class = "{CLASS}"']
    lines += ["[[privacy]]", 'model = "k-anonymity"', f"qid = {list(qid)}", f"k = {k}"]
    lines += ["[output]", f'table = "{name}.csv"', "report = false"]
    lines += ["[algorithm]", 'name = "tds"']
    job = source.with_name(f"{name}.toml")
    job.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return job
