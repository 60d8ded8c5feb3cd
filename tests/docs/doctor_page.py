"""docs/howto/doctor.md: its output, its exit codes, the checks that it lists, and the keys of its JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.walkthrough import DOCS, Block, Reader, Special, compare, shown
from masquerade.doctor import (
    doctor,  # noqa: F401 - it must not take what is patched below for its own
    service as doctor_peers,
)

PAGE = DOCS / "howto" / "doctor.md"


def specials(monkeypatch: pytest.MonkeyPatch) -> dict[str, Special]:
    """Visit the bank, whose coordinator's clock is wrong."""

    def visit(reader: Reader, block: Block) -> None:
        [(command, output)] = shown(block)
        check = doctor_peers.clock_check
        with monkeypatch.context() as patched:
            patched.setattr(doctor_peers, "clock_check", lambda name, now, *times: check(name, now + 312, *times))
            reader.said = ""
            assert reader.run(command) == 1, reader.said
        compare(output, reader.said, command, figures=False)

    return {"# Find out what is wrong": visit}


def listed(kind: str) -> list[str]:
    """The checks of a kind of configuration that the page lists, as expressions."""
    found = []
    for names, kinds in re.findall(r"^- (.+?) \(([a-z, ]+)\): ", PAGE.read_text("utf-8"), re.MULTILINE):
        if kind in kinds or kinds == "all":
            found += [re.escape(each).replace("…", ".+") for each in re.findall("`(.+?)`", names)]
    return found


def checks_are_listed(reader: Reader, configuration: Path, kind: str, code: int = 0) -> None:
    """What a visit tells is on the page, and its JSON has the keys that the page names."""
    reader.said = ""
    assert reader.run(f"masquerade doctor {configuration} --json") == code, reader.said
    told = json.loads(reader.said.splitlines()[0])
    assert told["kind"] == kind
    names = re.search(r"`--json` prints `(.+?)`", PAGE.read_text("utf-8"), re.DOTALL)
    assert names is not None
    keys = re.findall(r'"(\w+)"', names[1])
    assert [*told, *told["checks"][0]] == keys
    known = [*listed(kind), "versions"]
    for check in told["checks"]:
        assert any(re.fullmatch(each, check["name"]) for each in known), (check["name"], known)
