"""A disk that is full while a command writes: exit code 2 with the file's name, nothing half-done, and a second try."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import answered, here
from full_disk import no_file_above, read_only
from job.job_files import write_job

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("most", [0, 300, 620])  # bytes: of a key 241, of an authority 579, of a party 688
@pytest.mark.parametrize(
    "words", [("init", "trial", "--party", "bank", "--party", "loans"), ("make", "bank")], ids=lambda each: each[0]
)
def test_an_identity_is_made_whole_or_not_at_all(
    words: tuple[str, ...], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    with no_file_above(most):
        answer = here(capsys, "identity", *words)
    if answer.code == 0:  # this much was enough
        return
    assert (answer.code, answer.out) == (2, "")
    (problem,) = answer.problems
    assert "cannot be written: File too large" in problem
    assert problem.startswith(words[1])
    answered(capsys, "identity", *words)


def test_a_trial_that_is_there_stays_as_it_was(tmp_path: Path, capsys: Capture) -> None:
    trial = tmp_path / "trial"
    answered(capsys, "identity", "init", trial, "--party", "bank", "--party", "loans")
    before = {path: path.read_bytes() for path in trial.rglob("*.pem")}
    with no_file_above(300):
        assert here(capsys, "identity", "init", trial, "--party", "shop").code == 2
    assert {path: path.read_bytes() for path in trial.rglob("*.pem")} == before
    answered(capsys, "identity", "init", trial, "--party", "shop")


def test_a_demo_names_the_file_that_did_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    with no_file_above(2_000):
        answer = here(capsys, "demo", "--once", "--people", "200", "--folder", "ball")
    assert (answer.code, answer.out) == (2, "")
    assert answer.problems == ["ball/bank/bank.db: cannot be written: disk I/O error"]


def test_a_release_on_a_read_only_disk_is_named(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path)
    with read_only():
        answer = here(capsys, "anonymize", job)
    assert (answer.code, answer.out) == (2, "")
    assert answer.problems == [f"{tmp_path / 'release.csv'}: cannot be written: Read-only file system"]
