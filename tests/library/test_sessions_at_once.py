"""A process that starts many sessions at once, before it has decoded a message."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import forked

TREE = "".join(f"{letter}{digit};{letter};any\n" for letter in "ab" for digit in range(3))
JOB = """
[attributes.job]
taxonomy = "{folder}/tree.csv"
[attributes.town]
taxonomy = "{folder}/tree.csv"
[roles]
class = "class"
[[privacy]]
model = "k-anonymity"
qid = ["job", "town"]
k = 3
[algorithm]
{algorithm}
[parties.bank]
source = "{folder}/bank.csv"
id = "id"
[parties.shop]
source = "{folder}/shop.csv"
id = "id"
[output]
table = "{name}.csv"
report = false
"""
METHODS = ("tds", "mondrian", "dka")
ROWS = 12


@pytest.fixture
def jobs(tmp_path: Path) -> list[Path]:
    (tmp_path / "tree.csv").write_text(TREE)
    for party, attribute in (("bank", "job"), ("shop", "town")):
        rows = [f"p{row},{'ab'[row % 2]}{row % 3},{'yn'[row % 2]}\n" for row in range(ROWS)]
        (tmp_path / f"{party}.csv").write_text(f"id,{attribute},class\n" + "".join(rows))
    paths = []
    for number, name in enumerate(METHODS * 2):
        paths.append(tmp_path / f"job {number}.toml")
        algorithm = f'name = "{name}"'
        paths[-1].write_text(JOB.format(folder=tmp_path, name=f"release {number}", algorithm=algorithm))
    return paths


@pytest.mark.system
@pytest.mark.parametrize("run", range(3))
def test_sessions_that_start_at_once_all_end_well(jobs: list[Path], run: int) -> None:
    """In fresh processes, because only the first message of a kind ever showed it."""
    program = Path(__file__).parents[1] / "sessions_at_once.py"
    done = forked.run([sys.executable, program, *jobs], text=True)
    assert (done.returncode, done.stdout.split("\n")) == (0, [*[str(ROWS)] * len(jobs), ""]), done.stderr
