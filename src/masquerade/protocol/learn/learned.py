"""What a session of learning ends with: the model, how good it is on the records it was learned from, what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masquerade.protocol.learn.models import Model


@dataclass(frozen=True)
class Learned:
    """A model and its figures; `curves` has what charts are drawn from (a ROC curve, say)."""

    algorithm: Mapping[str, Any]  # the method's name and settings
    model: Model
    roles: Mapping[str, str]  # class, or duration and event
    parties: tuple[str, ...]
    n_records: int
    metrics: Mapping[str, Any]
    curves: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    dropped_out: tuple[str, ...] = ()  # parties of the contract that the model was finished without
    session: str = ""  # the hash of the contract by which it was learned; "": of one table
    missing_values: tuple[str, ...] | None = None  # texts that meant a missing cell; None: it is not known

    def summary(self) -> dict[str, Any]:
        """Return what `learn --json` says of the model itself."""
        return {
            "model": {**self.model.as_json(), **self.model.derived()},
            "algorithm": dict(self.algorithm),
            "metrics": dict(self.metrics),
            "records": self.n_records,
            "dropped_out": list(self.dropped_out),
            **self._session(),
            "seconds": {part: round(took, 3) for part, took in self.seconds.items()},
        }

    def file(self) -> str:
        """Return the text of the model's file: the model, and what is needed to use it."""
        written = {
            **self.model.as_json(),
            **self.model.derived(),
            "algorithm": dict(self.algorithm),
            "roles": dict(self.roles),
            "parties": list(self.parties),
            "dropped_out": list(self.dropped_out),
            "records": self.n_records,
            **self._session(),
            **({} if self.missing_values is None else {"missing_values": list(self.missing_values)}),
            "metrics": dict(self.metrics),
            "curves": dict(self.curves),
        }
        return json.dumps(written, indent=2, ensure_ascii=False) + "\n"

    def _session(self) -> dict[str, str]:
        return {"session": self.session} if self.session else {}
