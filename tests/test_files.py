"""Files that appear whole or not at all, and secrets."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from full_disk import no_file_above
from masquerade import files
from masquerade.errors import ParameterError
from masquerade.files import (
    PRIVATE,
    FileExists,
    check_space,
    kept_secret,
    read_file,
    read_secret,
    replacing_folder,
    replacing_together,
    write_new,
    write_whole,
)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_texts_and_bytes_replace_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_whole(path, "<p>ℓ-diversity\r\n")
    assert path.read_bytes() == "<p>ℓ-diversity\r\n".encode()
    with no_file_above(4096), pytest.raises(ParameterError, match="cannot be written: File too large"):
        write_whole(path, "x" * 10_000)
    with pytest.raises(ParameterError, match=r"report\.html: cannot be written: .*surrogates"):
        write_whole(path, "half a sign: \ud800")
    assert path.read_bytes() == "<p>ℓ-diversity\r\n".encode()
    write_whole(path, b"\xff", PRIVATE)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"\xff", 0o600)
    assert left_in(tmp_path) == ["report.html"]


def test_several_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    table, report = tmp_path / "table.csv", tmp_path / "report.html"
    table.write_text("old")

    def fail_at_the_second() -> None:
        with replacing_together() as opened:
            with opened(table) as file:
                file.write(b"new")
            with no_file_above(4096), opened(report) as file:
                file.write(b"x" * 10_000)

    with pytest.raises(ParameterError, match=r"report\.html: cannot be written: File too large"):
        fail_at_the_second()
    assert (table.read_text(), left_in(tmp_path)) == ("old", ["table.csv"])
    with replacing_together() as opened:
        for path in (table, report):
            with opened(path) as file:
                file.write(b"new")
        assert (table.read_text(), report.exists()) == ("old", False)
    assert (table.read_text(), report.read_text()) == ("new", "new")
    assert left_in(tmp_path) == ["report.html", "table.csv"]


def test_what_is_opened_first_appears_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, report = tmp_path / "table.csv", tmp_path / "report.html"

    def die(_folder: Path) -> None:
        raise KeyboardInterrupt  # between the two

    monkeypatch.setattr(files, "sync_folder", die)

    def write() -> None:
        with replacing_together() as opened:
            for path in (table, report):
                with opened(path) as file:
                    file.write(b"new")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert left_in(tmp_path) == ["report.html"]


@pytest.mark.system
def test_what_a_killed_process_left_is_swept_by_the_next_one(tmp_path: Path) -> None:
    """What is being written stays, in this process and in others; and so does what is not ours."""
    others = [".0123456789abcdef.tmp.csv", ".0123456789abcde.tmp", "0123456789abcdef.tmp", ".tmp"]
    for name in others:
        (tmp_path / name).touch()
    code = "import os, sys; from pathlib import Path; from masquerade.files import replacing_together\n"
    code += "with replacing_together() as opened, opened(Path(sys.argv[1])) as file:\n"
    code += "    file.write(b'half'); file.flush(); print(flush=True); sys.stdin.read(); os._exit(9)"
    command = [sys.executable, "-c", code, str(tmp_path / "release.csv")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writing:
        assert writing.stdout is not None
        writing.stdout.readline()
        (half,) = {*left_in(tmp_path)} - {*others}
        with replacing_together() as opened, opened(tmp_path / "report.html") as file:
            file.write(b"new")
            write_new(tmp_path / "key", b"mine")
        assert left_in(tmp_path) == sorted([*others, half, "key", "report.html"])
        writing.communicate()
    assert writing.returncode == 9
    assert half in left_in(tmp_path)
    write_whole(tmp_path / "release.csv", b"whole")
    assert left_in(tmp_path) == sorted([*others, "key", "release.csv", "report.html"])


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_takes_the_place_of_an_older_one(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once where the system can, so that there is always one; else the older one is moved aside first."""
    if not at_once:
        monkeypatch.setattr(files, "_exchanged", lambda *_: False)
    place, rename = tmp_path / "release", Path.rename
    there = []

    def watched(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        there.append(place.exists())
        return moved

    monkeypatch.setattr(Path, "rename", watched)
    for text in ("old", "new"):
        with replacing_folder(place) as folder:
            (folder / "part").write_text(text)
    assert (place / "part").read_text() == "new"
    assert left_in(tmp_path) == ["release"]
    assert there == ([True] if at_once else [True, False, True])


def test_a_folder_of_a_full_disk_has_no_space(tmp_path: Path) -> None:
    check_space(tmp_path)
    with no_file_above(4096), pytest.raises(ParameterError, match="cannot be written: File too large"):
        check_space(tmp_path)
    assert left_in(tmp_path) == []


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    write_new(path, b"mine", PRIVATE)
    with pytest.raises(FileExists, match=r"key\.pem: exists already, and is not overwritten"):
        write_new(path, b"theirs")
    with no_file_above(4096), pytest.raises(ParameterError, match="cannot be written: File too large"):
        write_new(tmp_path / "long", b"x" * 10_000)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"mine", 0o600)
    assert left_in(tmp_path) == ["key.pem"]


def test_places_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "file", tmp_path / "a\0", tmp_path / ("n" * 300)):
        for act in (lambda path: write_new(path, b""), lambda path: write_whole(path, b""), read_file):
            with pytest.raises(ParameterError, match=r"cannot be (read|written): "):
                act(path)
    assert left_in(tmp_path) == []


def test_secrets_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_new(path, b"s3cret", PRIVATE)
    for mode, alone, by_group in ((0o600, True, True), (0o640, False, True), (0o604, False, False)):
        path.chmod(mode)
        for allowed, may in ((alone, False), (by_group, True)):
            if allowed:
                assert read_secret(path, "this key", by_group=may) == b"s3cret"
            else:
                with pytest.raises(ParameterError, match="secret: others may read this key; chmod 600 it"):
                    read_secret(path, "this key", by_group=may)


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    made = iter(range(1000))
    path = tmp_path / "secret"
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: kept_secret(path, "this", lambda: str(next(made)).encode()), range(40)))
    assert found == {path.read_bytes()}
    assert path.stat().st_mode & 0o777 == 0o600
    assert left_in(tmp_path) == ["secret"]


def test_writers_that_sweep_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def written(writer: int) -> None:
        for number in range(40):
            write_whole(tmp_path / f"{writer}-{number}", b"whole")

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(written, range(4)))
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"whole"] * 160
