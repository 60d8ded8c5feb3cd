"""A mashup on this machine: its parties as processes, and this process as the assembler, which is no party."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from masquerade.anonymize.release import Provenance
from masquerade.library.parties_run import PartiesRun
from masquerade.library.release import Release
from masquerade.methods import method_of
from masquerade.net.script import Script
from masquerade.protocol.method import Assembly
from masquerade.utility.classification import has_sklearn
from masquerade.utility.release_error import release_error


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
