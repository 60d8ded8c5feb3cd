"""Jobs with an engine: on this machine, and on a cluster whose workers come and go."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet
import pytest

import masquerade as mq
from chunked import rows_of, write_parts
from cli.command import answered, here, refused
from dask_cluster import Cluster, cluster
from forked import forked_servers
from masquerade.anonymize import shared_people
from masquerade.data import partitioned_query, write_table
from masquerade.engine import DaskEngine, LocalEngine, cluster as cluster_module
from masquerade.errors import BadInput, ClusterError
from masquerade.jobs import anonymize_job, mashup_job, rows, verify_job

if TYPE_CHECKING:
    from conftest import Postgres

JOB = """
[data]
source = "people"
[attributes.birth_date]
type = "date"
[attributes.town]
taxonomy = "flat"
[attributes.salary]
type = "continuous"
[attributes.education]
[roles]
class = "approved"
sensitive = ["disease"]
identifiers = ["ssn"]
[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "town", "salary"]
k = 10
[[privacy]]
model = "l-diversity"
qid = ["birth_date", "town"]
l = 2
[algorithm]
name = "tds"
"""
QID = 'qid = ["birth_date", "town", "salary"]'
N = 500
PASSWORD = "Zw3i/Herzen@7"  # the fixture's


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("jobs")
    write_parts(mq.generate_people(N, missing=0.01), made / "people")
    return made


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def job(folder: Path, engine: str, name: str = "job.toml") -> Path:
    path = folder / name
    path.write_text(f'{JOB}{engine}\n[output]\ntable = "{path.stem}.parquet"\nreport = "{path.stem}.html"\n')
    return path


def released(folder: Path, name: str) -> Any:
    return rows_of(pyarrow.parquet.read_table(folder / f"{name}.parquet"))


def test_a_folder_gives_the_release_of_one_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an engine a folder is read in chunks, too, and the release is that of one table in memory."""
    written = anonymize_job(job(folder, "", "folder.toml"))
    whole = pa.concat_tables(pyarrow.parquet.read_table(each) for each in sorted((folder / "people").iterdir()))
    pyarrow.parquet.write_table(whole, folder / "people.parquet")
    path = folder / "one.toml"
    path.write_text(JOB.replace('"people"', '"people.parquet"') + '[output]\ntable = "one.parquet"\n')
    one = anonymize_job(path)
    assert released(folder, "folder") == rows_of(one.release.table)
    for name in ("rows", "dropped_rows", "dropped", "groups", "requirements", "steps", "metrics", "released"):
        assert written.summary[name] == one.summary[name]
    report = (folder / "folder.html").read_text()
    assert "Released" in report
    assert sorted(each.name for each in folder.iterdir() if each.name.startswith(".")) == []
    verified = here(capsys, "verify", folder / "folder.parquet", "--job", path, "--json")
    assert (verified.code, verified.json["requirements"]) == (0, one.summary["requirements"])
    path.write_text(path.read_text().replace("k = 10", "k = 250"))
    violated = here(capsys, "verify", folder / "folder.parquet", "--job", path)
    assert violated.code == 1
    assert "does not hold: group (birth_date = " in violated.problems[0]


def test_labels_of_chunks_are_those_of_one_table(tmp_path: Path) -> None:
    table = mq.generate_people(N)
    towns = sorted(set(table.column("town").to_pylist()) - {None})
    rows = [f"{town};{'one' if at % 2 else 'other'} + {len(towns) // 2} more;*" for at, town in enumerate(towns)]
    (tmp_path / "town.csv").write_text("\n".join(rows) + "\n")
    write_parts(table, tmp_path / "people")
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet")
    listed = {}
    for source, release in (("people", "parts.parquet"), ("people.parquet", "one.csv")):
        text = JOB.replace('"people"', f'"{source}"').replace('"flat"', '"town.csv"').replace("k = 10", "k = 60")
        text = text.replace('"birth_date", "town"', '"town"').replace('"town", "salary"', '"town"')
        path = tmp_path / "job.toml"
        path.write_text(f'{text}[output]\ntable = "{release}"\nreport = false\nlabels = ["town"]\n')
        written = anonymize_job(path)
        assert written.labels == tmp_path / f"{Path(release).stem}-labels.csv"
        listed[source] = written.labels.read_text("utf-8").splitlines()
    assert listed["people"] == listed["people.parquet"]
    assert len(listed["people"]) == 1 + len(towns)


