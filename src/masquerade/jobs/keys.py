"""What identifies people in a table, and which columns may be published together; see `masquerade.risk`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from masquerade.data.read import Batches, TableFile
from masquerade.data.read_parquet import PartedFiles, parted_files
from masquerade.data.reading import chosen
from masquerade.data.table import Table
from masquerade.errors import AnswerIsNo, DataError, ParameterError, given
from masquerade.forms.declared import checked
from masquerade.forms.rules import number, whole
from masquerade.jobs.guessing import names_of
from masquerade.jobs.learning import QuestionPlan, check_question, columns_in_question, question_contract
from masquerade.jobs.session import OnParty, PartiesRun, nobody, party_headers, run_folder, sent_by
from masquerade.net.script import Script
from masquerade.net.session import run_async
from masquerade.progress import OnStage, Stage, silent
from masquerade.protocol.joint_keys import JointKeys, JointRatios
from masquerade.protocol.method import Assembly
from masquerade.risk.keys import Keys, Question, find_keys
from masquerade.risk.masking import (
    FuzzyDuplicates,
    Limit,
    Masked,
    Weights,
    checked_weights,
    choose_columns,
    weights_of,
)
from masquerade.risk.masking import (
    fuzzy_duplicates as collisions,
)
from masquerade.risk.sampling import HELD_BYTES, RowSample, SampleSize
from masquerade.risk.separation import MEASURES, CodedRows, Measure, read_rows

if TYPE_CHECKING:
    from masquerade.engine.chunks import Engine

# --- joint keys ---------------------------------------------------------------------------------------------
# `keys JOB`: how far columns of a job's parties together identify their common people; only ratios come
# out.


class _Asking(PartiesRun[JointRatios]):
    def script(self) -> Script[JointRatios]:
        """Hear the ratios."""
        return JointKeys.of(self.contract).assembler(Assembly(self.contract))


@dataclass(frozen=True)
class JointKeysFound:
    """The ratio of a set of columns of several parties; with `all`, the sets that reach a ratio, the lightest first."""

    key: tuple[str, ...]
    ratio: float
    measure: Measure
    precision: float | None
    sampled: int | None  # common records that were compared; None if all were
    common_records: int
    asked: tuple[
        tuple[tuple[str, ...], float], ...
    ]  # every set of columns that was asked about, with its ratio
    keys: tuple[tuple[tuple[str, ...], float], ...] | None
    seconds: Mapping[str, float]
    bytes_sent: Mapping[str, int]
    messages: Mapping[str, int]

    @property
    def duplicates(self) -> int | None:
        """Common records that equal an earlier one in the columns of the key; None where the ratio does not tell."""
        if self.measure != "distinct" or self.precision is not None:
            return None
        compared = self.common_records if self.sampled is None else self.sampled
        return compared - round(self.ratio * compared)

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary of `keys` on a job with parties."""
        found: dict[str, Any] = {
            "key": list(self.key),
            "ratio": self.ratio,
            "measure": self.measure,
            "precision": self.precision,
            "sampled": self.sampled,
            "duplicates": self.duplicates,
            "common_records": self.common_records,
            "asked": _listed(self.asked),
            "seconds": dict(self.seconds),
            "bytes_sent": dict(self.bytes_sent),
            "messages": dict(self.messages),
        }
        return found if self.keys is None else {**found, "keys": _listed(self.keys)}


