"""A mashup on this machine: its parties as processes, and this process as the assembler, which is no party."""

from __future__ import annotations

from masquerade.anonymize.release import Provenance
from masquerade.library.parties_run import PartiesRun
from masquerade.library.release import Release
from masquerade.methods import method_of
from masquerade.net.script import Script
from masquerade.protocol.method import Assembly
from masquerade.utility.classification import has_sklearn
from masquerade.utility.release_error import release_error


class MashupRun(PartiesRun[Release]):
    """One run: a process per party, and this process as the assembler."""

    @property
    def loads(self) -> tuple[str, ...]:
        """With a class, the modules that grow decision trees."""
        return ("sklearn.tree",) if self.contract.class_name is not None and has_sklearn() else ()

    def script(self) -> Script[Release]:
        """Join the columns, verify, and return the release."""
        provenance = Provenance(
            dropped_rows=sum(self.dropped_rows.values()),
            settings={"job_file": self.plan.path.name, "job": self.plan.settings()},
            kind=Release,
        )
        assembly = Assembly(
            self.contract,
            self.plan.schema(),
            self.plan.common.seed,
            provenance=provenance,
            judge=release_error if has_sklearn() else None,
        )
        release = yield from method_of(self.contract).assembler(assembly)
        assert isinstance(release, Release)
        return release
