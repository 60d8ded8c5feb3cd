"""What identifies people in a table, and which columns may be published together; see `masquerade.risk`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade import risk
from masquerade.data import Batches, PartitionedFiles, Table, TableFile, chosen, partitioned_files
from masquerade.errors import DataError, ParameterError, given
from masquerade.jobs.guessing import names_of
from masquerade.progress import OnStage, Stage, silent

if TYPE_CHECKING:
    from masquerade.engine import Engine

Read = Callable[[risk.SampleSize | None, int], risk.CodedRows]  # of a sample's size, if one is enough, and a seed


def keys(
    frame: Any,
    *,
    measure: risk.Measure = "distinct",
    epsilon: float | None = None,
    delta: float | None = None,
    beta: float | None = None,
    exact: bool = False,
    all: bool = False,
    max_size: int = 3,
    weights: risk.Weights | None = None,
    columns: Iterable[str] | None = None,
    seed: int = 7,
    engine: Engine | None = None,
    on_stage: OnStage = silent,
) -> risk.Keys:
    """Find a small set of columns that identifies the rows of a table (any frame, or a file that is read in one pass).

    Without an option it is a key found greedily. With `epsilon` and `delta` a sample is enough: with probability
    1 − δ the set's ratio is at least 1 − ε. With `beta` the set reaches that ratio, no more; with all three
    (1 − ε)β, from a sample of pairs. `exact` finds the smallest key, `all` every minimal set of up to
    `max_size` columns that reaches `beta`. `weights` are what columns cost an attacker; the lightest set is wanted.
    `columns` are those looked at. With an `engine` a file, folder or pattern is counted in chunks, in bounded memory;
    ratios and duplicates are then those of all rows, also where a sample decides.
    """
    _check("keys", measure, seed)
    question = risk.Question(measure, epsilon, delta, beta, exact, all, max_size)
    asked = None if columns is None else names_of("columns", columns)
    checked = risk.checked_weights(weights or {})
    started = time.perf_counter()
    with _asked_rows(frame, asked, engine, on_stage) as (names, read_rows_of):
        shares = risk.weights_of(names, checked)
        rows = read_rows_of(question.sample_rows(len(names)) if question.sampled else None, seed)
    read = time.perf_counter()
    _tell_passes(rows.engine, on_stage, "looking for keys")
    found = risk.find_keys(question, rows, shares, seed)
    return replace(found, seconds={"read": read - started, "find": time.perf_counter() - read})


def mask(
    frame: Any,
    *,
    measure: risk.Measure,
    beta: float,
    sample: int | None = None,
    delta: float | None = None,
    weights: risk.Weights | None = None,
    columns: Iterable[str] | None = None,
    always: Iterable[str] = (),
    never: Iterable[str] = (),
    seed: int = 7,
    engine: Engine | None = None,
    on_stage: OnStage = silent,
) -> risk.Masked:
    """Choose columns of a table (any frame, or a file) to publish, so that their ratio is at most `beta`.

    With a `sample` of that many tuples (for the separation ratio, pairs) it is so with probability 1 − `delta`.
    `weights` are what columns are worth when published; `always` are published, `never` are not. With an `engine` a
    file, folder or pattern is counted in chunks, in bounded memory.
    """
    _check("mask", measure, seed)
    limit = risk.RatioLimit(measure, beta, sample, delta)
    asked = None if columns is None else names_of("columns", columns)
    fixed, barred = names_of("always", always), names_of("never", never)
    if both := [name for name in fixed if name in barred]:
        raise ParameterError(f"{', '.join(both)}: both always and never published")
    checked = risk.checked_weights(weights or {})
    started = time.perf_counter()
    with _asked_rows(frame, asked, engine, on_stage) as (names, read_rows_of):
        chosen("always and never", names, (*fixed, *barred))
        shares = risk.weights_of(names, checked)
        if sample is not None and engine is None:
            limit.within_sample(len(names))  # refuses before a file is read that may have any number of rows
        rows = read_rows_of(limit.sample_rows() if sample is not None else None, seed)
    read = time.perf_counter()
    _tell_passes(rows.engine, on_stage, "choosing columns")
    found = risk.choose_columns(limit, rows, shares, always=fixed, never=barred, seed=seed)
    return replace(found, seconds={"read": read - started, "choose": time.perf_counter() - read})


def ratios(frame: Any, columns: Iterable[str]) -> Mapping[risk.Measure, float]:
    """Return the distinct and the separation ratio of a set of columns."""
    asked = names_of("columns", columns)
    return {measure: keys(frame, measure=measure, columns=asked).ratio for measure in risk.MEASURES}


def fuzzy_duplicates(
    frame: Any, rate: float, *, columns: Iterable[str] | None = None, max_size: int = 3
) -> risk.FuzzyDuplicates:
    """Find rows that are probably one thing written twice, where about a share `rate` of the rows are doubles.

    They agree on a quasi-identifier of up to `max_size` columns that tells just so many rows apart.
    """
    asked = None if columns is None else names_of("columns", columns)
    with _table(frame, asked) as (names, batches):
        rows = _rows_here(batches, names, None, 0)
    return risk.fuzzy_duplicates(rows, rate, max_size)


def _check(function: str, measure: object, seed: object) -> None:
    if measure not in risk.MEASURES:
        words = " or ".join(f'"{each}"' for each in risk.MEASURES)
        raise ParameterError(f"The measure parameter of {function} must be {words}. Got {given(measure)} instead.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ParameterError(
            f"The seed parameter of {function} must be a whole number of at least 0. Got {given(seed)} instead."
        )


@contextmanager
def _asked_rows(
    frame: Any, asked: tuple[str, ...] | None, engine: Engine | None, on_stage: OnStage
) -> Iterator[tuple[tuple[str, ...], Read]]:
    """Yield the names of the columns asked for, or of all, and what reads them inside the context.

    Without an engine the rows come here, or so many of them as a sample needs; what is no Parquet is copied for one.
    """
    if engine is None:
        with _table(frame, asked) as (names, batches):
            on_stage(Stage("reading"))
            yield names, partial(_rows_here, batches, names)
        return
    if not isinstance(frame, str | Path | TableFile):
        raise ParameterError("an engine reads a file, a folder or a pattern; a frame is in memory already")
    file = frame if isinstance(frame, TableFile) else TableFile(str(frame))
    with _files(file, asked, engine, on_stage) as files:
        names = tuple(chosen(files.name, files.columns, asked))
        _tell_passes(engine, on_stage, "reading")
        yield names, lambda *_: risk.read_rows(files, names, engine)


@contextmanager
def _table(frame: Any, asked: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...], Batches]]:
    """Yield the names of the columns asked for, or of all, and the table's rows, to be read inside the context."""
    if isinstance(frame, str | Path | TableFile):
        file = frame if isinstance(frame, TableFile) else TableFile(str(frame))
        with file.in_batches(asked) as opened:
            first = next(opened.batches, None)
            if first is None or not first.num_columns:
                raise DataError.about(opened.origin.name, "there is no row of data")
            yield tuple(first.column_names), replace(opened, batches=chain([first], opened.batches))
        return
    table = frame if isinstance(frame, Table) else Table(frame)
    names = tuple(chosen(table.origin.name, table.arrow.column_names, asked))
    if not len(table) or not names:
        raise DataError.about(table.origin.name, "there is no row of data")
    yield names, Batches(iter([table.arrow.select(list(names))]), table.origin)


