"""The bench command and what the experiments share. Nothing here is timed: `make bench` does that."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import masquerade as mq
from forked import forked_servers
from masquerade.cli import bench
from masquerade.cli.app import command_line
from masquerade.errors import ParameterError
from masquerade.jobs import anonymize_job

pytestmark = pytest.mark.system

EXPERIMENTS = bench.find_experiments()
FOLDER = Path(__file__).parents[2] / "benchmarks"
DATA = Path(__file__).parents[2] / "../shared/data/adult"
needs_adult = pytest.mark.skipif(
    not (DATA / "adult.data").exists(), reason="no ../shared/data/adult beside the checkout"
)


EXPERIMENT_NAMES = """
adult align chunked_mondrian circuits collaborate dka faults figure_12 figures_10_11 five_million games
genetic keys learning m_privacy_anonymization m_privacy_fitness m_privacy_shares m_privacy_verification
boundaries constrained mashup messages mondrian one_path papers party_engine party_memory peers primitives
purpose readers recoding scale scale_parties scores service survival verify_sql ssi startup
"""


def load(name: str) -> ModuleType:
    """An experiment, or a file that they share."""
    return bench._load(name, FOLDER / f"{name}.py")


def test_list_names_every_experiment() -> None:
    shown = CliRunner().invoke(command_line(), ["bench", "--list", "--json"])
    listed = json.loads(shown.stdout)
    assert set(listed) == set(EXPERIMENT_NAMES.split())
    assert all(len(description) > 20 for description in listed.values())
    assert listed["peers"] == bench.describe(EXPERIMENTS["peers"])


@pytest.mark.parametrize("change", ["runs", "runs=", "runs=-1", "runs=many", "walks=3", "_patience=3"])
def test_only_an_experiments_own_numbers_can_be_set(change: str) -> None:
    with pytest.raises(ParameterError, match=rf"--set {change}: faults lets you set .*runs=N.*seed=N"):
        bench.run("faults", EXPERIMENTS["faults"], None, [change])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_take_say_and_save(name: str) -> None:
    first, second, *options = inspect.signature(load(name).run).parameters
    assert (first, second) == ("say", "save")
    assert set(options) <= {"paper", "quick"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["adullt"], 'bench: no experiment "adullt" (did you mean "adult"?); there are adult, align'),
        ([], "bench: name an experiment; there are adult"),
    ],
)
def test_unknown_experiment_is_bad_input(words: list[str], problem: str) -> None:
    ran = subprocess.run(
        [Path(sys.executable).with_name("masquerade"), "bench", *words], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith(f"error: {problem}")
    assert ran.stderr.count("\n") == 1


def test_runs_an_experiment_and_keeps_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tiny.py"
    path.write_text(
        '"""People of two ages."""\n'
        "from __future__ import annotations\n"
        "from dataclasses import asdict, dataclass\n"
        "import pyarrow as pa\n"
        "import masquerade as mq\n"
        "@dataclass\n"
        "class Found:\n"
        "    groups: int\n"
        "def run(say, save):\n"
        "    table = mq.Table(pa.table({'age': [30, 30, 40, 40, 40]}))\n"
        "    release = mq.anonymize(table, mq.KAnonymity(['age'], k=2))\n"
        "    say('anonymised')\n"
        "    return asdict(Found(int(release.group_sizes.size)))\n"
    )
    figures = bench.run("tiny", path, tmp_path / "kept")
    assert figures == {"groups": 2}
    assert json.loads((tmp_path / "kept/tiny.json").read_text()) == figures
    shown = capsys.readouterr()
    assert shown.err == "== tiny: People of two ages.\nanonymised\n"
    assert shown.out == ""


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    path = tmp_path / "needy.py"
    path.write_text('"""Needs what nobody has."""\nimport a_library_that_nobody_has\n')
    with pytest.raises(ParameterError, match=r"needy needs a_library_that_nobody_has.*make bench"):
        bench.run("needy", path, None)


def test_missing_data_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    adult = load("_adult")
    monkeypatch.setattr(adult._data, "_root", tmp_path)
    with pytest.raises(ParameterError, match=r"adult\.data is missing.*shared/data/adult"):
        adult.adult()


def test_missing_rival_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    peers = load("peers")
    monkeypatch.setattr(peers, "ANJANA", tmp_path / "python")
    with pytest.raises(ParameterError, match=r"\.venv-anjana.*make bench"):
        peers.run(lambda _: None, None)


def test_a_written_job_runs(tmp_path: Path) -> None:
    adult = load("_adult")
    random = np.random.default_rng(7)
    people = {"age": random.integers(17, 90, 400), "hours-per-week": random.integers(1, 99, 400)}
    table = pa.table({**people, "income": np.where(people["age"] > 40, ">50K", "<=50K")})
    source = adult.write_csv(table, tmp_path / "people.csv")
    assert pd.read_csv(source).columns.tolist() == ["age", "hours-per-week", "income"]
    written = anonymize_job(adult.write_job(source, ["age"], 20, ["age", "hours-per-week"]))
    assert written.report is None
    assert written.release.group_sizes.min() >= 20
    assert written.release.steps[0].children == ("[-inf, 41)", "[41, inf)")


@needs_adult
def test_adult_is_the_papers() -> None:
    adult = load("_adult")
    table = adult.adult()
    assert table.num_rows == 45_222
    assert set(table["income"].to_pylist()) == {"<=50K", ">50K"}
    assert table.slice(adult.TRAINING_RECORDS - 1, 2)["age"].to_pylist() == ["52", "25"]  # last of data, first of test
    assert adult.schema().names == adult.ALL14


def test_multi_qid_requirements() -> None:
    figure = load("figure_12")
    drawn = list(figure.random_requirements())
    assert len(drawn) == 30
    for requirement in drawn:
        qids = {frozenset(part.qid) for part in requirement.parts}
        assert 3 <= len(qids) == len(requirement.parts) <= 7
        (length,) = {len(qid) for qid in qids}
        assert 2 <= length <= 9
    assert len({len(requirement.parts) for requirement in drawn}) > 3
    assert [str(each) for each in drawn] == [str(each) for each in figure.random_requirements()]


@needs_adult
def test_the_rivals_penalty_by_our_metric() -> None:
    peers = load("peers")
    schema = mq.Schema(
        mq.Attribute(name, "categorical", mq.read_taxonomy(peers._hierarchy(name))) for name in peers.QID
    )
    records = peers._adult.adult().select(list(peers.QID)).slice(0, 4)
    original = mq.Table(records, schema)
    raw = records.to_pandas().assign(row=["0", "1", "2", "3"])
    general = raw.assign(**dict.fromkeys(peers.QID, "*"))
    half = raw.iloc[:2].assign(sex="*")
    for published, penalty, suppressed in ((raw, 0, 0), (general, 1, 0), (half, (2 * 1 / 8 + 2) / 4, 2)):
        found = peers.compared(original, published)
        assert (peers.measure(found)["ncp"], found.suppressed) == (penalty, suppressed)


def test_calls_take_turns_after_a_warm_up() -> None:
    figures = load("_figures")
    heard = []

    def call(name: str, seconds: float) -> dict[str, float]:
        heard.append(name)
        return {"part": seconds + len(heard)}

    spent = figures.in_turn({"a": lambda: call("a", 10), "b": lambda: call("b", 20)}, repeats=3)
    assert heard == ["a", "b"] * 4
    assert (spent["a"]["part"].best, spent["a"]["part"].median) == (13, 15)
    assert (spent["b"]["part"].best, spent["b"]["part"].median) == (24, 26)


def test_the_table_says_what_was_missed() -> None:
    figures = load("_figures")
    said: list[str] = []
    rows = [figures.Figure("fast", "1 ms", "3 ms", "0.33", "under 2 ms", True)]
    rows += [figures.Figure("slow", "9 ms", "3 ms", "3.00", "under 2 ms", False), figures.Figure("other", "5 ms")]
    told = figures.tell(said.append, rows)
    assert [line.split()[0] for line in said] == ["measured", "fast", "slow", "other"]
    assert [line.endswith("NOT MET") for line in said] == [False, False, True, False]
    assert [each["met"] for each in told] == [True, False, None]


def test_peak_memory_is_the_commands_own() -> None:
    program = "text = b'x' * (200 << 20); print(len(text))"
    ran = subprocess.run(
        [sys.executable, FOLDER / "_peak.py", sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    measured = json.loads(ran.stdout)
    assert measured["output"] == f"{200 << 20}\n"
    assert 200 << 20 < measured["peak_bytes"] < 300 << 20


def test_a_small_crowd_is_served_or_refused_for_a_reason(tmp_path: Path) -> None:
    """The load experiment in small: real processes, all requests at once."""
    crowd, service = load("_service"), load("service")
    asked = crowd.Crowd(parties=3, people=300, users=2, requests=9, kinds=7)
    wishes = crowd.requests(asked)
    assert len(wishes) == 9
    assert len({json.dumps(each) for each in wishes}) == 7
    unwelcome = [each for each in wishes if each["purpose"] == "marketing" and "disease" in each["attributes"]]
    poor = [each for each in wishes if each["budget"] < 200 and "salary" in each["attributes"]]
    with forked_servers():
        told = service.outcome(crowd.run_crowd(tmp_path, asked))
    assert told["failures"] == []
    assert told["refused"] == len([*unwelcome, *poor]) > 0
    assert told["published"] + told["refused"] == told["requests"] == 9
    assert told["refused_without_reason"] == 0
    assert told["again_from_cache"] == told["again"] == 2
    assert len(told["seconds_to_publication"]) == told["published"]
    assert told["bytes_sent"] > 0
    assert all(peak > 10 << 20 for peak in told["peaks"].values())


@needs_adult
def test_two_parties_make_the_steps_of_figure_9(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment asserts that they are one table's."""
    genetic = load("genetic")
    monkeypatch.setattr(genetic, "KS", (20,))
    training = genetic._adult.adult().select([*genetic.QID, genetic._adult.CLASS]).slice(0, 200)
    table = mq.Table(training, genetic._adult.schema(genetic.QID))
    ((k, (steps, seconds)),) = genetic._parties(training, table)
    assert (k, steps > 1, seconds > 0) == (20, True, True)


