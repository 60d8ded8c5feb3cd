"""What a notebook shows: views of what was made, one frame of an error, and the notebooks of docs/, run as they are."""

from __future__ import annotations

import atexit
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import masquerade as mq
from masquerade.errors import Bug
from parties_here import parties_here

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))
AGES = pa.table({"age": [*range(20, 60)] * 2})
K4 = mq.KAnonymity(["age"], k=4)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    settings = Config({"HistoryManager": {"enabled": False}})
    made = InteractiveShell(config=settings, colors="nocolor", user_module=ModuleType("notebook"))
    yield made
    atexit.unregister(made.atexit_operations)
    made.atexit_operations()
    made.restore_sys_module_state()


def said(shell: InteractiveShell, cell: str) -> str:
    """What a cell prints, its error among it."""
    with capture_output() as captured, warnings.catch_warnings(record=True):
        warnings.simplefilter("default")
        shell.run_cell(cell, store_history=False)
    return str(captured.stdout + captured.stderr)


# --- errors ---


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ('mq.KAnonymity(["age"], k=0)', "ParameterError: The k parameter of KAnonymity must be "),
        ('mq.read("nowhere.csv")', "DataError: nowhere.csv: there is no such file"),
        ("mq.verify(mq.generate_people(9), mq.KAnonymity(['sex'], 9)).insist()", "RequirementViolated: table: "),
        ('mq.anonymize(mq.generate_people(9), mq.KAnonymity(["hours"], 10))', "RequirementUnreachable: "),
    ],
)
def test_an_error_of_the_user_is_one_frame(shell: InteractiveShell, cell: str, message: str) -> None:
    shell.run_cell("import masquerade as mq")
    printed = said(shell, f"x = 1\n{cell}")
    assert message in printed
    assert printed.count(", line ") == 1
    assert "line 2" in printed
    assert cell in printed
    assert "site-packages" not in printed
    assert "src/masquerade" not in printed


def test_an_error_in_a_function_of_the_user_is_its_line(shell: InteractiveShell) -> None:
    printed = said(shell, "import masquerade as mq\ndef f():\n    mq.KAnonymity(['age'], k=0)\nf()")
    assert "line 3, in f" in printed
    assert printed.count(", line ") == 1


def test_a_bug_of_ours_shows_where_it_is(shell: InteractiveShell) -> None:
    assert not hasattr(Bug("x"), "_render_traceback_")
    printed = said(shell, "from masquerade.errors import Bug\ndef f():\n    raise Bug('x')\nf()")
    assert "f()" in printed
    assert "raise Bug" in printed


# --- views ---


def test_a_contest_has_a_view() -> None:
    found = mq.compare(AGES, K4, methods=["mondrian", "tds"])
    assert repr(found).startswith("<Contest of table: ")
    assert "mondrian" in repr(found)
    page = found._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "&lt;table" in page


def test_a_verification_has_a_view() -> None:
    held = mq.verify(AGES, mq.KAnonymity(["age"], k=2))
    assert repr(held) == "<Verification of table: holds>"
    assert str(held) == "holds: k-anonymity (k = 2) over age (worst group: 2)"
    failed = mq.verify(pa.table({"<b>": ["x", "x", "y"]}), mq.KAnonymity(["<b>"], k=2))
    assert repr(failed) == "<Verification of table: does not hold>"
    assert str(failed).startswith("does not hold: ")
    page = failed._repr_html_()
    assert "✗ does not hold" in page
    assert "<b>" not in page


# --- the notebooks of docs/ ---


def cells(path: Path) -> list[str]:
    found = json.loads(path.read_text("utf-8"))
    assert found["nbformat"] == 4
    assert all(not cell.get("outputs") for cell in found["cells"])  # they would differ in every run
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, shell: InteractiveShell) -> None:
    with parties_here():
        for cell in cells(path):
            printed = run(shell, cell)
            assert "Traceback" not in printed


def run(shell: InteractiveShell, cell: str) -> str:
    with capture_output() as captured, warnings.catch_warnings(record=True):
        warnings.simplefilter("default")
        shell.run_cell(cell, store_history=False).raise_error()
    return str(captured.stdout + captured.stderr)


def test_there_are_two_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["one-table", "three-sites"]
