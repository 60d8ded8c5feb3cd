"""The worked examples of CONTRIBUTING.md run: as classes, and installed as an outside package would be."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from installed_package import ROOT, install, python
from masquerade.methods.registry import methods
from masquerade.net.memory import Wire, run_together
from masquerade.privacy import REQUIREMENTS
from masquerade.protocol import ASSEMBLER, Assembly, Contract, Contribution, Participant, Proposal, written_requirement

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PACKAGE = "masquerade_extras"
PEOPLE = {
    "job": ["baker", "baker", "cook", "cook", "judge", "judge", "judge", "judge"],
    "town": ["Ulm", "Graz"] * 4,
    "disease": ["flu", "flu", "flu", "flu", "flu", "flu", "gout", "gout"],
}
JOBS = mq.Branch("any", (mq.Branch("trade", (mq.Branch("baker"), mq.Branch("cook"))), mq.Branch("judge")))
SCHEMA = mq.Schema(
    [mq.Attribute("job", taxonomy=mq.Taxonomy(JOBS)), mq.Attribute("town", taxonomy=mq.Taxonomy.flat(["Graz", "Ulm"]))]
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def install_examples(folder: Path) -> Path:
    """Install the package that the examples make up."""
    modules = {}
    for block in blocks("python"):
        [name] = re.findall(rf"\A# {PACKAGE}/(\w+\.py)\n", block)
        modules[name] = block
    return install(folder, PACKAGE, modules, tomllib.loads(blocks("toml")[0])["project"]["entry-points"])


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package of the examples."""
    return install_examples(tmp_path / "installed")


