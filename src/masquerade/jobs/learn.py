"""`predict`: a model's file and a table in; what the model says of each row out."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade import protocol
from masquerade.data import MISSING_VALUES, Attribute, Schema, Table, TableFile, Taxonomy, write_table
from masquerade.errors import DataError, ParameterError, hint, shown
from masquerade.files import PRIVATE, read_file, replacing_together, write_whole
from masquerade.jobs.learning import ALONE, LearningPlan
from masquerade.jobs.outputs import Outputs, section_file
from masquerade.jobs.party_process import SessionFiles, own_records
from masquerade.jobs.run import copy_records
from masquerade.jobs.session import OnParty, PartiesRun, nobody, party_headers, run_folder, sent_by
from masquerade.methods import learning_method_of, learning_methods, plain_method
from masquerade.net import Entry, Script, read_transcript, run_async
from masquerade.progress import OnStage, Stage, silent

# --- model file ---------------------------------------------------------------------------------------------
# The file of a model, as `masquerade learn`, a coordinator or `save` has written it; and what a site keeps
# of it.

SITE_KEY = ".site-key.json"  # the ending of what predicting by a model of mapped records needs, beside the model


def read_model_file(path: str | Path) -> protocol.Learned:
    """Read a model with all that its file tells of it; DataError if it is none."""
    name = Path(path).name
    try:
        written = json.loads(read_file(Path(path)))
        algorithm = dict(written["algorithm"])
        method = learning_methods().get(algorithm["name"])
        if method is None:
            known = ", ".join(learning_methods())
            text = f'there is no method "{algorithm["name"]}" for models; there are {known}'
            raise DataError.about(name, text)
        return protocol.Learned(
            algorithm,
            method.learns.read(written),
            dict(written.get("roles", {})),
            tuple(written.get("parties", ())),
            int(written.get("records", 0)),
            dict(written.get("metrics", {})),
            dict(written.get("curves", {})),
            session=str(written.get("session", "")),
            missing_values=_texts(written.get("missing_values")),
        )
    except protocol.NotAModel as error:
        raise DataError.about(name, f"no model: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError.about(name, "this is no file of a model") from None


def read_site_key(learned: protocol.Learned, model: str | Path, path: str | Path) -> protocol.SiteKey:
    """Read what a site keeps of the session in which a model of mapped records was learned."""
    key = protocol.SiteKey.read(read_file(Path(path)), Path(path).name)
    if key.session != learned.session:
        session = learned.session[:16] or "none that is named"
        told = f"of session {key.session[:16]}, and {Path(model).name} is of {session}"
        raise ParameterError(f"{Path(path).name}: the matrix is {told}: use the one of this model's session")
    return key


def _texts(written: object) -> tuple[str, ...] | None:
    """Return a list of texts, which older files do not have; TypeError if it is none."""
    if written is None:
        return None
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise TypeError
    return tuple(written)


# --- learning -----------------------------------------------------------------------------------------------
# `learn`: several sites, one model; or the model of one table. Writes the model, a report, transcripts and
# costs.

TRANSCRIPTS = "transcripts"


@dataclass(frozen=True)
class Learning:
    """A model, its cost, and the files written."""

    learned: protocol.Learned
    file: Path
    report: Path | None
    transcripts: Path | None = None  # None on one table
    bytes_sent: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[str, int] = field(default_factory=dict)
    rounds: int = 0
    dropped_rows: Mapping[str, int] = field(default_factory=dict)  # for missing cells, by party

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            **self.learned.summary(),
            "dropped_rows_by_party": dict(self.dropped_rows),
            "bytes_sent": dict(self.bytes_sent),
            "messages": dict(self.messages),
            "rounds": self.rounds,
            "file": str(self.file),
            **({"report": str(self.report)} if self.report is not None else {}),
            **({"transcripts": str(self.transcripts)} if self.transcripts is not None else {}),
        }


class LearnRun(PartiesRun[protocol.Learned]):
    """One run: a process per party, and this process as the collector."""

    def script(self) -> Script[protocol.Learned]:
        """Compare the parties' models, and add up what they tell of them."""
        return learning_method_of(self.contract).assembler(protocol.Assembly(self.contract))


