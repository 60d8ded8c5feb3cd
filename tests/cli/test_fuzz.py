"""Whatever stands in the files, a command ends with 0, 1 or 2, and leaves a whole release or nothing."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from cli.command import Answer, answered, files, here
from examples import examples
from job.job_files import JOB, JOB_TAXONOMY, TABLE, changed, write_job

INPUTS = {"people.csv", "job.csv", "job.toml"}
OUTPUTS = {"release.csv", "report.html"}
PIECES = st.sampled_from(
    [b'"', b"'", b",", b";", b"\n", b"\r\n", b"\r", b"\x00", b"\xff", b"\xef\xbb\xbf", b"?", b" ", b"-1", b"nan",
     b"1e999", b"inf", b"0", b"true", b"[", b"]", b"{", b"}", b"=", b"2020-01-01",
     b"\xf0\x9f\x8e\xad", b"#", b"age", b"k = 3"]
) | st.binary(max_size=4).filter(lambda piece: b"/" not in piece)  # fmt: skip
MUTATIONS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), PIECES), min_size=1, max_size=4)
FUZZ = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

Slips = list[tuple[float, int, bytes]]
Run = Callable[..., Answer]


def mutated(content: bytes, slips: Slips) -> bytes:
    """The content with some bytes replaced."""
    for where, removed, added in slips:
        start = int(where * len(content))
        content = content[:start] + added + content[start + removed :]
    return content


@pytest.fixture
def fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `anonymize` on the small job with some files changed, and checks what it leaves behind."""
    monkeypatch.setenv("MASQUERADE_TRACEBACK", "1")  # an unforeseen error shows itself

    def run(text: str = JOB, **contents: bytes) -> Answer:
        for path in tmp_path.iterdir():
            path.unlink()
        write_job(tmp_path, text)
        for name, content in contents.items():
            (tmp_path / name.replace("_", ".")).write_bytes(content)
        before = files(tmp_path)
        answer = here(capsys, "anonymize", tmp_path / "job.toml", "--json")
        assert answer.code in (0, 1, 2)
        if answer.code == 0:
            assert answer.json["released"] >= 2
            assert files(tmp_path) - before <= OUTPUTS
            answered(capsys, "verify", answer.json["table"], "--job", tmp_path / "job.toml")
        else:
            assert answer.out == ""
            assert answer.problems
            assert files(tmp_path) == before
        return answer

    return run


def test_the_unchanged_job_runs(fresh: Run) -> None:
    assert fresh().code == 0


@FUZZ
@given(slips=MUTATIONS)
def test_slips_in_the_job(slips: Slips, fresh: Run) -> None:
    fresh(job_toml=mutated(JOB.encode(), slips))


@FUZZ
@given(slips=MUTATIONS)
def test_slips_in_the_table(slips: Slips, fresh: Run) -> None:
    fresh(people_csv=mutated(TABLE.encode(), slips))


@FUZZ
@given(slips=MUTATIONS)
def test_slips_in_the_taxonomy(slips: Slips, fresh: Run) -> None:
    fresh(job_csv=mutated(JOB_TAXONOMY.encode(), slips))


def parquet() -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pandas(pd.read_csv(io.StringIO(TABLE))), buffer)
    return buffer.getvalue()


PARQUET = parquet()


@FUZZ
@given(slips=MUTATIONS)
def test_slips_in_a_parquet_table(slips: Slips, fresh: Run) -> None:
    fresh(changed("people.csv", "people.parquet"), people_parquet=mutated(PARQUET, slips))


@pytest.fixture
def whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> bytes:
    """A release in input order, in the folder of its job."""
    here(capsys, "anonymize", write_job(tmp_path, JOB + '[output]\norder = "input"\n'))
    return (tmp_path / "release.csv").read_bytes()


@settings(FUZZ, max_examples=examples(30))  # each of them grows trees
@given(slips=MUTATIONS)
@example(slips=[])
def test_slips_in_a_release(slips: Slips, whole: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, release = tmp_path / "job.toml", tmp_path / "release.csv"
    release.write_bytes(mutated(whole, slips))
    verified = here(capsys, "verify", release, "--job", job, "--json")
    assert verified.code in (0, 1, 2)
    assert (verified.out == "") == (verified.code == 2)
    evaluated = here(
        capsys, "evaluate", tmp_path / "people.csv", release, "--job", job, "--folds", "2", "--queries", "5", "--json"
    )
    assert evaluated.code in (0, 2)
    assert (evaluated.out == "") == (evaluated.code == 2)
