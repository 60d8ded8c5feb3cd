"""The public surface is a tested fact: names, their documentation, `mq.anonymize` in both of its parts, types."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import masquerade as mq


def test_dir_is_all() -> None:
    assert dir(mq) == sorted([*mq.__all__, "__version__"])
    assert len(set(mq.__all__)) == len(mq.__all__)
    assert {"Table", "anonymize", "evaluate", "read", "verify"} <= set(mq.__all__)


@pytest.mark.parametrize("name", mq.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    member = getattr(mq, name)
    assert callable(member)
    documentation = inspect.getdoc(member)
    assert documentation
    assert len(documentation) > 10
    if inspect.isclass(member):  # else the documentation might be a dataclass's bare signature
        assert not documentation.startswith(f"{name}(")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="anonymise"):
        _ = mq.anonymise  # type: ignore[attr-defined]


def test_star_import() -> None:
    names: dict[str, object] = {}
    exec("from masquerade import *", names)
    assert set(names) - {"__builtins__"} == set(mq.__all__)


def test_anonymize_shows_the_functions_face() -> None:
    from masquerade.jobs import anonymize

    assert inspect.signature(mq.anonymize) == inspect.signature(anonymize)
    parameters = list(inspect.signature(mq.anonymize).parameters)
    assert parameters[:3] == ["frame", "requirement", "algorithm"]
    assert "requirement" in pydoc.plain(pydoc.render_doc(mq.anonymize))
    assert "Make a release" in pydoc.plain(pydoc.render_doc(mq.anonymize))


BOTH_PARTS = """
    import masquerade as mq
    import pyarrow as pa
    frame = pa.table({"age": [1, 2, 3, 4]})

    def works():
        return mq.anonymize(frame, mq.KAnonymity(["age"], k=2)).summary["released"] == 4

    assert works()
    import masquerade.anonymize.tds.method
    assert works()
    from masquerade.anonymize.tds.method import TopDownSpecialization
    import masquerade.anonymize.tds.method as tds
    assert tds.TopDownSpecialization is TopDownSpecialization is mq.TopDownSpecialization
    from masquerade import anonymize
    assert works() and anonymize is mq.anonymize
"""
ROOM_FIRST = """
    import masquerade.anonymize.tds.method
    import masquerade as mq
    import pyarrow as pa
    assert mq.anonymize(pa.table({"age": [1, 2]}), mq.KAnonymity(["age"], k=2)).summary["released"] == 2
"""
CLIENT = """
    import sys
    import masquerade as mq
    assert not {"httpx", "ssl", "masquerade.client"} & set(sys.modules)
    assert mq.Client.__name__ == "Client" and mq.AsyncClient.__name__ == "AsyncClient"
    assert not {"httpx", "masquerade.service.agree.request"} & set(sys.modules)
"""
LIGHT = """
    import sys
    import masquerade.cli.app
    heavy = {"numpy", "pyarrow", "pydantic", "sklearn", "jinja2", "pandas", "httpx", "msgspec"} & set(sys.modules)
    assert not heavy, heavy
    assert not [name for name in sys.modules if name.startswith("masquerade.") and name not in (
        "masquerade.anonymize", "masquerade.cli", "masquerade.cli.app", "masquerade.cli.output", "masquerade.errors",
        "masquerade.jobs", "masquerade.jobs.without_pandas",
    )]