def joint_keys(
    job: str | Path,
    *,
    columns: Iterable[str] | None = None,
    measure: Measure = "distinct",
    all: bool = False,
    beta: float | None = None,
    max_size: int = 3,
    precision: float | None = None,
    sample: int | None = None,
    weights: Weights | None = None,
    on_stage: OnStage = silent,
    on_party: OnParty | None = None,
) -> JointKeysFound:
    """Find how far columns of a job's parties together identify their common records.

    Each party is a process of its own, over mutual TLS on this machine; nothing leaves it but what the ratios tell.
    `columns` are asked about as one set (by default the job's attributes). With `all` every set of them is, up to
    `max_size` columns and spread over two parties or more, and those that reach `beta` while no smaller one does are
    the keys. `precision` (such as 0.01) opens ratios rounded down to its multiples; `sample` compares so many of the
    common records at most.
    """
    asked = None if columns is None else names_of("columns", columns)
    if all != (beta is not None):
        raise ParameterError(
            "all and beta belong together between parties: all sets that reach the ratio beta"
        )
    if beta is not None:
        checked(joint_keys, "beta", number(0, 1, open_low=True), beta)
    checked(joint_keys, "max_size", whole(1), max_size)
    plan = QuestionPlan(Path(job))
    check_question(plan)
    plan.settle()
    on_stage(Stage("reading the parties' columns"))
    names = columns_in_question(plan, asked)
    costs = weights_of(names, checked_weights(weights or {}))
    contract = question_contract(
        plan,
        party_headers(plan),
        names,
        sizes=range(2, max_size + 1) if all else None,
        measure=measure,
        precision=precision,
        sample=sample,
    )
    plan.settle()
    assert contract is not None  # otherwise settle has raised
    with run_folder() as folder:
        on_stage(Stage("starting the parties"))
        run = _Asking(plan, contract, folder, on_stage, on_party or nobody)
        found = run_async(run.run())
        sent = sent_by(run)
    ratios = tuple(zip(found.sets, found.ratios, strict=True))
    minimal = None
    if beta is not None:
        minimal = _minimal(ratios, beta, dict(zip(names, costs, strict=True)))
        if not minimal:
            raise AnswerIsNo(f"no {max_size} columns or fewer reach a {measure} ratio of {beta}")
    key, ratio = ratios[0] if minimal is None else minimal[0]
    return JointKeysFound(
        key,
        ratio,
        measure,
        precision,
        found.sampled,
        found.records,
        ratios,
        minimal,
        found.seconds,
        {name: sum(entry.size for entry in entries) for name, entries in sent.items()},
        {name: len(entries) for name, entries in sent.items()},
    )


