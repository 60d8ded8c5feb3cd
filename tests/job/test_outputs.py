"""Outputs of a job whose table is in many files: none of them is replaced, and none is added to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.data import is_listed
from masquerade.forms import Problems
from masquerade.jobs import Job
from masquerade.jobs.model import AttributeSection, DataSection, OutputSection
from masquerade.jobs.outputs import outputs_of

FILES = ("people/a.parquet", "people/2025/b.parquet", "people/_notes/c.parquet", "other/part-00000.parquet")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("people")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/theirs.parquet").touch()
    return tmp_path


def problems(place: Path, source: str, table: str, *, folder: bool, report: str = "report.html") -> list[str]:
    found = Problems("job.toml")
    job = Job(data=DataSection(source=source), output=OutputSection(table=table, report=report))
    outputs_of(job, place / "job.toml", found, folder=folder)
    return [str(each) for each in found.found]


@pytest.mark.parametrize(
    ("source", "table", "folder"),
    [
        ("people", "people/a.parquet", False),
        ("people", "people/new.parquet", False),
        ("people/*.parquet", "people/a.parquet", False),
        ("people/*.parquet", "link/a.parquet", False),
        ("people/**/*.parquet", "people/2025/new.parquet", False),
        ("people", "people", True),
        ("people", "link", True),
        ("people", "people/release.parquet", True),
        ("people/**/*.parquet", "people/2025/release", True),
        ("*/part-00000.parquet", "other", True),
    ],
)
def test_a_release_is_not_among_the_files_of_the_table(source: str, table: str, folder: bool, place: Path) -> None:
    said = [each for each in problems(place, source, table, folder=folder) if "other files" not in each]
    name = Path(table).name
    assert said == [f"job.toml: output.table: {name} is, holds or would be part of the table; name another place"]


@pytest.mark.parametrize(
    ("source", "table", "folder"),
    [
        ("people/*.parquet", "people/release.parquet", True),  # the pattern takes files, not those of a folder
        ("people", "people/_release.parquet", True),
        ("people", "other", True),  # an earlier release is replaced
        ("people/20??/*.parquet", "people/new.parquet", False),
    ],
)
def test_a_release_beside_the_table_is_fine(source: str, table: str, folder: bool, place: Path) -> None:
    assert problems(place, source, table, folder=folder) == []


def test_a_folder_of_somebody_elses_parquet_files_is_not_replaced(place: Path) -> None:
    (said,) = problems(place, "people", "mine", folder=True)
    assert said.endswith("mine holds other files than those of a release; name another folder")


def test_a_report_is_not_inside_the_folder_that_is_replaced(place: Path) -> None:
    (said,) = problems(place, "people", "other", folder=True, report="other/report.html")
    assert said == "job.toml: output.report: other/report.html is inside the release; name another place"


def test_hidden_files_are_no_part(place: Path) -> None:
    for source in ("people", "people/*/*.parquet", "people/**/*.parquet"):
        listed = [name for name in FILES if is_listed(place / name, place / source)]
        assert "people/2025/b.parquet" in listed
        assert "other/part-00000.parquet" not in listed
    assert not is_listed(place / FILES[2], place / "people")


def labels(place: Path, names: list[str], table: str = "release.csv") -> list[str]:
    found = Problems("job.toml")
    attributes = {"job": AttributeSection(taxonomy="job.csv"), "town": AttributeSection(taxonomy="flat")}
    attributes["age"] = AttributeSection(type="continuous", taxonomy="age.csv")
    output = OutputSection(table=table, labels=names)
    job = Job(data=DataSection(source="release-labels.csv"), attributes=attributes, output=output)
    outputs = outputs_of(job, place / "job.toml", found)
    assert outputs.labels == (place / table).with_name(f"{Path(table).stem}-labels.csv")
    return [str(each) for each in found.found]


def test_labels_are_of_attributes_that_have_some(tmp_path: Path) -> None:
    assert labels(tmp_path, ["job"], "other.csv") == []
    assert labels(tmp_path, ["town", "age", "jbo"], "other.csv") == [
        "job.toml: output.labels[1]: town has no taxonomy of categories",
        "job.toml: output.labels[2]: age has no taxonomy of categories",
        'job.toml: output.labels[3]: there is no attribute "jbo" (did you mean "job"?)',
    ]


def test_labels_never_replace_the_table(tmp_path: Path) -> None:
    assert labels(tmp_path, ["job"]) == [
        "job.toml: output.labels: release-labels.csv is the table; it would be overwritten: name another file"
    ]