def learn_job(path: str | Path, *, on_stage: OnStage = silent, on_party: OnParty | None = None) -> Learning:
    """Learn the model of a job: every party in its own process, over mutual TLS on this machine.

    Nothing is written unless all parties have learned the same model, or all that are left where some may drop out.
    """
    plan = LearningPlan(Path(path))
    plan.check()
    outputs = plan.outputs()
    transcripts = outputs.table.parent / TRANSCRIPTS
    if transcripts.exists() and not transcripts.is_dir():
        text = f"{transcripts} is a file; the parties' transcripts go into a folder of that name"
        plan.problems.add(("output",), text)
    plan.settle()
    on_stage(Stage("reading the columns"))
    data = plan.job.data
    headers = {ALONE: section_file(data, plan.base).read(()).all_columns} if data is not None else party_headers(plan)
    contract = plan.contract(headers)
    plan.settle()
    assert contract is not None  # otherwise settle has raised
    if data is not None:
        return _alone(plan, contract, outputs, on_stage)
    with run_folder() as folder:
        on_stage(Stage("starting the parties"))
        run = LearnRun(plan, contract, folder, on_stage, on_party or nobody)
        learned = run_async(run.run())
        learned = replace(learned, algorithm=plain_method(learned.algorithm), missing_values=plan.missing_values)
        return _written(run, learned, outputs, transcripts)


def _alone(plan: LearningPlan, contract: protocol.Contract, outputs: Outputs, on_stage: OnStage) -> Learning:
    """Learn from one table."""
    table, _ = own_records(plan, ALONE, contract)
    method = learning_method_of(contract)
    on_stage(Stage(method.activity))
    started = time.perf_counter()
    site = protocol.alone_at(method, contract, table)
    learned = method.learned_alone(site)
    learned = replace(
        learned,
        algorithm=plain_method(learned.algorithm),
        seconds={"protocol": time.perf_counter() - started},
        session=contract.hash.hex(),
        missing_values=plan.missing_values,
    )
    kept = method.kept(site, learned.model)
    if kept is not None:
        write_whole(outputs.table.with_suffix(SITE_KEY), kept, PRIVATE)
    _deliver(learned, outputs, on_stage, (), None)
    return Learning(learned, outputs.table, outputs.report, dropped_rows={ALONE: table.dropped_rows})


def _written(run: LearnRun, learned: protocol.Learned, outputs: Outputs, transcripts: Path) -> Learning:
    names = learned.parties
    sent = sent_by(run, names)
    records = [path for name in names for path in SessionFiles(run.folder, name).files]
    _deliver(learned, outputs, run.on_stage, records, transcripts)
    return Learning(
        learned,
        outputs.table,
        outputs.report,
        transcripts,
        {name: sum(entry.size for entry in entries) for name, entries in sent.items()},
        {name: len(entries) for name, entries in sent.items()},
        rounds_of(read_transcript(SessionFiles(run.folder, names[0]).transcript)),
        {name: run.dropped_rows[name] for name in names},
    )


def rounds_of(transcript: tuple[Entry, ...]) -> int:
    """Return how often a party waited for an answer after it had sent something."""
    ways = [entry.direction for entry in transcript]
    return sum(before == "sent" and after == "received" for before, after in pairwise(ways))


def _deliver(
    learned: protocol.Learned, outputs: Outputs, on_stage: OnStage, records: list[Path] | tuple[()], into: Path | None
) -> None:
    """Write the model and what else is kept: all complete, or nothing."""
    with replacing_together() as opened:
        on_stage(Stage(f"writing {outputs.table.name}"))
        with opened(outputs.table) as file:
            file.write(learned.file().encode())
        if outputs.report is not None:
            from masquerade.report import render_model

            on_stage(Stage(f"writing {outputs.report.name}"))
            with opened(outputs.report) as file:
                file.write(render_model(learned).encode())
        if into is not None:
            copy_records(opened, records, into)


# --- predicting ---------------------------------------------------------------------------------------------

Inputs = Mapping[str, tuple[str, ...] | None]  # by attribute: the values that the model knows; None for numbers


