"""Methods and requirements of another package: offered wherever built-in ones are, and named when they are broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command import without_progress
from installed_package import install, python
from test_contributing import install_examples

pytestmark = pytest.mark.system

OFFERED = """
import json
from masquerade.console.draft import RequestDraft, numbers_of
from masquerade.service.api.app import document

draft, written = RequestDraft(), json.dumps(document())
print(json.dumps({
    "models": draft.models, "methods": list(draft.methods), "numbers": list(numbers_of("no-rare-value")),
    "schema": [word in written for word in ("no-rare-value", "records of each value in a group", "most-general")],
}))
"""


def test_the_console_and_the_api_offer_them(tmp_path: Path) -> None:
    done = python(install_examples(tmp_path / "installed"), tmp_path, "-c", OFFERED)
    assert done.returncode == 0, done.stderr
    offered = json.loads(done.stdout)
    assert offered["models"][-1] == "no-rare-value"
    assert offered["numbers"] == ["n"]
    assert "most-general" in offered["methods"]
    assert offered["schema"] == [True, True, True]


JOB = """
[data]
source = "people.csv"
[attributes.job]
taxonomy = "flat"
[[privacy]]
model = "k-anonymity"
qid = ["job"]
k = 1
"""
METHOD = """
from dataclasses import dataclass
from masquerade.anonymize.method import TableMethod

@dataclass(frozen=True)
class Odd(TableMethod):
    name = "NAME"
    summary = "does nothing"
    def run(self, table, requirement, on_step=None): ...
"""


@pytest.mark.parametrize(
    ("group", "name", "text", "line"),
    [
        ("methods", "odd", "import no_such_module", "cannot be loaded (ModuleNotFoundError: No module named"),
        ("methods", "odd", "raise SystemExit(7)", "cannot be loaded (SystemExit: 7)"),
        ("methods", "tds", METHOD.replace("NAME", "tds"), "the name is taken; give it another, or remove the"),
        ("methods", "odd", METHOD.replace("NAME", "even"), 'declares another name than its entry point: "even"'),
        ("methods", "odd", METHOD.replace("NAME", "odd").replace("run", "go"), "does not implement run"),
        ("methods", "odd", "Odd = 7", "must be a class derived from masquerade.anonymize.method.Method"),
        ("requirements", "odd", "import no_such_module", "cannot be loaded (ModuleNotFoundError: No module named"),
        ("requirements", "odd", "Odd = dict", "must be a class derived from masquerade.privacy.requirement.Group"),
    ],
)
def test_one_that_cannot_be_used_is_one_line_that_names_its_package(
    group: str, name: str, text: str, line: str, tmp_path: Path
) -> None:
    entry_points = {f"masquerade.{group}": {name: "odd_package.odd:Odd"}}
    installed = install(tmp_path / "installed", "odd_package", {"odd.py": text}, entry_points)
    (tmp_path / "people.csv").write_text("job\nbaker\ncook\n")
    job = JOB.replace("k-anonymity", name) if group == "requirements" else JOB  # looked for where none of ours is meant
    (tmp_path / "job.toml").write_text(job)
    done = python(installed, tmp_path, "-m", "masquerade", "anonymize", "job.toml")
    assert done.returncode == 2, done.stderr
    [said] = without_progress(done.stderr).splitlines()
    assert said.startswith(f'error: masquerade.{group} "{name}" of odd_package: {line}')
    assert not (tmp_path / "release.csv").exists()
    if group == "requirements":  # nothing of either kind is loaded for it
        helped = python(installed, tmp_path, "-m", "masquerade", "--help")
        assert (helped.returncode, helped.stderr) == (0, "")


def test_one_that_fails_breaks_no_run_that_did_not_name_it(tmp_path: Path) -> None:
    entry_points = {"masquerade.methods": {"odd": "odd_package.odd:Odd"}}
    modules = {"odd.py": METHOD.replace("NAME", "odd")}
    installed = install(tmp_path / "installed", "odd_package", modules, entry_points)
    (tmp_path / "people.csv").write_text("job\nbaker\ncook\n")
    (tmp_path / "job.toml").write_text(JOB.replace("k = 1", "k = 2"))  # with 1 nothing can be better than the first
    done = python(installed, tmp_path, "-m", "masquerade", "anonymize", "job.toml")
    assert done.returncode == 0, done.stderr
    assert "warning: odd failed with AttributeError (package odd_package)" in done.stdout.splitlines()
    assert (tmp_path / "release.csv").exists()
