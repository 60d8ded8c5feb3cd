"""`identity init`: certificates for trials."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cli.command import answered, files, here, refused
from masquerade.net import Identity, TrustStore

Capture = pytest.CaptureFixture[str]


def test_init_writes_what_each_party_needs(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "trial"
    answer = answered(capsys, "identity", "init", folder, "--party", "bank", "--party", "loans")
    assert files(folder) == {"ca.pem", "bank", "loans"}
    assert files(folder / "bank") == {"identity.pem", "key.pem", "trust"}
    assert files(folder / "bank" / "trust") == {"loans.pem"}
    assert stat.S_IMODE((folder / "bank" / "key.pem").stat().st_mode) == 0o600
    bank = Identity.load(folder / "bank")
    assert TrustStore.load(folder / "loans" / "trust").pin("bank") == bank.certificate
    assert f"{folder / 'bank'}: fingerprint {bank.fingerprint}" in answer.out.splitlines()


def test_init_as_json(tmp_path: Path, capsys: Capture) -> None:
    answer = answered(
        capsys, "identity", "init", tmp_path, "--party", "bank", "--party", "loans", "--days", "7", "--json"
    )
    fingerprint = Identity.load(tmp_path / "bank").fingerprint
    assert answer.json["parties"]["bank"] == {"folder": str(tmp_path / "bank"), "fingerprint": fingerprint}
    assert (answer.json["days"], answer.json["authority"]) == (7, str(tmp_path / "ca.pem"))
    assert "PRIVATE" not in answer.out


def test_init_never_overwrites_keys(tmp_path: Path, capsys: Capture) -> None:
    words = ("identity", "init", tmp_path, "--party", "bank", "--party", "loans")
    answered(capsys, *words)
    key = (tmp_path / "bank" / "key.pem").read_bytes()
    assert refused(capsys, *words) == [
        f"{tmp_path / 'bank'}: exists already, and is not overwritten; name new parties alone, or take another folder"
    ]
    assert (tmp_path / "bank" / "key.pem").read_bytes() == key


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--party", "bank"], "at least two parties are needed"),
        (["--party", "bank", "--party", "bank"], "party bank is named twice"),
        (["--party", "bank", "--party", "The Shop"], '"The Shop" cannot name a party'),
        (["--party", "a", "--party", "b", "--days", "0"], "valid for 1 to 3650 days, not 0"),
        ([], "--party"),
    ],
)
def test_init_says_what_is_wrong_and_writes_nothing(
    words: list[str], problem: str, tmp_path: Path, capsys: Capture
) -> None:
    problems = refused(capsys, "identity", "init", tmp_path / "trial", *words)
    assert len(problems) == 1
    assert problem in problems[0]
    assert not (tmp_path / "trial").exists()


def test_help_says_that_it_is_for_trials(capsys: Capture) -> None:
    answer = answered(capsys, "identity", "init", "--help")
    assert "a certificate for each party, for trials" in " ".join(answer.out.split())


def test_make_and_trust(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = answered(capsys, "identity", "make", "bank")
    bank = Identity.load(tmp_path / "bank")
    named = [line.split(": ")[0] for line in made.out.splitlines()[:2]]
    assert named == ["bank/key.pem", "bank/identity.pem"]
    assert f"fingerprint: {bank.fingerprint}" in made.out.splitlines()
    assert stat.S_IMODE((tmp_path / "bank" / "key.pem").stat().st_mode) == 0o600
    told = here(
        capsys, "identity", "trust", "add", "bank/identity.pem", "--store", "loans/trust",
        "--fingerprint", bank.fingerprint.replace(":", "").lower(),
    )  # fmt: skip
    assert told.code == 0
    assert told.out.splitlines() == ["loans/trust/bank.pem: trusted as bank", f"fingerprint: {bank.fingerprint}"]
    assert TrustStore.load(tmp_path / "loans" / "trust").pin("bank") == bank.certificate


def test_make_names_its_files_as_json(tmp_path: Path, capsys: Capture) -> None:
    made = here(capsys, "identity", "make", "bank", "--folder", tmp_path / "own", "--json").json
    assert {Path(name).name for name in made["files"].values()} == files(tmp_path / "own")
    assert made["fingerprint"] == Identity.load(tmp_path / "own").fingerprint


def test_a_certificate_that_is_not_the_expected_one_is_not_trusted(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("old", "new"):
        answered(capsys, "identity", "make", "bank", "--folder", folder)
    old, new = Identity.load(tmp_path / "old"), Identity.load(tmp_path / "new")
    add = ("identity", "trust", "add")
    refused = here(capsys, *add, "new/identity.pem", "--fingerprint", old.fingerprint)
    assert refused.code == 2
    assert f"the fingerprint is {new.fingerprint}, not the expected one" in refused.err
    assert not (tmp_path / "trust").exists()
    answered(capsys, *add, "old/identity.pem")
    assert here(capsys, *add, "old/identity.pem").code == 0  # as it was
    refused = here(capsys, *add, "new/identity.pem")
    assert refused.code == 2
    assert f"holds another certificate, {old.fingerprint}; ask bank why it changed" in refused.err
    answered(capsys, *add, "new/identity.pem", "--replace")
    assert TrustStore.load(tmp_path / "trust").pin("bank") == new.certificate
    assert here(capsys, *add, "new/key.pem").code == 2