def _minimal(
    ratios: tuple[tuple[tuple[str, ...], float], ...], beta: float, cost: Mapping[str, float]
) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Return the sets that reach the ratio while no part that was asked about does, the lightest first."""
    reaching = [each for each in ratios if each[1] >= beta]
    minimal = [each for each in reaching if not any({*other} < {*each[0]} for other, _ in reaching)]
    order = {each: at for at, (each, _) in enumerate(ratios)}
    return tuple(
        sorted(minimal, key=lambda each: (sum(cost[name] for name in each[0]), -each[1], order[each[0]]))
    )


def _listed(sets: tuple[tuple[tuple[str, ...], float], ...]) -> list[dict[str, Any]]:
    return [{"key": list(key), "ratio": ratio} for key, ratio in sets]


# --- keys and masks -----------------------------------------------------------------------------------------

Read = Callable[[SampleSize | None, int], CodedRows]  # of a sample's size, if one is enough, and a seed


def keys(
    frame: Any,
    *,
    measure: Measure = "distinct",
    epsilon: float | None = None,
    delta: float | None = None,
    beta: float | None = None,
    exact: bool = False,
    all: bool = False,
    max_size: int = 3,
    weights: Weights | None = None,
    columns: Iterable[str] | None = None,
    seed: int = 7,
    engine: Engine | None = None,
    on_stage: OnStage = silent,
) -> Keys:
    """Find a small set of columns that identifies the rows of a table (any frame, or a file that is read in one pass).

    Without an option it is a key found greedily. With `epsilon` and `delta` a sample is enough: with probability
    1 − δ the set's ratio is at least 1 − ε. With `beta` the set reaches that ratio, no more; with all three
    (1 − ε)β, from a sample of pairs. `exact` finds the smallest key, `all` every minimal set of up to
    `max_size` columns that reaches `beta`. `weights` are what columns cost an attacker; the lightest set is wanted.
    `columns` are those looked at. With an `engine` a file, folder or pattern is counted in chunks, in bounded memory;
    ratios and duplicates are then those of all rows, also where a sample decides.
    """
    _check("keys", measure, seed)
    question = Question(measure, epsilon, delta, beta, exact, all, max_size)
    asked = None if columns is None else names_of("columns", columns)
    checked = checked_weights(weights or {})
    started = time.perf_counter()
    with _asked_rows(frame, asked, engine, on_stage) as (names, read_rows_of):
        shares = weights_of(names, checked)
        rows = read_rows_of(question.sample_rows(len(names)) if question.sampled else None, seed)
    read = time.perf_counter()
    _tell_passes(rows.engine, on_stage, "looking for keys")
    found = find_keys(question, rows, shares, seed)
    return replace(found, seconds={"read": read - started, "find": time.perf_counter() - read})


def mask(
    frame: Any,
    *,
    measure: Measure,
    beta: float,
    sample: int | None = None,
    delta: float | None = None,
    weights: Weights | None = None,
    columns: Iterable[str] | None = None,
    always: Iterable[str] = (),
    never: Iterable[str] = (),
    seed: int = 7,
    engine: Engine | None = None,
    on_stage: OnStage = silent,
) -> Masked:
    """Choose columns of a table (any frame, or a file) to publish, so that their ratio is at most `beta`.

    With a `sample` of that many tuples (for the separation ratio, pairs) it is so with probability 1 − `delta`.
    `weights` are what columns are worth when published; `always` are published, `never` are not. With an `engine` a
    file, folder or pattern is counted in chunks, in bounded memory.
    """
    _check("mask", measure, seed)
    limit = Limit(measure, beta, sample, delta)
    asked = None if columns is None else names_of("columns", columns)
    fixed, barred = names_of("always", always), names_of("never", never)
    if both := [name for name in fixed if name in barred]:
        raise ParameterError(f"{', '.join(both)}: both always and never published")
    checked = checked_weights(weights or {})
    started = time.perf_counter()
    with _asked_rows(frame, asked, engine, on_stage) as (names, read_rows_of):
        chosen("always and never", names, (*fixed, *barred))
        shares = weights_of(names, checked)
        if sample is not None and engine is None:
            limit.within_sample(len(names))  # refuses before a file is read that may have any number of rows
        rows = read_rows_of(limit.sample_rows() if sample is not None else None, seed)
    read = time.perf_counter()
    _tell_passes(rows.engine, on_stage, "choosing columns")
    found = choose_columns(limit, rows, shares, always=fixed, never=barred, seed=seed)
    return replace(found, seconds={"read": read - started, "choose": time.perf_counter() - read})


def ratios(frame: Any, columns: Iterable[str]) -> Mapping[Measure, float]:
    """Return the distinct and the separation ratio of a set of columns."""
    asked = names_of("columns", columns)
    return {measure: keys(frame, measure=measure, columns=asked).ratio for measure in MEASURES}


def fuzzy_duplicates(
    frame: Any, rate: float, *, columns: Iterable[str] | None = None, max_size: int = 3
) -> FuzzyDuplicates:
    """Find rows that are probably one thing written twice, where about a share `rate` of the rows are doubles.

    They agree on a quasi-identifier of up to `max_size` columns that tells just so many rows apart.
    """
    asked = None if columns is None else names_of("columns", columns)
    with _table(frame, asked) as (names, batches):
        rows = _rows_here(batches, names, None, 0)
    return collisions(rows, rate, max_size)


def _check(function: str, measure: object, seed: object) -> None:
    if measure not in MEASURES:
        words = " or ".join(f'"{each}"' for each in MEASURES)
        raise ParameterError(
            f"The measure parameter of {function} must be {words}. Got {given(measure)} instead."
        )
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
        yield names, lambda *_: read_rows(files, names, engine)


@contextmanager
def _table(frame: Any, asked: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...], Batches]]:
    """Yield the names of the columns asked for, or of all, and the table's rows, to be read inside the context."""
    if isinstance(frame, str | Path | TableFile):
        file = frame if isinstance(frame, TableFile) else TableFile(str(frame))
        with file.in_batches(asked) as opened:
            first = next(opened.batches, None)
            if first is None or not first.num_columns:
                raise DataError.about(opened.origin.name, "there is no row of data")
            yield tuple(first.column_names), replace(opened, batches=_and_then(first, opened.batches))
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
        from masquerade.engine.cluster import DaskEngine

        with DaskEngine(str(name)) as cluster:
            yield cluster
        return
    from masquerade.engine.local import LocalEngine, read_size
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
) -> Iterator[PartedFiles]:
    if file.is_parquet:
        yield parted_files(file.source, file.base, asked or ())
        return
    if engine.name != "local":
        raise ParameterError(
            f"{file.source}: a cluster reads Parquet where it lies: a file, a folder, or a pattern"
        )
    from masquerade.data.staged_parquet import staged_parquet

    on_stage(Stage("copying the table", detail="to be read in chunks"))
    with staged_parquet(file, asked) as files:
        yield files


def _tell_passes(engine: Engine, on_stage: OnStage, what: str) -> None:
    on_stage(Stage(what))
    engine.on_chunk = lambda done, total: on_stage(Stage(what, detail=f"{done} of {total} chunks"))


def _and_then(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest


def _rows_here(opened: Batches, names: tuple[str, ...], size: SampleSize | None, seed: int) -> CodedRows:
    """Read all rows, or where a sample is enough, as many of them as it may need."""
    held = HELD_BYTES if size is not None else 1 << 62
    sample = RowSample(size or (lambda rows: rows), seed, held, opened.rows)
    for batch in opened.batches:
        sample.add(batch)
    return sample.coded(names)