@pytest.fixture
def extras(installed: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The package, imported; the next test imports its own."""
    assert methods()  # what is registered is looked up once: these are not to be found by other tests
    assert len(REQUIREMENTS)
    monkeypatch.syspath_prepend(str(installed))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    for path in (installed / PACKAGE).glob("[a-z]*.py"):
        importlib.import_module(f"{PACKAGE}.{path.stem}")
    return importlib.import_module(PACKAGE)


@pytest.fixture
def table() -> mq.Table:
    return mq.Table(pa.table(PEOPLE), SCHEMA)


def test_the_method_takes_the_deepest_level_that_satisfies(extras: ModuleType, table: mq.Table) -> None:
    method = extras.uniform_depth.UniformDepth(deepest=2)
    release = mq.anonymize(table, mq.KAnonymity(["job", "town"], k=2), method, order="input")
    assert release.table["job"].to_pylist() == ["trade"] * 4 + ["judge"] * 4
    assert release.table["town"].to_pylist() == PEOPLE["town"]
    general = mq.anonymize(table, mq.KAnonymity(["job", "town"], k=3), method)
    assert set(general.table["job"].to_pylist()) == {"any"}


def test_the_method_checks_its_parameter_and_refuses_what_it_cannot_do(extras: ModuleType) -> None:
    with pytest.raises(mq.ParameterError, match=r"The deepest parameter of .* must be a whole number of at least 0"):
        extras.uniform_depth.UniformDepth(deepest=-1)
    numbers = mq.Table(pa.table({"age": [1, 2]}), mq.Schema([mq.Attribute("age", "continuous")]))
    with pytest.raises(mq.ParameterError, match=r"attributes\.age: uniform-depth needs a taxonomy"):
        mq.anonymize(numbers, mq.KAnonymity(["age"], k=1), extras.uniform_depth.UniformDepth())


def test_the_requirement_guides_a_built_in_method(extras: ModuleType, table: mq.Table) -> None:
    requirement = extras.no_rare_value.NoRareValue(["job", "town"], n=2, sensitive="disease")
    release = mq.anonymize(table, requirement)
    assert mq.verify(release.table, requirement)
    [verdict] = mq.verify(pa.table(PEOPLE), requirement).verdicts
    assert (verdict.holds, verdict.value) == (False, 1)
    assert "has a value of disease in 1 record only; at least 2 are required" in str(verdict.violation)
    assert requirement.covers(extras.no_rare_value.NoRareValue(["job"], n=1, sensitive="disease"))


def test_the_protocol_joins_two_parties_and_tells_nothing_else(extras: ModuleType, table: mq.Table) -> None:
    method = extras.most_general.MostGeneral()
    contract = Contract(
        parties=("bank", "clinic"),
        columns=(Contribution("job", "bank", "attribute"), Contribution("town", "clinic", "attribute")),
        requirements=(written_requirement(mq.KAnonymity(["job", "town"], k=4)),),
        method=method.settings(),
    )
    people = [str(number).encode() for number in range(len(table))]
    participants = {
        "bank": Participant("bank", contract, table, people),
        "clinic": Participant("clinic", contract, table.take(np.arange(2, 7)), people[2:7]),
    }
    scripts = {name: method.party(participant) for name, participant in participants.items()}
    wire = Wire()
    done = run_together({**scripts, ASSEMBLER: method.assembler(Assembly(contract))}, wire)
    assert (done["bank"], done["clinic"]) == (5, 5)
    assert done[ASSEMBLER].table.to_pylist() == [{"job": "any", "town": "*"}] * 5
    kinds = {heard.kind for heard in wire.heard if heard.receiver != ASSEMBLER}
    alignment = {"list-size", "blinded", "positions", "equality-share", "equality-proof"}
    assert kinds == {*alignment, "most-general-ready", "received"}
    shown = method.disclosure(contract, "bank", None, show_steps=False)
    assert shown.peers_learn == ("clinic: which of their own people all parties have, and how many",)
    sensitive = mq.LDiversity(["job"], l=2, sensitive="disease")
    [problem] = method.refusals(Proposal((sensitive,)))
    assert str(problem) == "privacy[1]: most-general checks sizes alone, not l-diversity"


USED = """
import json, masquerade as mq
summary = mq.anonymize_job("job.toml").summary
print(json.dumps({each["model"]: each["holds"] for each in summary["requirements"]}))
print(json.dumps([bool(mq.verify_job("release.csv", "job.toml")), bool(mq.verify_job("people.csv", "job.toml"))]))
try:
    mq.anonymize_job("wrong.toml")
except mq.JobError as error:
    print(json.dumps(error.lines))
"""


@pytest.mark.system
def test_the_examples_work_by_job_file_once_they_are_installed(installed: Path, tmp_path: Path) -> None:
    write_csv(tmp_path / "people.csv", PEOPLE)
    (tmp_path / "job.csv").write_text("baker;trade;any\ncook;trade;any\njudge;any\n")
    job = blocks("toml")[1]
    (tmp_path / "job.toml").write_text(job)
    (tmp_path / "wrong.toml").write_text(job.replace("deepest = 2", "deepest = -2\nscore = 1"))
    done = python(installed, tmp_path, "-c", USED)
    assert done.returncode == 0, done.stderr
    models, verified, wrong = map(json.loads, done.stdout.splitlines())
    assert models == {"k-anonymity": True, "no-rare-value": True}
    assert "no-rare-value" in (tmp_path / "report.html").read_text()
    assert verified == [True, False]
    assert wrong == [
        "wrong.toml: algorithm.score: belongs to tds; uniform-depth does without it",
        "wrong.toml: algorithm.deepest: must be a whole number of at least 0; got -2",
    ]


@pytest.mark.system
def test_the_protocol_runs_between_processes_once_it_is_installed(installed: Path, tmp_path: Path) -> None:
    people = {"id": [f"p{number}" for number in range(8)]}
    write_csv(tmp_path / "bank.csv", {**people, "job": PEOPLE["job"]})
    write_csv(tmp_path / "clinic.csv", {**people, "town": PEOPLE["town"]})
    (tmp_path / "job.toml").write_text(
        '[attributes.job]\ntaxonomy = "flat"\n[attributes.town]\ntaxonomy = "flat"\n'
        '[[privacy]]\nmodel = "k-anonymity"\nqid = ["job", "town"]\nk = 8\n[algorithm]\nname = "most-general"\n'
        '[parties.bank]\nsource = "bank.csv"\nid = "id"\n[parties.clinic]\nsource = "clinic.csv"\nid = "id"\n'
    )
    done = python(installed, tmp_path, "-m", "masquerade", "mashup", "job.toml", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["released"], summary["groups"]) == (8, 1)


def write_csv(path: Path, columns: dict[str, list[str]]) -> None:
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *map(",".join, rows)]) + "\n")