@needs_adult
def test_figure_12_runs_on_fewer_records_than_adult_has() -> None:
    people = load("scale_parties").people
    original = load("_adult").adult()
    assert people(original, 100).equals(original.slice(0, 100))
    assert people(original, original.num_rows + 10).num_rows == original.num_rows + 10


@needs_adult
def test_dka_has_the_hierarchies_of_the_papers_table_4(tmp_path: Path) -> None:
    dka = load("dka")
    schema = dka.paper_schema(dka.NAMES)
    assert {each.name: each.taxonomy.height for each in schema} == dka.HEIGHTS
    assert len(schema["native-country"].taxonomy.leaves) == 41
    records = pa.table({name: [schema[name].taxonomy.leaves[0]] * 4 for name in dka.NAMES})
    dka._job(records, tmp_path, 2)
    assert mq.read_taxonomy(tmp_path / "native-country.csv").root == schema["native-country"].taxonomy.root


@needs_adult
def test_dka_counts_what_the_papers_protocol_would_encrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 5 in small: the first round tests everybody, later ones who is left."""
    dka = load("dka")
    monkeypatch.setattr(dka, "PRECISION_KS", (20,))
    monkeypatch.setattr(dka, "SPLITS", (4,))
    monkeypatch.setattr(dka, "PARTITIONINGS", 2)
    monkeypatch.setattr(dka, "PAPER_WORK", {20: dka.PAPER_WORK[20]})
    (found,) = dka._precisions(dka._adult.adult().slice(0, 300))
    assert all(1 < work < 12 for work in found.work)
    (figure,) = dka._work_figures([found])
    assert figure.reference == "paper 1.53 (1.07 to 1.75)"


def test_the_set_intersection_is_measured_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """In small: the experiment asserts its own answers, and every way is told with its bytes."""
    ssi = load("ssi")
    monkeypatch.setattr(ssi, "DOMAIN", 24)
    monkeypatch.setattr(ssi, "K", 4)
    told = {each["what"]: each for each in ssi.run(lambda _: None, None)["figures"]}
    assert told["Algorithm 2, Okamoto–Uchiyama: P1's 24 encryptions"]["reference"].startswith("paper 0.0 s")
    assert {"Algorithm 2, Paillier: P2", "Algorithm 8: both parties"} <= told.keys()
    assert sum(what.endswith("sent by both") for what in told) == 4
    everybody, nobody = np.ones((2, 24), np.uint8), np.zeros((2, 24), np.uint8)
    assert ssi.one_test(everybody).sent == ssi.one_test(nobody).sent  # on either side of the threshold


def test_the_genetic_search_keeps_k_and_finds_the_cut_that_tells_the_classes_apart() -> None:
    """Income follows the job alone; two records of a rare job are left out, or hidden among others."""
    jobs = ["cook"] * 6 + ["judge"] * 6 + ["smith"] * 2
    ages = [str(20 + at % 5) for at in range(14)]
    rows = {"age": ages, "job": jobs, "income": ["low"] * 6 + ["high"] * 6 + ["low"] * 2}
    meaning = mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("job", taxonomy="flat")])
    table = mq.Table(pa.table(rows), meaning)
    search = load("_genetic").Search(table.columns(["age", "job"]), table.coded("income"), 3, "classification", 7)
    outcome = search.run(200)
    cells = list(zip(*(column.to_arrow().to_pylist() for column in outcome.columns), strict=True))
    assert min(cells.count(each) for each in cells) >= 3
    assert outcome.kept.size == len(cells)
    assert {job for _, job in cells} == {"cook", "judge"}
    nothing = np.zeros(search._genome.size, bool)
    assert search.cost(nothing) == pytest.approx(6 / 14)  # one group, in which eight of fourteen are right


@needs_adult
def test_no_recoding_is_below_the_bound_of_its_table() -> None:
    """One measure on one table; a larger table has a lower bound."""
    recoding, adult = load("recoding"), load("_adult").adult().select(load("recoding").QID)
    bounds = []
    for rows in (400, 1200):
        table = mq.Table(adult.slice(0, rows), recoding.arx_schema())
        bounds.append(recoding.lower_bounds(table))
        for k, bound in bounds[-1].items():
            for method in (mq.CheapestBox(), mq.Mondrian()):
                penalty = mq.anonymize(table, mq.KAnonymity(recoding.QID, k), method).metrics["ncp"]
                assert penalty is not None
                assert 0 < bound <= penalty
    assert all(bounds[1][k] < bounds[0][k] for k in recoding.KS)