@pytest.mark.system
@pytest.mark.parametrize(
    "method", ["tds", "mondrian", "mondrian, provider-aware", "mondrian, workload", "mondrian, several QIDs", "auto"]
)
def test_a_cluster_gives_the_release_of_this_machine(
    method: str, folder: Path, workers: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if method == "mondrian, several QIDs":  # by counts, and then in one memory for each island
        monkeypatch.setattr(DaskEngine, "rows_at_once", lambda *_: 120)
    here_, there = (
        job(folder, engine, name)
        for engine, name in (
            ('[engine]\nmemory = "1GB"', "local.toml"),
            (f'[engine]\nname = "dask"\naddress = "{workers.address}"', "dask.toml"),
        )
    )
    for path in (here_, there):
        path.write_text(changed(path.read_text(), method, folder))
    local = anonymize_job(here_)
    answer = answered(capsys, "anonymize", there, "--json")
    assert released(folder, "dask") == released(folder, "local")
    summary = answer.json
    for name in ("rows", "dropped_rows", "groups", "requirements", "steps", "metrics", "released"):
        assert summary[name] == local.summary[name]


def changed(job: str, method: str, folder: Path) -> str:
    """The job with another method, and but for one over a single QID."""
    if method == "tds":
        return job
    name, _, variant = method.partition(", ")
    job = job.replace('"tds"', f'"{name}"')
    if variant != "several QIDs":
        job = job.replace('qid = ["birth_date", "town"]', QID)
    if variant == "provider-aware":  # with what parts of a group may satisfy, and not the group
        job = job.replace('"l-diversity"', '"t-closeness"').replace("l = 2", "t = 0.7")
        job = job.replace("[roles]", '[roles]\nprovider = "hours"').replace(
            "[algorithm]", '[[privacy]]\nmodel = "m-privacy"\nm = 1\n[algorithm]'
        )
    if variant == "workload":
        log = folder / "queries.sql"
        log.write_text("SELECT * FROM people WHERE salary < 30 AND town = 'Rome' AND disease = 'Flu'")
        job = job.replace('"mondrian"', '"mondrian"\nworkload = "queries.sql"')
    if method == "auto":  # with boundaries, too
        job = job.replace('type = "continuous"', 'type = "continuous"\nmax_width = 60')
    return job


@pytest.mark.system
def test_a_cluster_that_does_not_fit_is_told_in_a_line(
    folder: Path, workers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaskEngine(workers.address) as engine:
        assert engine.dashboard.startswith("http://127.0.0.1:")
        with pytest.raises(ClusterError, match=r"worker tcp://127\.0\.0\.1:\d+ cannot read /nowhere/a\.parquet;"):
            engine.check_files([str(folder / "people" / "part-0.parquet"), "/nowhere/a.parquet"])
    with monkeypatch.context() as patched:
        patched.setattr(cluster_module, "version", lambda name: "0.0.1" if name == "numpy" else "2")
        said = r"worker tcp://127\.0\.0\.1:\d+ has \w+ [\d.]+, and this machine \S+; install the same versions"
        with pytest.raises(ClusterError, match=said):
            DaskEngine(workers.address)


@pytest.mark.system
def test_a_cluster_finds_the_key_that_one_table_has(
    folder: Path, workers: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in (
        [],
        ["--exact"],
        ["--all", "--beta", "0.3", "--max-size", "2"],
        ["--measure", "separation", "--epsilon", "0.1", "--delta", "0.1"],
    ):
        there = here(capsys, "keys", folder / "people", *options, "--engine", workers.address, "--json")
        whole = here(capsys, "keys", folder / "people", *options, "--json")
        assert there.code == 0, there.err
        assert {**there.json, "seconds": None} == {**whole.json, "seconds": None}


@pytest.mark.system
def test_killing_a_worker_half_way_does_not_change_the_release(folder: Path, workers: Cluster) -> None:
    anonymize_job(job(folder, '[engine]\nmemory = "1GB"', "local.toml"))
    path = job(folder, f'[engine]\nname = "dask"\naddress = "{workers.address}"', "killed.toml")
    steps = []

    def kill_at_third(step: object) -> None:
        steps.append(step)
        if len(steps) == 3:
            workers.workers[0].kill()
            workers.workers[0].wait()

    anonymize_job(path, on_step=kill_at_third)
    assert len(steps) > 3
    assert workers.workers[0].poll() is not None
    assert released(folder, "killed") == released(folder, "local")


@pytest.mark.system
def test_a_cluster_without_workers_or_scheduler_is_told_in_a_line(folder: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, workers=0) as empty:
        with pytest.raises(ClusterError, match="the cluster has no worker; start one with `dask worker ADDRESS`"):
            DaskEngine(empty.address, connect=2)
        path = job(folder, f'[engine]\nname = "dask"\naddress = "{empty.address}"', "gone.toml")
    with pytest.raises(ClusterError, match=r"gone\.toml: engine\.address: .*: no Dask scheduler answers there"):
        anonymize_job(path)
    assert not (folder / "gone.parquet").exists()
    assert ClusterError.exit_code == 3


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ('[engine]\nmemory = "4MB"', 'engine.memory: must be a size of at least 512MB, such as "4GB"; got "4MB"'),
        ("[engine]\nmemory = 4", "engine.memory: must be a size"),
        ('[engine]\nname = "spark"', 'engine.name: must be one of "local", "dask"; got "spark"'),
        ('[engine]\nname = "dask"', "engine.address: missing; name the scheduler"),
        ('[engine]\naddress = "tcp://a:1"', 'engine.address: belongs to name = "dask"'),
        ('[engine]\nname = "dask"\naddress = "tcp://a:1"\nmemory = "1GB"', "engine.memory: belongs to"),
        ('[engine]\nmemroy = "4GB"', 'engine.memroy: unknown key (did you mean "memory"?)'),
    ],
)
def test_a_wrong_engine_is_told_in_a_line(folder: Path, engine: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        anonymize_job(job(folder, engine, "wrong.toml"))
    assert [line for line in error.value.lines if said in line]


def test_what_cannot_be_done_in_chunks_says_what_can(folder: Path) -> None:
    path = job(folder, '[engine]\nmemory = "1GB"', "chunks.toml")
    path.write_text(path.read_text().replace('"tds"', '"k-member"').replace("chunks.parquet", "chunks.csv"))
    with pytest.raises(BadInput) as error:
        anonymize_job(path)
    lines = "\n".join(error.value.lines)
    assert (
        '"k-member" needs the whole table in one memory; on chunks of a table there are auto, tds, mondrian, datafly'
        in lines
    )
    assert 'with an engine the release is a folder of Parquet files, such as "release.parquet"' in lines


def test_a_folder_is_read_whole_where_chunks_would_lose_something(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `auto`, which has more methods there; too large, the line says why."""
    path = folder / "shared.toml"
    job = JOB.replace('"tds"', '"auto"')
    path.write_text(f'{job}\n[output]\ntable = "auto.csv"\nreport = false\n')
    anonymize_job(path)
    assert (folder / "auto.csv").is_file()
    monkeypatch.setattr(rows, "DEFAULT_MEMORY", "1KB")
    with pytest.raises(BadInput, match=r'"auto" without an .engine. needs the whole table .*; name an engine'):
        anonymize_job(path)
    path.write_text(path.read_text().replace('"auto"', '"auto"\nmeasure = "classification_error"'))
    with pytest.raises(BadInput, match="and with one: measure: must be on a table in chunks one that"):
        anonymize_job(path)


def test_a_folder_is_read_whole_by_methods_that_need_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is too large: then the line says what would do."""
    path = folder / "whole.toml"
    text = JOB.replace('"tds"', '"k-member"').replace('qid = ["birth_date", "town"]', QID)
    path.write_text(f'{text}\n[output]\ntable = "whole.csv"\nreport = false\n')
    written = anonymize_job(path)
    assert (folder / "whole.csv").is_file()
    assert written.release.settings["algorithm"]["name"] == "k-member"
    monkeypatch.setattr(rows, "DEFAULT_MEMORY", "1KB")
    with pytest.raises(
        BadInput, match=r'"k-member" needs the whole table .* auto, tds, mondrian, datafly; this one takes'
    ):
        anonymize_job(path)


def test_providers_of_a_folder_are_verified_one_file_at_a_time(folder: Path) -> None:
    """Where they are released; a coalition that breaks a group is named."""
    path = job(folder, '[engine]\nmemory = "1GB"', "providers.toml")
    text = changed(path.read_text(), "mondrian, provider-aware", folder)
    kept = text.replace("[output]", "[output]\nkeep_provider = true")
    for written in (text, kept):
        path.write_text(written)
        anonymize_job(path)
        if written == text:
            with pytest.raises(BadInput, match=r"make the release with output\.keep_provider = true"):
                verify_job(folder / "providers.parquet", path)
    found = verify_job(folder / "providers.parquet", path)
    assert found.holds
    assert "m-privacy" in {each.requirement.model for each in found.verdicts}
    path.write_text(kept.replace("m = 1", "m = 9"))
    refused = verify_job(folder / "providers.parquet", path)
    assert not refused.holds
    assert any("without the records of hours" in str(each.violation) for each in refused.verdicts)


@pytest.mark.parametrize("source", ["twice", "twice.csv"])
def test_people_at_several_providers_are_counted(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on one table, with rows that lack an identifier or a used cell; fingerprints in several shares, too."""
    people = mq.generate_people(N, missing=0.01)
    names = people["ssn"].to_pylist()
    twice = [None if at % 50 == 0 else names[at // 2] for at in range(N)]
    people = people.set_column(people.column_names.index("ssn"), "ssn", pa.array(twice))
    if not (folder / "twice").exists():
        write_parts(people, folder / "twice")
        write_table(people, folder / "twice.csv")
    monkeypatch.setattr(shared_people, "_BYTES_PER_PERSON", 1 << 20)
    summaries = []
    for engine, table in (("", "twice.csv"), ('[engine]\nmemory = "1GB"', source)):
        path = job(folder, engine, "shared-people.toml")
        text = changed(path.read_text(), "mondrian, provider-aware", folder).replace('"people"', f'"{table}"')
        path.write_text(text if engine else text.replace("people.parquet", "people.csv"))
        summaries.append(anonymize_job(path).summary)
    memory, chunks = summaries
    for name in ("people_at_several_providers", "dropped", "warnings", "groups_by_providers"):
        assert chunks[name] == memory[name]
    assert memory["people_at_several_providers"] > 100
    assert "hours" in memory["dropped"]


def test_a_csv_file_or_a_query_is_copied_and_read_in_chunks(folder: Path) -> None:
    """Errors name the source, not the copy; a cluster refuses both."""
    people = mq.generate_people(N, missing=0.01)
    write_table(people, folder / "people.csv")
    with closing(sqlite3.connect(folder / "people.db")) as database:
        at = people.column_names.index("birth_date")
        texts = people.set_column(at, "birth_date", people["birth_date"].cast(pa.string()))
        texts.to_pandas().to_sql("people", database, index=False)
    anonymize_job(job(folder, "", "folder.toml"))
    sources = {"csv": '"people.csv"', "sql": '"sqlite:///people.db"\nquery = "SELECT * FROM people"'}
    for name, source in sources.items():
        path = job(folder, '[engine]\nmemory = "1GB"', f"{name}.toml")
        path.write_text(path.read_text().replace('"people"', source))
        written = anonymize_job(path)
        assert written.release.dropped == ("ssn", "name", "sex", "job", "hours", "children")
        assert cells(folder, name) == cells(folder, "folder")
    text = path.read_text()
    path.write_text(text.replace('taxonomy = "flat"', 'taxonomy = "towns.csv"'))
    (folder / "towns.csv").write_text("Nowhere;*\nElsewhere;*\n")
    with pytest.raises(BadInput, match=r"people\.db: row 1, column town: .* is no leaf"):
        anonymize_job(path)
    path.write_text(text.replace('memory = "1GB"', 'name = "dask"\naddress = "tcp://127.0.0.1:1"'))
    with pytest.raises(BadInput, match=r"data\.partition: missing; name a column that tells all rows apart"):
        anonymize_job(path)
    path.write_text(path.read_text().replace(sources["sql"], sources["csv"]))
    with pytest.raises(BadInput, match=r"data\.source: a cluster reads Parquet where it lies"):
        anonymize_job(path)


@pytest.mark.system
def test_workers_read_ranges_of_a_query_themselves(folder: Path, workers: Cluster, postgres: Postgres) -> None:
    """From PostgreSQL and from a file of SQLite, by numbers and by texts; as the rows in Parquet are released."""
    people = mq.generate_people(N, missing=0.01)
    numbered = people.append_column("number", [pa.array(range(0, 7 * N, 7))])
    anonymize_job(job(folder, "", "folder.toml"))
    at = people.column_names.index("birth_date")
    texts = numbered.set_column(at, "birth_date", numbered["birth_date"].cast(pa.string())).to_pandas()
    with closing(sqlite3.connect(folder / "ranges.db")) as database:
        texts.to_sql("people", database, index=False)
    write_table(numbered, folder / "numbered.csv")
    postgres.sql(
        "DROP TABLE IF EXISTS ranges; CREATE TABLE ranges (ssn text, name text, birth_date date, sex text, town text, "
        "job text, education text, hours int, salary float, children int, disease text, approved text, number bigint)"
    )
    postgres.sql(f"\\copy ranges FROM '{folder / 'numbered.csv'}' CSV HEADER NULL ''")
    postgres.sql("GRANT SELECT ON ranges TO PUBLIC")
    sources = {"sqlite": ("sqlite:///ranges.db", "people", "ssn"), "postgresql": (postgres.trusted, "ranges", "number")}
    for name, (url, table, key) in sources.items():
        path = job(folder, f'[engine]\nname = "dask"\naddress = "{workers.address}"', f"{name}.toml")
        source = f'"{url}"\nquery = "SELECT * FROM {table} -- all"\npartition = "{key}"'
        path.write_text(path.read_text().replace('"people"', source))
        written = anonymize_job(path)
        assert cells(folder, name) == cells(folder, "folder")
        assert written.summary["released"] == pyarrow.parquet.read_table(folder / "folder.parquet").num_rows
        text = path.read_text()
        path.write_text(text.replace(f'partition = "{key}"', 'partition = "town"'))
        with pytest.raises(BadInput, match=r"data\.partition: column town must have another value in every row"):
            anonymize_job(path)
        path.write_text(text.replace(f'partition = "{key}"', 'partition = "salary"'))
        with pytest.raises(BadInput, match=r"data\.partition: column salary is of type double; it must hold"):
            anonymize_job(path)


SECRET = """
[data]
source = "URL"
query = "SELECT * FROM towns"
partition = "number"
[attributes.town]
taxonomy = "flat"
[[privacy]]
model = "k-anonymity"
qid = ["town"]
k = 5
[algorithm]
name = "tds"
[engine]
name = "dask"
address = "ADDRESS"
[output]
table = "secret.parquet"
report = "secret.html"
"""


@pytest.mark.system
def test_a_password_is_shown_nowhere_on_a_cluster(
    folder: Path,
    tmp_path: Path,
    postgres: Postgres,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In no log, task name, error or output; and where the URL names a variable, it does not travel at all."""
    postgres.sql(
        "DROP TABLE IF EXISTS towns; CREATE TABLE towns AS SELECT i AS number, 'town ' || i % 3 AS town "
        "FROM generate_series(1, 90) AS i; GRANT SELECT ON towns TO steward"
    )
    monkeypatch.setenv("REGISTER_PASSWORD", PASSWORD)
    written = quote(PASSWORD, safe="")
    urls = [postgres.as_steward(each) for each in ("${REGISTER_PASSWORD}", written)]
    (folder / "towns.csv").write_text("Nowhere;*\nElsewhere;*\n")
    path, said = folder / "secret.toml", []
    with cluster(tmp_path, workers=1) as started:
        for url in urls:
            path.write_text(SECRET.replace("URL", url).replace("ADDRESS", started.address))
            done = answered(capsys, "anonymize", path)
            said += [done.out, done.err, (folder / "secret.html").read_text()]
        path.write_text(path.read_text().replace('"flat"', '"towns.csv"'))
        failed = here(capsys, "anonymize", path)
        assert (failed.code, "is no leaf of taxonomy" in failed.problems[0]) == (2, True)
        with DaskEngine(started.address) as engine:
            # What the dashboard and the scheduler's logs are made of: keys, states, who did what and why.
            seen = engine.client.run_on_scheduler(
                lambda dask_scheduler: repr([*dask_scheduler.transition_log, *dask_scheduler.task_prefixes])
            )
    log = (tmp_path / "cluster.log").read_text()
    assert "ReadPart-" in seen
    assert "Compute Failed" in log, "a worker that fails says so, with its task"
    for each in (*said, seen, log, failed.out, failed.err):
        assert PASSWORD not in each
        assert written not in each
    named, plain = (
        pickle.dumps(partitioned_query(url, "SELECT * FROM towns", folder, "number").parts(40)) for url in urls
    )
    assert written.encode() in plain
    assert written.encode() not in named


def test_rows_that_come_while_ranges_are_read_are_noticed(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE people (id INTEGER, town TEXT, mixed)")
        rows = [(3 * at, f"town {at % 4}", at if at < 8 else "x") for at in range(10)]
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        database.commit()
        found = partitioned_query("sqlite:///people.db", "SELECT * FROM people;", tmp_path, "id", ["town"])
        parts = found.parts(4)
        assert [part.rows for part in parts] == [4, 3, 3]
        assert [part.read(["id"])["id"].to_pylist() for part in parts] == [[0, 3, 6, 9], [12, 15, 18], [21, 24, 27]]
        assert "people.db" not in repr(parts[0])
        database.execute("INSERT INTO people VALUES (4, 'town 1', 0)")
        database.commit()
        with pytest.raises(BadInput, match="rows came or went while the query's result was in use"):
            parts[0].read(["town"])
    with pytest.raises(BadInput, match=r'the query begins with "DELETE"; allowed are SELECT'):
        partitioned_query("sqlite:///people.db", "DELETE FROM people", tmp_path, "id")
    wrong = job(folder, "", "partition.toml")
    wrong.write_text(wrong.read_text().replace('"people"', '"people"\npartition = "ssn"'))
    with pytest.raises(BadInput, match=r"data\.partition: belongs to a database"):
        anonymize_job(wrong)


def cells(folder: Path, name: str) -> Any:
    """The generalised cells, which are text whatever the source."""
    table = pyarrow.parquet.read_table(folder / f"{name}.parquet", columns=["birth_date", "town", "salary"])
    return rows_of(table)


PARTIES = """
[parties.bank]
source = "bank.parquet"
id = "ssn"
[parties.clinic]
source = "clinic.csv"
id = "ssn"
attributes = ["town", "disease", "approved"]
[attributes.birth_date]
type = "date"
[attributes.town]
taxonomy = "flat"
[attributes.salary]
type = "continuous"
[roles]
class = "approved"
sensitive = ["disease"]
[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "town", "salary"]
k = 10
[algorithm]
name = "tds"
argmax = "plain"
"""


def mashup_of(folder: Path, engine: str, name: str) -> Path:
    people = mq.generate_people(N, missing=0)
    if not (folder / "bank.parquet").exists():
        pyarrow.parquet.write_table(people.select(["ssn", "birth_date", "salary"]), folder / "bank.parquet")
        write_table(people.select(["ssn", "town", "disease", "approved"]), folder / "clinic.csv")
    path = folder / name
    path.write_text(f'{PARTIES}{engine}\n[output]\ntable = "{path.stem}.csv"\nreport = false\n')
    return path


@pytest.mark.system
def test_a_party_may_be_a_cluster(folder: Path, tmp_path: Path) -> None:
    """Each party counts its groups on the engine, and the release is that of parties that count by themselves."""
    with forked_servers(), cluster(tmp_path) as started:
        alone = mashup_job(mashup_of(folder, "", "alone.toml"))
        chunks, whole = "the table was read in chunks", "the whole table was read into one memory: a cluster"
        for name, engine, clinic in (
            ("threads.toml", '[engine]\nmemory = "1GB"', chunks),
            ("workers.toml", f'[engine]\nname = "dask"\naddress = "{started.address}"', whole),
        ):
            written = mashup_job(mashup_of(folder, engine, name))
            assert written.summary["engine"]["bank"] == chunks
            assert written.summary["engine"]["clinic"].startswith(clinic)
            assert rows_of(written.release.table) == rows_of(alone.release.table)
            assert written.summary["steps"] == alone.summary["steps"]
            assert written.summary["messages"] == alone.summary["messages"]
        alone = mashup_job(by_mondrian(mashup_of(folder, "", "alone.toml")))
        engine = f'[engine]\nname = "dask"\naddress = "{started.address}"'
        written = mashup_job(by_mondrian(mashup_of(folder, engine, "workers.toml")))
        assert rows_of(written.release.table) == rows_of(alone.release.table)
        assert "engine" not in alone.summary
        assert written.summary["groups"] == alone.summary["groups"] > 10
        path = mashup_of(folder, '[engine]\nname = "dask"\naddress = "tcp://127.0.0.1:1"', "nobody.toml")
        with pytest.raises(ClusterError, match=r"engine\.address: .*: no Dask scheduler answers there"):
            mashup_job(path)


def by_mondrian(path: Path) -> Path:
    path.write_text(path.read_text().replace('name = "tds"\nargmax = "plain"', 'name = "mondrian"'))
    return path


SHARED = """
[[privacy]]
model = "k-anonymity"
qid = ["town", "disease"]
k = 12
"""


@pytest.mark.parametrize(
    ("method", "privacy", "said"),
    [
        ('name = "dka"', "", "engine: by dka each party counts in its own memory; tds and mondrian count on"),
        ("", "", "engine: a method that is chosen may count in each party's own memory; tds and mondrian"),
        (
            'name = "mondrian"',
            SHARED,
            "engine: by mondrian each party cuts QIDs that share attributes in its own memory; tds counts them",
        ),
    ],
)
def test_an_engine_of_parties_is_for_methods_that_count_there(
    folder: Path, method: str, privacy: str, said: str
) -> None:
    """By another method it would be ignored; so it is refused."""
    path = mashup_of(folder, f'{privacy}[engine]\nmemory = "1GB"', "other.toml")
    text = path.read_text().replace('name = "tds"\nargmax = "plain"', method)
    path.write_text(text.replace("[attributes.town]", "[attributes.disease]\n[attributes.town]"))
    with pytest.raises(BadInput) as refused:
        mashup_job(path)
    assert said in "\n".join(refused.value.lines)


@pytest.mark.parametrize("method", ["tds", "mondrian, workload"])
def test_a_release_larger_than_memory_is_evaluated_by_counts(
    method: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each figure is that of both tables in one memory; what counts do not tell is left out, or refused."""
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 70)
    path = job(folder, '[engine]\nmemory = "1GB"', "measured.toml")
    text = changed(path.read_text(), method, folder).replace("[output]", '[output]\norder = "input"')
    if method == "tds":  # rows that lack a sensitive cell are left out even if no requirement looks at it
        text = text.replace('"l-diversity"', '"k-anonymity"').replace("l = 2", "k = 12")
    path.write_text(text)
    anonymize_job(path)
    asked = ("evaluate", folder / "people", folder / "measured.parquet", "--job", path, "--json")
    whole = here(capsys, *asked, "--queries", "0", "--folds", "0").json
    monkeypatch.setattr(rows, "_IN_MEMORY", 1 << 20)  # as if it took terabytes
    counted = answered(capsys, *asked)
    attacks = {(each["name"], each.get("attribute")): each["value"] for each in whole.pop("attacks")}
    summary = counted.json
    found = {(each["name"], each.get("attribute")): each["value"] for each in summary.pop("attacks")}
    assert found == {name: attacks[name] for name in found}
    assert {("prosecutor", None), ("marketer", None), ("homogeneity", "approved")} <= found.keys()
    assert (("homogeneity", "disease") in found) == (method != "tds")
    assert summary.pop("left_out") == ["query_error", "classification", "accuracy"]
    assert summary == whole
    assert ("selection" in whole) == ("workload" in method)
    problems = refused(capsys, *asked, "--clusters", "3")
    assert "clusters parameter of evaluate needs all rows in one memory" in problems[0]
    shutil.rmtree(folder / "another", ignore_errors=True)
    write_parts(mq.generate_people(N, missing=0.01).take(pa.array(range(N - 1, -1, -1))), folder / "another")
    problems = refused(capsys, "evaluate", folder / "another", *asked[2:])
    assert "is this release in input order" in problems[0]
    assert "part-" in problems[0]


@pytest.mark.parametrize("method", ["tds", "mondrian, provider-aware"])
def test_a_release_larger_than_memory_is_attacked_by_counts(
    method: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By those who need no other table, with what they get of the release in one memory; others are refused."""
    path = job(folder, '[engine]\nmemory = "1GB"', "attacked.toml")
    text = changed(path.read_text(), method, folder)
    path.write_text(text.replace("[output]", "[output]\nkeep_provider = true") if "provider" in method else text)
    anonymize_job(path)
    asked = ("attack", folder / "attacked.parquet", "--job", path, "--json")
    whole = here(capsys, *asked).json["attacks"]
    monkeypatch.setattr(rows, "_IN_MEMORY", 1 << 20)  # as if it took terabytes
    counted = answered(capsys, *asked)
    assert [(each["name"], each["value"]) for each in counted.json["attacks"]] == [
        (each["name"], each["value"]) for each in whole
    ]
    assert ("subtraction" in {each["name"] for each in whole}) == ("provider" in method)
    problems = refused(capsys, *asked, "--original", folder / "people")
    assert "original parameter of attack needs all rows in one memory" in problems[0]
    assert "data.source: compare needs the whole table in one memory" in refused(capsys, "compare", path)[0]
