"""A job's output files: check that their folders exist and that none of the job's inputs is overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from masquerade.data.database_url import database_path
from masquerade.errors import DataError, Key
from masquerade.forms.problems import Problems
from masquerade.job.model import Job

_TABLES, _REPORTS = (".csv", ".parquet"), (".html", ".htm")


@dataclass(frozen=True)
class Outputs:
    """The files to write."""

    table: Path
    report: Path | None


def outputs_of(job: Job, path: Path, problems: Problems) -> Outputs:
    """Return the files that the job at `path` writes, adding unusable ones to `problems`."""
    base, section = path.parent, job.output
    outputs = Outputs(base / section.table, base / section.report if section.report else None)
    read = dict(_read(job, path))
    _check(("output", "table"), outputs.table, _TABLES, read, problems)
    if outputs.report is not None:
        _check(("output", "report"), outputs.report, _REPORTS, read, problems)
        if _same(outputs.table, outputs.report):
            problems.add(("output", "report"), f"{section.report} is the release's own file; name another")
    return outputs


def _read(job: Job, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file that the job reads, with what it is."""
    base = path.parent
    yield path, "the job file"
    tables = [
        (job.data, "the table"),
        *((party, f"the table of {name}") for name, party in job.parties.items()),
    ]
    for section, what in tables:
        if section is None:
            continue
        if section.source.lower().startswith("sqlite://"):
            try:
                yield database_path(section.source, base), "the database"
            except DataError:
                continue  # reported when it is read
        elif section.source and "://" not in section.source:
            yield base / section.source, what
    for name, attribute in job.attributes.items():
        if attribute.taxonomy not in (None, "flat"):
            yield base / str(attribute.taxonomy), f"the taxonomy of {name}"


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
