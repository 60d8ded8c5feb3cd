"""`learn`: several sites, one model; or the model of one table. Writes the model, a report, transcripts and costs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from masquerade.files import PRIVATE, make_folder, read_file, replacing_together, write_whole
from masquerade.job.learning import ALONE, LearningPlan
from masquerade.job.outputs import Outputs
from masquerade.job.tables import section_file
from masquerade.library.model_file import SITE_KEY
from masquerade.library.own_table import own_records
from masquerade.library.parties_run import OnParty, PartiesRun, nobody, party_headers, sent_by
from masquerade.library.party_process import Records
from masquerade.library.run_folder import run_folder
from masquerade.methods import learning_method_of, plain_method
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.net.running import run_async
from masquerade.net.script import Script
from masquerade.net.transcript import Entry, read_transcript
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.frame import alone_at
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.learn.method import Collection

TRANSCRIPTS = "transcripts"


@dataclass(frozen=True)
class Learning:
    """A model, its cost, and the files written."""

    learned: Learned
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


class LearnRun(PartiesRun[Learned]):
    """One run: a process per party, and this process as the collector."""

    def script(self) -> Script[Learned]:
        """Compare the parties' models, and add up what they tell of them."""
        return learning_method_of(self.contract).collector(Collection(self.contract))


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
    contract = plan.contract(_headers(plan))
    plan.settle()
    assert contract is not None  # otherwise settle has raised
    if plan.job.data is not None:
        return _alone(plan, contract, outputs, on_stage)
    with run_folder() as folder:
        on_stage(Stage("starting the parties"))
        run = LearnRun(plan, contract, folder, on_stage, on_party or nobody)
        learned = replace(_plain(run_async(run.run())), missing_values=plan.missing_values)
        return _written(run, learned, outputs, transcripts)


def _headers(plan: LearningPlan) -> dict[str, tuple[str, ...]]:
    if plan.job.data is None:
        return party_headers(plan)
    return {ALONE: section_file(plan.job.data, plan.base).read(()).all_columns}


def _plain(learned: Learned) -> Learned:
    return replace(learned, algorithm=plain_method(learned.algorithm))


def _alone(plan: LearningPlan, contract: Contract, outputs: Outputs, on_stage: OnStage) -> Learning:
    """Learn from one table."""
    table, _ = own_records(plan, ALONE, contract)
    method = learning_method_of(contract)
    on_stage(Stage(method.activity))
    started = time.perf_counter()
    site = alone_at(method, contract, table)
    learned = method.learned_alone(site)
    learned = replace(
        _plain(learned),
        seconds={"protocol": time.perf_counter() - started},
        session=contract.hash.hex(),
        missing_values=plan.missing_values,
    )
    kept = method.kept(site, learned.model)
    if kept is not None:
        write_whole(outputs.table.with_suffix(SITE_KEY), kept, PRIVATE)
    _deliver(learned, outputs, on_stage, (), None)
    return Learning(learned, outputs.table, outputs.report, dropped_rows={ALONE: table.dropped_rows})


def _written(run: LearnRun, learned: Learned, outputs: Outputs, transcripts: Path) -> Learning:
    names = learned.parties
    sent = sent_by(run, names)
    records = [path for name in names for path in Records(run.folder, name).files]
    _deliver(learned, outputs, run.on_stage, records, transcripts)
    return Learning(
        learned,
        outputs.table,
        outputs.report,
        transcripts,
        {name: sum(entry.size for entry in entries) for name, entries in sent.items()},
        {name: len(entries) for name, entries in sent.items()},
        rounds_of(read_transcript(Records(run.folder, names[0]).transcript)),
        {name: run.dropped_rows[name] for name in names},
    )


def rounds_of(transcript: tuple[Entry, ...]) -> int:
    """Return how often a party waited for an answer after it had sent something."""
    ways = [entry.direction for entry in transcript]
    return sum(before == "sent" and after == "received" for before, after in pairwise(ways))


def _deliver(
    learned: Learned, outputs: Outputs, on_stage: OnStage, records: list[Path] | tuple[()], into: Path | None
) -> None:
    """Write the model and what else is kept: all complete, or nothing."""
    with replacing_together() as opened:
        on_stage(Stage(f"writing {outputs.table.name}"))
        with opened(outputs.table) as file:
            file.write(learned.file().encode())
        if outputs.report is not None:
            from masquerade.report.model import render_model

            on_stage(Stage(f"writing {outputs.report.name}"))
            with opened(outputs.report) as file:
                file.write(render_model(learned).encode())
        if into is not None:
            make_folder(into)
            for record in records:
                with opened(into / record.name, record.stat().st_mode & 0o777) as file:
                    file.write(read_file(record))