@dataclass(frozen=True)
class Predictions:
    """What a model says of each row of a table, in the table's order.

    It is null where a cell that the model needs is missing, or has a value that the model has never seen.
    """

    learned: protocol.Learned
    table: pa.Table  # the columns kept, and those predicted
    predicted: tuple[str, ...]
    incomplete: int  # rows of which nothing is said, as a cell is missing
    unseen: tuple[protocol.UnseenValues, ...] = ()  # by column; a row may be in several
    unseen_rows: int = 0
    source: str = ""  # the table's name
    file: Path | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each column with values that the model has never seen."""
        return tuple(each.warning(self.source) for each in self.unseen)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each predicted class; empty where none is predicted."""
        if "prediction" not in self.predicted:
            return {}
        counted = self.table["prediction"].drop_null().value_counts().to_pylist()
        return {each["values"]: each["counts"] for each in sorted(counted, key=lambda each: str(each["values"]))}

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            "algorithm": dict(self.learned.algorithm),
            "rows": self.table.num_rows,
            "incomplete_rows": self.incomplete,
            "unseen_rows": self.unseen_rows,
            "unseen": [
                {"column": each.column, "rows": each.rows, "first_row": each.first_row, "values": list(each.values)}
                for each in self.unseen
            ],
            "warnings": list(self.warnings),
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
    missing_values: Sequence[str] | None = None,
    strict: bool = False,
    output: str | Path | None = None,
) -> Predictions:
    """Apply the model in a file to every row of a table: a file, a database's `TableFile`, or any frame.

    `site_key` is the file that a site keeps of a session whose records were mapped (pp-svm, pp-cox). `job` says what
    the columns mean, where they have dates or taxonomies. `attribute` is what a net predicts, `times` are those of
    survival. Columns in `keep` are copied in front. `missing_values` are the texts that mean a missing cell; by default
    the job's, the frame's own, or those that the model was learned with. Nothing is written without `output`.

    Where a model has never seen a value, its prediction is null, and a warning counts such rows; with `strict` the
    first one is a DataError.
    """
    learned = read_model_file(model)
    asked = protocol.Asked(attribute or learned.roles.get("class"), tuple(times), _site_key(learned, model, site_key))
    inputs = protocol.inputs_of(learned.model, asked)
    plan = None if job is None else LearningPlan(Path(job))
    schema = _schema(inputs, plan)
    source = _read(table)
    words = _missing_words(missing_values, plan, source, learned)
    names = source.arrow.column_names
    if lacking := [name for name in (*inputs, *keep) if name not in names]:
        first = lacking[0]
        text = f'no column "{first}", which {"the model needs" if first in inputs else "is to be kept"}'
        raise DataError.about(source.origin.name, f"{text}{hint(first, names)}; the columns are: {', '.join(names)}")
    whole = Table(source.arrow, schema, origin=replace(source.origin, missing_values=words))
    fills = isinstance(learned.model, protocol.MappedSpaceModel)  # its sites keep the means
    rows = whole.complete(inputs, "mean" if fills else "drop")
    cells = _cells(rows, inputs)
    said = protocol.answers(learned.model, cells, len(rows), asked)
    unseen = protocol.unseen_values(said.unseen, cells, rows.source_row)
    if strict and unseen:
        raise _first_unseen(unseen, inputs, rows, said, cells)
    columns = {name: source.arrow[name] for name in keep}
    if clash := [name for name in said.columns if name in columns]:
        raise ParameterError(f'keep: "{clash[0]}" is the name of what is predicted')
    places = said.rows if rows.source_rows is None else rows.source_rows[said.rows]
    columns |= {name: _spread(values, places, len(whole)) for name, values in said.columns.items()}
    made = Predictions(
        learned,
        pa.table(columns),
        tuple(said.columns),
        len(whole) - len(rows),
        unseen,
        len(rows) - len(said.rows),
        source.origin.name,
    )
    for line in made.warnings:
        warnings.warn(line, stacklevel=2)
    if output is None:
        return made
    write_table(made.table, Path(output))
    return replace(made, file=Path(output))


