"""The stated memory is kept: measured as the peak of real processes, Python and its libraries included."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

ROWS, PART = 420_000, 30_000  # so many that whoever holds all it makes of them takes more than MEMORY
MEMORY = 512  # MB, the least that may be stated

# A process of its own: the peak of a child counts from that of whoever starts it, and this one is small.
LAUNCHER = """
import resource, subprocess, sys
finished = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
sys.exit(finished.returncode)
"""
METHODS = {"provider-aware within boundaries": 'name = "mondrian"', "datafly": 'name = "datafly"'}


def _table(folder: Path) -> None:
    (folder / "people").mkdir()
    dice = np.random.default_rng(7)
    for at in range(ROWS // PART):
        columns = {
            name: pa.DictionaryArray.from_arrays(
                pa.array(dice.integers(0, size, PART).astype(np.int32)),
                pa.array([f"{name}{number:03}" for number in range(size)]),
            )
            for name, size in (("job", 60), ("town", 40), ("sex", 2), ("site", 12), ("disease", 10))
        }
        columns["wage"] = pa.array(dice.normal(3000, 800, PART).round())
        pyarrow.parquet.write_table(pa.table(columns), folder / f"people/{at}.parquet")


def _job(folder: Path, algorithm: str, numbers: Sequence[str]) -> Path:
    for name, size in (("job", 60), ("town", 40)):
        lines = (f"{name}{number:03};{name.upper()}{number // 10};*\n" for number in range(size))
        (folder / f"{name}.csv").write_text("".join(lines))
    qid = ["job", "town", "sex", *numbers]
    bounds = json.dumps([f"JOB{number}" for number in range(6)])
    path = folder / "job.toml"
    path.write_text(
        f"""
[data]
source = "people"
[attributes.job]
taxonomy = "job.csv"
max_generalization = {bounds}
[attributes.town]
taxonomy = "town.csv"
[attributes.sex]
taxonomy = "flat"
{"[attributes.wage]" if numbers else ""}
{'type = "continuous"' if numbers else ""}
[roles]
provider = "site"
sensitive = ["disease"]
[[privacy]]
model = "k-anonymity"
qid = {json.dumps(qid)}
k = 4
[[privacy]]
model = "l-diversity"
qid = {json.dumps(qid)}
sensitive = "disease"
l = 2
[[privacy]]
model = "m-privacy"
m = 1
[algorithm]
{algorithm}
[engine]
memory = "{MEMORY}MB"
[output]
table = "release.parquet"
report = false
keep_provider = true
"""
    )
    return path


def _peak(*words: str) -> int:
    """Return the peak memory of a command, in MB."""
    command = [sys.executable, "-c", LAUNCHER, str(Path(sys.executable).with_name("masquerade")), *words]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


@pytest.mark.system
@pytest.mark.parametrize("method", METHODS)
def test_a_job_keeps_to_the_memory_that_it_states(method: str, tmp_path: Path) -> None:
    _table(tmp_path)
    job = _job(tmp_path, METHODS[method], ["wage"] if method != "datafly" else [])
    assert _peak("anonymize", str(job)) <= MEMORY
    assert _peak("verify", str(tmp_path / "release.parquet"), "--job", str(job)) <= MEMORY
