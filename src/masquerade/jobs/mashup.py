"""`mashup`: join the tables of a job's parties on this machine; write the release, a report, transcripts and costs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masquerade.anonymize import Provenance
from masquerade.errors import ParameterError
from masquerade.jobs.outputs import Outputs
from masquerade.jobs.parties import check_parties, contract_of
from masquerade.jobs.party_process import SessionFiles
from masquerade.jobs.plan import Plan, tell_values
from masquerade.jobs.release import Release
from masquerade.jobs.run import deliver
from masquerade.jobs.session import OnParty, PartiesRun, nobody, party_headers, run_folder, sent_by
from masquerade.methods import method_of, plain_method
from masquerade.net import Script, run_async
from masquerade.progress import OnStage, Stage, silent
from masquerade.protocol import REPORTED_SETTINGS, Assembly, Contract, Gain
from masquerade.utility import has_sklearn, release_error


@dataclass(frozen=True)
class Mashup:
    """A release made by several parties, its cost, and the files written."""

    release: Release
    contract: Contract
    table: Path
    report: Path | None
    transcripts: Path
    bytes_sent: Mapping[str, int]
    messages: Mapping[str, int]
    rounds: int
    dropped_rows: Mapping[str, int]  # for missing cells, by party; peers do not learn it
    gains: Mapping[str, Gain] = field(default_factory=dict)  # by party, where there is a class; peers do not learn it
    engine: Mapping[str, str] = field(default_factory=dict)  # by party: how its engine got its rows
    labels: Path | None = None

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            **self.release.summary,
            **({} if "third_party" in self.release.settings else {"common_records": self.release.rows}),
            **{name: each for name, each in self.release.settings.items() if name in REPORTED_SETTINGS},
            "algorithm": plain_method(self.contract.method),
            **({} if (choice := self.contract.choice) is None else {"choice": choice.summary()}),
            **self._classification(),
            "dropped_rows_by_party": dict(self.dropped_rows),
            **({"engine": dict(self.engine)} if self.engine else {}),
            "bytes_sent": dict(self.bytes_sent),
            "messages": dict(self.messages),
            "rounds": self.rounds,
            "table": str(self.table),
            **({"report": str(self.report)} if self.report is not None else {}),
            **({"labels": str(self.labels)} if self.labels is not None else {}),
            "transcripts": str(self.transcripts),
        }

    def _classification(self) -> dict[str, Any]:
        """Return IE and, by party, SE and SE − IE; nothing without a class, or without the extra `mining`."""
        if self.release.error is None:
            return {}
        errors = {
            "IE": round(self.release.error, 4),
            "SE": {party: gain.alone for party, gain in self.gains.items()},
            "gain": {party: gain.gain for party, gain in self.gains.items()},
        }
        return {"classification": errors}


@dataclass
class MashupRun(PartiesRun[Release]):
    """One run: a process per party, and this process as the assembler."""

    begun: float = field(default_factory=time.perf_counter)
    _connected_at: float = 0.0
    _joined_at: float = 0.0

    @property
    def loads(self) -> tuple[str, ...]:
        """With a class, the modules that grow decision trees."""
        return ("sklearn.tree",) if self.contract.class_name is not None and has_sklearn() else ()

    def script(self) -> Script[Release]:
        """Join the columns, verify, and return the release."""
        self._connected_at = time.perf_counter()
        provenance = Provenance(
            dropped_rows=sum(self.dropped_rows.values()),
            settings={"job_file": self.plan.path.name, "job": self.plan.settings()},
        )
        assembly = Assembly(
            self.contract,
            self.plan.schema(),
            self.plan.common.seed,
            provenance=provenance,
            judge=release_error if has_sklearn() else None,
        )
        joined = yield from method_of(self.contract).assembler(assembly)
        release = Release.of(joined)
        self._joined_at = time.perf_counter()
        return release

    def account(self, release: Release) -> None:
        """Let the release's seconds say where all the time went, now that every party has ended."""
        told = dict(release.seconds)
        verify, evaluate = told.pop("verify", 0.0), told.pop("evaluate", 0.0)
        after = time.perf_counter() - self._joined_at  # the parties grow trees, too, and end
        handing_in = self._joined_at - self._connected_at - sum(told.values()) - verify - evaluate
        release.seconds.clear()
        release.seconds.update(
            {
                "start": max(self._connected_at - self.begun - self.read_seconds, 0.0),
                "read": self.read_seconds,
                **told,
                "hand_in": max(handing_in, 0.0),
                "verify": verify,
                "evaluate": evaluate + after,
            }
        )


def mashup_job(path: str | Path, *, on_stage: OnStage = silent, on_party: OnParty | None = None) -> Mashup:
    """Run a mashup: every party of the job in its own process, over mutual TLS on this machine.

    Nothing is written unless the joined release passes its check.
    """
    begun = time.perf_counter()
    plan = Plan(Path(path))
    check_parties(plan)
    plan.schema()
    outputs = plan.outputs()
    transcripts = outputs.table.parent / "transcripts"
    if transcripts.exists() and not transcripts.is_dir():
        plan.problems.add(
            ("output",), f"{transcripts} is a file; the parties' transcripts go into a folder of that name"
        )
    plan.settle()
    on_stage(Stage("reading the parties' columns"))
    contract = contract_of(plan, party_headers(plan))
    plan.settle()
    assert contract is not None  # otherwise settle has raised
    with run_folder() as folder:
        on_stage(Stage("starting the parties"))
        run = MashupRun(plan, contract, folder, on_stage, on_party or nobody, begun=begun)
        try:
            release = run_async(run.run())
        except ParameterError as error:  # with a trusted third party
            tell_values(plan.job, plan.problems, error, plan.base)
            plan.settle()
            raise
        run.account(release)
        return _written(run, release, outputs, transcripts)


def _written(run: MashupRun, release: Release, outputs: Outputs, transcripts: Path) -> Mashup:
    contract, folder = run.contract, run.folder
    sent = sent_by(run)
    told = [entry.kind for entry in sent[contract.parties[0]]]
    rounds = method_of(contract).rounds(contract, told, len(release.steps))
    records = [path for name in contract.parties for path in SessionFiles(folder, name).files]
    deliver(release, outputs, run.on_stage, records=records, into=transcripts)
    return Mashup(
        release,
        contract,
        outputs.table,
        outputs.report,
        transcripts,
        {name: sum(entry.size for entry in entries) for name, entries in sent.items()},
        {name: len(entries) for name, entries in sent.items()},
        rounds,
        {name: run.dropped_rows[name] for name in contract.parties},
        {name: run.gains[name] for name in contract.parties if name in run.gains},
        {name: run.rows_on_engine[name] for name in contract.parties if name in run.rows_on_engine},
        outputs.labels,
    )