def _read(table: Any) -> Table:
    if isinstance(table, Table):
        return table
    if hasattr(table, "__arrow_c_stream__"):
        return Table(table)
    found = (table if isinstance(table, TableFile) else TableFile(str(table))).read()
    return Table(found.table, Schema(()), origin=found.origin)


def _site_key(learned: protocol.Learned, model: str | Path, path: str | Path | None) -> protocol.SiteKey | None:
    """Return what the site keeps; ParameterError where it is missing, not needed, or of another model."""
    name, mapped = Path(model).name, isinstance(learned.model, protocol.MappedSpaceModel)
    if path is None:
        if mapped:
            text = f'"{learned.algorithm["name"]}" maps records by a matrix that its sites keep to themselves'
            raise ParameterError(f"{name}: {text}; at a site, give its file with --site-key")
        return None
    if not mapped:
        raise ParameterError(f'--site-key: a model by "{learned.algorithm["name"]}" needs none; leave it out')
    return read_site_key(learned, model, path)


def _missing_words(
    given: Sequence[str] | None, plan: LearningPlan | None, source: Table, learned: protocol.Learned
) -> tuple[str, ...]:
    """Return the texts that mean a missing cell; an empty one does in any case."""
    if given is not None:
        return ("", *given)
    if plan is not None and plan.missing_values:
        return plan.missing_values
    if learned.missing_values is None or source.origin.missing_values != MISSING_VALUES:
        return source.origin.missing_values
    return learned.missing_values


def _schema(inputs: Inputs, plan: LearningPlan | None) -> Schema:
    """Return what the columns mean: by the job, or else texts and numbers. Bounds are about what is released."""
    plain = {name: Attribute(name, "continuous" if each is None else "categorical") for name, each in inputs.items()}
    if plan is not None:
        known = plan.schema()
        plan.settle()
        plain |= {name: replace(known[name], lower=None, upper=None) for name in inputs if name in known}
    return Schema(list(plain.values()))


def _cells(table: Table, inputs: Inputs) -> protocol.Cells:
    """Return the columns as models take them: categories as texts, numbers as numbers."""
    return {
        name: protocol.cells_of(table, name) if values is None else _labels(table, name)
        for name, values in inputs.items()
    }


def _labels(table: Table, name: str) -> NDArray[np.object_]:
    """Return a category's cells as a model was given them; one that its taxonomy does not cover as it is written."""
    coded, tree = table.coded(name), table.schema[name].taxonomy
    found = np.array(coded.labels, object)[coded.codes]
    covered = np.ones(len(table), bool)
    if isinstance(tree, Taxonomy) and tree.edges is not None:
        numbers = protocol.cells_of(table, name)
        covered = (numbers >= tree.edges[0]) & (numbers < tree.edges[-1])
    elif isinstance(tree, Taxonomy):
        covered = np.array([label in tree.rank for label in coded.labels], bool)[coded.codes]
    codes, labels = protocol.own_codes(table if covered.all() else table.take(np.flatnonzero(covered)), name)
    found[covered] = np.array(labels, object)[codes]
    return found


def _first_unseen(
    unseen: tuple[protocol.UnseenValues, ...],
    inputs: Inputs,
    rows: Table,
    said: protocol.PredictedRecords,
    cells: protocol.Cells,
) -> DataError:
    """Return the error of the first row with a value that the model has never seen."""
    name = min(unseen, key=lambda each: each.first_row).column
    row = int(np.argmax(said.unseen[name]))
    known = inputs[name] or ()
    some = ", ".join(shown(value) for value in known[: protocol.SHOWN]) + (", …" if len(known) > protocol.SHOWN else "")
    text = f"the model has never seen {shown(str(cells[name][row]))}; it knows {some}"
    return DataError(rows.problem(text, row, name))


def _spread(values: NDArray[Any], places: NDArray[np.intp], size: int) -> pa.Array:
    """Return predictions at their rows' places in the whole table, null elsewhere."""
    kind = pa.string() if values.dtype == object else pa.float64()
    at = np.full(size, -1, np.int64)
    at[places] = np.arange(places.size)
    return pa.array(values.tolist(), kind).take(pa.array(at, mask=at < 0))
