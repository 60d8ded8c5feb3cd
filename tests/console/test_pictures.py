"""The pictures of docs/howto/console.md are made by the command that the page names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from console.conftest import CHROMIUM
from docs.walkthrough import DOCS, blocks, commands

PAGE = DOCS / "howto" / "console.md"
ROOT = DOCS.parent

# The program with another folder, and with an empty page where the demo, which has tests of its own, has its report.
SCRIPT = """
import pathlib, sys
from console import pictures

def run_demo(folder):
    (folder / "analyst").mkdir(parents=True)
    (folder / "analyst" / "report.html").write_text("<!doctype html><title>a report</title>")

pictures.run_demo, pictures.FOLDER = run_demo, pathlib.Path(sys.argv[1])
pictures.main()
"""


@pytest.mark.system
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_every_picture_of_the_page_is_made_by_its_command(tmp_path: Path) -> None:
    *_, last = blocks(PAGE)
    [command] = commands(last)
    path, _, program = shlex.split(command)
    assert (path, program) == ("PYTHONPATH=tests", "tests/console/pictures.py")
    assert (ROOT / program).is_file()
    found = os.pathsep.join(("tests", os.environ.get("PYTHONPATH", "")))
    words = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": found},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"!\[.+?\]\(\.\./images/([\w-]+\.png)\)", PAGE.read_text("utf-8"))
    assert {each.name for each in tmp_path.iterdir()} == {*shown, "report.png"}