"""
# A table is anonymised faster than these are loaded: other methods, what parties need, other formats, the report.
NEEDED_ALONE = """
    import sys, tempfile
    from pathlib import Path
    import masquerade.cli.app as cli

    folder = Path(tempfile.mkdtemp())
    (folder / "people.csv").write_text("age,class\\n30,a\\n31,b\\n")
    job = folder / "job.toml"
    job.write_text('''
        [data]
        source = "people.csv"
        [attributes.age]
        type = "continuous"
        [roles]
        class = "class"
        [[privacy]]
        model = "k-anonymity"
        qid = ["age"]
        k = 2
        [algorithm]
        name = "tds"
        [output]
        report = false
    ''')
    cli.prepare()
    sys.argv = ["masquerade", "anonymize", str(job), "--json"]
    assert cli.run() == 0
    assert "masquerade.anonymize.tds.method" in sys.modules
    loaded = {".".join(name.split(".")[:3]) for name in sys.modules} | set(sys.modules)
    unneeded = {
        "pandas", "yaml", "jinja2", "rich", "sklearn", "scipy", "asyncio", "ssl", "nacl", "cryptography",
        "pyarrow.parquet", "pyarrow.dataset",
    }
    rooms = {f"masquerade.{name}" for name in (
        "anonymize.mondrian", "anonymize.datafly", "anonymize.auto", "audit", "crypto",
        "data.query_log", "jobs.evaluate", "jobs.learning", "jobs.one_table", "jobs.parties", "jobs.processes",
        "jobs.verifying", "methods.between_parties", "methods.one_table", "net", "privacy.l_diversity",
        "privacy.m_privacy.requirement", "privacy.m_privacy.strategies", "privacy.sql", "protocol", "report", "risk",
        "service", "utility.queries", "utility.workload",
    )}
    assert not (unneeded | rooms) & loaded, (unneeded | rooms) & loaded
    commands = {name.removeprefix("masquerade.cli.") for name in loaded if name.startswith("masquerade.cli.")}
    assert commands == {"anonymize", "app", "output", "table_options"}, commands
"""


@pytest.mark.parametrize(
    "script",
    [BOTH_PARTS, ROOM_FIRST, CLIENT, LIGHT, NEEDED_ALONE],
    ids=["function first", "room first", "client", "light", "only what is needed"],
)
@pytest.mark.system
def test_imports_in_a_process_of_their_own(script: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(script)], check=True)


USER_SCRIPT = """
    from pathlib import Path

    import masquerade as mq

    table: mq.Table = mq.read("adult.csv", taxonomies="taxonomies/", identifiers=["ssn"])
    requirement = mq.KAnonymity(["age", "job"], k=50) & mq.LDiversity(["age"], 2, sensitive="disease")
    release: mq.Release = mq.anonymize(table, requirement, algorithm=mq.TopDownSpecialization(target="income"))
    released: int = release.summary["released"]
    release.report("report.html")
    release.report(Path("report.html"))
    holds: bool = mq.verify(release.table, requirement).holds
    worth = mq.evaluate(table, release.table, requirement, "income", train=100)
    written = mq.anonymize_job("job.toml")
    print(holds, released, worth["metrics"], written.table.name)
    try:
        mq.verify_job("release.csv", "job.toml").insist()
    except mq.RequirementViolated as error:
        print(error.lines[0].upper())

    with mq.Client("https://coordinator.example", "token", ca=Path("web.pem")) as client:
        session = client.request({"purpose": "research", "attributes": ["age"]})
        for event in client.watch(session.id):
            print(event.number, event.kind.upper())
        rows: int = client.download(session.id, "release.csv").rows

    async def asynchronous(client: mq.AsyncClient) -> str:
        async for event in client.watch("5e" * 16):
            print(event.data)
        return (await client.wait("5e" * 16)).status
"""


def test_a_users_script_passes_strict_mypy(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(USER_SCRIPT))
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\n[mypy-pyarrow.*]\nignore_missing_imports = True\n")
    cache = Path(__file__).parents[1] / ".mypy_cache" / "user-script"
    found = api.run(["--config-file", str(config), "--cache-dir", str(cache), str(script)])
    assert found[2] == 0, found[0] + found[1]
    script.write_text(script.read_text() + "mq.anonymize(table, requirement, k=3)\n")
    assert (
        "Unexpected keyword argument"
        in api.run(["--config-file", str(config), "--cache-dir", str(cache), str(script)])[0]
    )
