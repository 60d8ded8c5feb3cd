"""A job's output files: check that their folders exist and that none of the job's inputs is overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from masquerade.data import TableFile, database_path, is_listed, is_part_name, is_partitioned, listed_files, part_name
from masquerade.errors import DataError, Key, hint
from masquerade.forms import Problems
from masquerade.jobs.model import Job, TableSection

_TABLES, _REPORTS, _MODELS = (".csv", ".parquet"), (".html", ".htm"), (".json",)
DEFAULT_MODEL = "model.json"
FOLDER = "release.parquet"  # where a release in chunks goes, unless the job says otherwise


@dataclass(frozen=True)
class Outputs:
    """The files to write; of a job for a model, `table` is the model's.

    `labels` says which values the labels of the attributes in `labelled` stand for.
    """

    table: Path
    report: Path | None
    escape_formulas: bool = False
    labels: Path | None = None
    labelled: tuple[str, ...] = ()


def outputs_of(job: Job, path: Path, problems: Problems, *, folder: bool = False) -> Outputs:
    """Return the files that the job at `path` writes, adding unusable ones to `problems`.

    With `folder` the table is a folder of Parquet files.
    """
    named = "table" in job.output.model_fields_set
    file = FOLDER if folder and not named else job.output.table
    return _outputs(job, path, "table", file, None if folder else _TABLES, problems)


def outputs_beside(table: Path) -> Outputs:
    """Return the files of a release that is to be written there, with its report beside it."""
    stem = table.stem.removesuffix("-release")
    return Outputs(table, table.with_name(f"{stem}-report.html"))


def model_outputs_of(job: Job, path: Path, problems: Problems) -> Outputs:
    """Return the files that a job for a model writes; the model's stands in place of the table's."""
    return _outputs(job, path, "model", job.output.model or DEFAULT_MODEL, _MODELS, problems)


def _outputs(job: Job, path: Path, key: str, file: str, endings: tuple[str, ...] | None, problems: Problems) -> Outputs:
    """Check the files; without endings the first is a folder."""
    base, section = path.parent, job.output
    table = base / file
    labels = table.with_name(f"{table.stem}-labels.csv") if section.labels and table.name else None
    outputs = Outputs(
        table, base / section.report if section.report else None, section.escape_formulas, labels, tuple(section.labels)
    )
    if section.escape_formulas and outputs.table.suffix.lower() != ".csv":
        problems.add(("output", "escape_formulas"), f"is for CSV files; no spreadsheet runs {outputs.table.name}")
    read = dict(_read(job, path))
    if endings is None:
        _check_folder(("output", key), outputs.table, read, problems)
    else:
        _check(("output", key), outputs.table, endings, read, problems)
    _check_apart(("output", key), outputs.table, endings is None, job, base, problems)
    if outputs.report is not None:
        if endings is None and outputs.table.resolve() in outputs.report.resolve().parents:
            problems.add(("output", "report"), f"{section.report} is inside the release; name another place")
        _check(("output", "report"), outputs.report, _REPORTS, read, problems)
        if _same(outputs.table, outputs.report):
            whose = "release" if key == "table" else key
            problems.add(("output", "report"), f"{section.report} is the {whose}'s own file; name another")
    if labels is not None:
        _check(("output", "labels"), labels, (".csv",), read, problems)
        for at, name in enumerate(section.labels):  # that some of its labels stand for something that could be listed
            attribute = job.attributes.get(name)
            if attribute is None:
                problems.add(("output", "labels", at), f'there is no attribute "{name}"{hint(name, job.attributes)}')
            elif attribute.type != "categorical" or attribute.taxonomy in (None, "flat"):
                problems.add(("output", "labels", at), f"{name} has no taxonomy of categories")
    return outputs


def _sections(job: Job) -> Iterator[tuple[TableSection, str]]:
    """Yield the sections that name a table, with what it is."""
    if job.data is not None:
        yield job.data, "the table"
    for name, party in job.parties.items():
        yield party, f"the table of {name}"


def _check_apart(key: Key, path: Path, is_folder: bool, job: Job, base: Path, problems: Problems) -> None:
    """Report a release among the files of a table: it would replace some, or be read as rows of it next time."""
    made = path / part_name(0) if is_folder else path
    for section, what in _sections(job):
        if not is_partitioned(section.source, base):
            continue
        files: list[Path] = []
        with suppress(DataError):  # reported when it is read
            files = listed_files(base / section.source)
        holds_some = any(path.resolve() in each.resolve().parents for each in files)
        if holds_some or is_listed(made, base / section.source):
            problems.add(key, f"{path.name} is, holds or would be part of {what}; name another place")


def _read(job: Job, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file that the job reads, with what it is."""
    base = path.parent
    yield path, "the job file"
    for section, what in _sections(job):
        if section.source.lower().startswith("sqlite://"):
            try:
                yield database_path(section.source, base), "the database"
            except DataError:
                continue  # reported when it is read
        elif section.source and "://" not in section.source and not is_partitioned(section.source, base):
            yield base / section.source, what
    for name, attribute in job.attributes.items():
        if attribute.taxonomy not in (None, "flat"):
            yield base / str(attribute.taxonomy), f"the taxonomy of {name}"


def _check_folder(key: Key, path: Path, read: dict[Path, str], problems: Problems) -> None:
    if path.suffix.lower() not in ("", ".parquet"):
        problems.add(
            key, f'with an engine the release is a folder of Parquet files, such as "{FOLDER}"; got "{path.name}"'
        )
    elif not path.parent.is_dir():
        problems.add(key, f"there is no folder {path.parent}")
    elif path.exists() and not path.is_dir():
        problems.add(key, f"{path} is a file, and the release is a folder; name another")
    elif path.is_dir() and not all(is_part_name(each.name) for each in path.iterdir()):
        problems.add(key, f"{path} holds other files than those of a release; name another folder")
    for other, what in read.items():
        if _same(path, other) or path.resolve() in other.resolve().parents:
            problems.add(key, f"{path.name} is or holds {what}; it would be overwritten: name another folder")


def _check(key: Key, path: Path, endings: tuple[str, ...], read: dict[Path, str], problems: Problems) -> None:
    if path.suffix.lower() not in endings:
        problems.add(key, f'must end in {" or ".join(endings)}; got "{path.name}"')
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()  # unlike `exists`, raises for impossible paths
        if not path.parent.is_dir():
            problems.add(key, f"there is no folder {path.parent}")
        elif path.exists() and not path.is_file():
            problems.add(key, f"{path} is {'a folder' if path.is_dir() else 'not a file'}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        problems.add(key, f"cannot be written: {reason}")
        return
    for other, what in read.items():
        if _same(path, other):
            problems.add(key, f"{path.name} is {what}; it would be overwritten: name another file")


def _same(one: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file, following links."""
    try:
        return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))
    except (OSError, ValueError, RuntimeError):  # impossible paths, cycles of links
        return False


def section_file(section: TableSection, base: Path) -> TableFile:
    """Return where a section's table is; relative to the folder `base`, the job's."""
    return TableFile(
        section.source, section.query, section.separator, section.encoding, base, tuple(section.missing_values)
    )
