"""A mashup's seconds say where all of its time went."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.jobs import mashup as mashup_run
from masquerade.jobs.mashup import MashupRun
from masquerade.jobs.session import nobody
from masquerade.progress import silent


def test_the_seconds_add_up_to_the_time_from_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = mq.anonymize(pa.table({"age": [1, 2]}), mq.KAnonymity("age", 2), mq.Mondrian())
    release.seconds.clear()
    release.seconds.update({"align": 2.0, "protocol": 1.0, "verify": 0.5, "evaluate": 1.5})
    run = MashupRun(None, None, tmp_path, silent, nobody, begun=100.0)  # type: ignore[arg-type]
    run.read_seconds, run._connected_at, run._joined_at = 1.0, 103.0, 110.0
    monkeypatch.setattr(mashup_run.time, "perf_counter", lambda: 112.0)
    run.account(release)
    parts = {"start": 2.0, "read": 1.0, "align": 2.0, "protocol": 1.0, "hand_in": 2.0, "verify": 0.5, "evaluate": 3.5}
    assert release.seconds == parts
    assert sum(release.seconds.values()) == 12.0