@contextmanager
def opened_engine(name: str | None, memory: str | None) -> Iterator[Engine | None]:
    """Open the engine that options name: `local`, in a stated memory, or the address of a Dask scheduler; or none."""
    if name is None and memory is None:
        yield None
        return
    if name not in (None, "local"):
        if memory is not None:
            raise ParameterError(
                "memory belongs to the engine local; a Dask worker is started with its own --memory-limit"
            )
        from masquerade.engine import DaskEngine

        with DaskEngine(str(name)) as cluster:
            yield cluster
        return
    from masquerade.engine import LocalEngine, read_size
    from masquerade.jobs.model import DEFAULT_MEMORY

    try:
        size = read_size(memory or DEFAULT_MEMORY)
    except ValueError:
        raise ParameterError(f'memory must be a size, such as "4GB"; got {given(memory)}') from None
    with LocalEngine(size) as engine:
        yield engine


@contextmanager
def _files(
    file: TableFile, asked: tuple[str, ...] | None, engine: Engine, on_stage: OnStage
) -> Iterator[PartitionedFiles]:
    if file.is_parquet:
        yield partitioned_files(file.source, file.base, asked or ())
        return
    if engine.name != "local":
        raise ParameterError(f"{file.source}: a cluster reads Parquet where it lies: a file, a folder, or a pattern")
    from masquerade.data import staged_parquet

    on_stage(Stage("copying the table", detail="to be read in chunks"))
    with staged_parquet(file, asked) as files:
        yield files


def _tell_passes(engine: Engine, on_stage: OnStage, what: str) -> None:
    on_stage(Stage(what))
    engine.on_chunk = lambda done, total: on_stage(Stage(what, detail=f"{done} of {total} chunks"))


def _rows_here(opened: Batches, names: tuple[str, ...], size: risk.SampleSize | None, seed: int) -> risk.CodedRows:
    """Read all rows, or where a sample is enough, as many of them as it may need."""
    held = risk.HELD_BYTES if size is not None else 1 << 62
    sample = risk.RowSample(size or (lambda rows: rows), seed, held, opened.rows)
    for batch in opened.batches:
        sample.add(batch)
    return sample.coded(names)
