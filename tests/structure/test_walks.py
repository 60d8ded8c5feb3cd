"""How much of the house a run needs: files gone through, and modules loaded. Lower the limits as they sink.

What is counted depends on no clock; where servers may or may not meet a pause, a few files are spared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from cli.command import here
from golden.cases import CASES, deal
from golden.contracts import KINDS
from masquerade.jobs import session
from masquerade.service import Status
from service_house import without_log
from structure.walks import walked

# By what runs: how many files a function runs in, and how many modules are loaded, at most.
ANONYMIZE = {"tds": (63, 95), "mondrian": (73, 109), "auto": (85, 121)}
REQUEST = 155
SITE = 50

# One table is anonymised without what parties need: nobody is there to talk to.
OF_PARTIES = {"crypto", "net", "protocol"}

COMMAND = """
    import json, sys
    from masquerade import cli
    from structure.walks import walked

    with walked() as files:
        try:
            cli.main()
        except SystemExit as ended:
            assert not ended.code, ended.code
    ours = sorted(name for name in sys.modules if name.partition(".")[0] == "masquerade")
    sys.stderr.write(json.dumps({"files": sorted(files), "modules": ours}))
"""


@pytest.mark.system
@pytest.mark.parametrize("method", ANONYMIZE)
def test_a_table_is_anonymized_by_few_files(method: str, tmp_path: Path) -> None:
    most_files, most_modules = ANONYMIZE[method]
    deal(CASES[method], tmp_path)
    program = [sys.executable, "-c", dedent(COMMAND), "anonymize", "job.toml", "--json"]
    paths = {"PYTHONPATH": str(Path(__file__).parent.parent), "PATH": ""}
    done = subprocess.run(program, cwd=tmp_path, env=paths, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    files, modules = told["files"], told["modules"]
    assert len(files) <= most_files, files
    assert len(modules) <= most_modules, modules
    assert not OF_PARTIES & {name.split(".")[1] for name in modules if "." in name}


def test_a_request_is_published_by_few_files(tmp_path: Path) -> None:
    house, request = KINDS["vertical"](tmp_path)
    with without_log(), house, walked() as files:
        house.start_nodes()
        with house.coordinator() as coordinator:
            ana = house.user("ana")
            house.known(coordinator, ana)
            done = house.finished(coordinator, coordinator.ask(ana, request).id)
            assert done.status is Status.PUBLISHED
    assert len(files) <= REQUEST, sorted(files)


@pytest.mark.system
def test_a_site_learns_by_few_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = tmp_path / "walks"
    walks.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    monkeypatch.setenv("WALKED", str(walks))
    monkeypatch.setattr(session, "_PARTY", "structure.walked_party")
    deal(CASES["logistic-two-sites"], tmp_path)
    done = here(capsys, "learn", "job.toml", "--json")
    assert done.code == 0, done.err
    sites = [path.read_text().splitlines() for path in walks.iterdir()]
    assert len(sites) == 2
    for files in sites:
        assert "protocol/learn/site.py" in files
        assert len(files) <= SITE, files
