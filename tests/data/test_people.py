"""The generated people: the same for ever, plausible, and fit for their own job file."""

from __future__ import annotations

import datetime
import hashlib
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from masquerade.anonymize import TopDownSpecialization
from masquerade.data import (
    Attribute,
    AttributeKind,
    Schema,
    Table,
    common_people,
    generate_people,
    people_taxonomies,
    read_taxonomy,
    split_people,
)
from masquerade.data.people import ORGANISATIONS
from masquerade.data.taxonomy_files import find_taxonomies
from masquerade.errors import ParameterError
from masquerade.privacy import KAnonymity, LDiversity
from people_job import write_people


def digest(table: pa.Table) -> str:
    lines = [repr(sorted(row.items())) for row in table.to_pylist()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_a_seed_gives_the_same_people_for_ever() -> None:
    assert digest(generate_people(200, seed=7)) == "6901a052fe809b832095030a6b75fc3b92e82c3f04f12b23fd4452616fc674c6"
    assert (
        digest(generate_people(50, seed=8, missing=0.1))
        == "c9ca4169486cb0543d66b8048cd0a390bc6577ca4900b6bb837723252c58b60c"
    )


def test_columns_and_types() -> None:
    people = generate_people(1000)
    kinds = {field.name: str(field.type) for field in people.schema}
    texts = dict.fromkeys(("ssn", "name", "sex", "town", "job", "education", "disease", "approved"), "string")
    assert kinds == texts | {"birth_date": "date32[day]", "hours": "int64", "salary": "double", "children": "int64"}
    assert list(kinds)[:4] == ["ssn", "name", "birth_date", "sex"]
    assert set(people["approved"].unique().to_pylist()) == {"no", "yes"}
    assert len(people["disease"].unique()) == 10
    assert all(column.null_count == 0 for column in people.columns)


def test_identifiers_are_unique_and_nobodys() -> None:
    numbers = generate_people(50_000)["ssn"]
    assert len(numbers.unique()) == 50_000
    assert pc.all(pc.match_substring_regex(numbers, r"^9[0-9]{2}-[0-9]{2}-[0-9]{4}$")).as_py()
    assert generate_people(5, seed=8)["ssn"].to_pylist() != numbers[:5].to_pylist()


def test_people_are_plausible() -> None:
    people = generate_people(20_000)

    def mean(column: str, mask: pa.ChunkedArray) -> float:
        return float(pc.mean(people.filter(mask)[column]).as_py())

    def approved(mask: pa.ChunkedArray) -> float:
        return float(pc.mean(pc.equal(people.filter(mask)["approved"], "yes").cast(pa.int8())).as_py())

    def share(disease: str, mask: pa.ChunkedArray) -> float:
        return float(pc.mean(pc.equal(people.filter(mask)["disease"], disease).cast(pa.int8())).as_py())

    job, education = people["job"], people["education"]
    assert mean("salary", pc.equal(job, "Physician")) > 2 * mean("salary", pc.equal(job, "Cook"))
    assert mean("hours", pc.equal(job, "Retired")) < 10
    assert approved(pc.equal(education, "Doctorate")) > approved(pc.equal(education, "Primary")) + 0.3
    old = pc.less(people["birth_date"], datetime.date(1960, 1, 1))
    assert share("Arthritis", old) > 3 * share("Arthritis", pc.invert(old))
    doctors = people.filter(pc.equal(job, "Physician"))["education"]
    assert doctors.value_counts().to_pylist() != education.value_counts().to_pylist()
    assert pc.max(people["birth_date"]).as_py() <= datetime.date(2007, 1, 2)


def test_missing_cells_are_question_marks_or_nulls() -> None:
    people = generate_people(5000, missing=0.2)
    assert people["ssn"].null_count == 0
    assert 800 < pc.sum(pc.equal(people["town"], "?")).as_py() < 1200
    assert 800 < people["salary"].null_count < 1200
    assert 800 < people["birth_date"].null_count < 1200
    everything = generate_people(10, missing=1.0)
    assert everything["hours"].null_count == 10
    assert Table(everything).complete(["town"]).dropped_rows == 10


def test_no_people_and_too_many() -> None:
    assert generate_people(0).num_rows == 0
    for wrong in ({"n": -1}, {"n": 10**8 + 1}, {"n": 1, "missing": 1.5}, {"n": 1, "seed": -1}):
        with pytest.raises(ParameterError, match="parameter of generate_people must be"):
            generate_people(**wrong)


def schema(job: dict[str, dict[str, dict[str, str]]], folder: Path) -> Schema:
    """A plain reading of the job's attributes."""
    attributes = []
    for name, section in job["attributes"].items():
        kind: AttributeKind = section.get("type", "categorical")  # type: ignore[assignment] # as the job says
        taxonomy = section.get("taxonomy")
        if taxonomy in (None, "flat"):
            attributes.append(Attribute(name, kind, taxonomy))  # type: ignore[arg-type] # None or "flat"
        else:
            attributes.append(Attribute(name, kind, read_taxonomy(folder / taxonomy, kind)))
    return Schema(attributes)


def test_the_files_fit_together(tmp_path: Path) -> None:
    path = write_people(tmp_path / "demo", 3000, seed=3)
    folder = path.parent
    assert path == tmp_path / "demo" / "job.toml"
    assert {file.name for file in find_taxonomies(folder / "taxonomies").values()} == set(people_taxonomies())
    job = tomllib.loads(path.read_text())
    people = pyarrow.csv.read_csv(folder / job["data"]["source"])
    assert people.equals(generate_people(3000, seed=3))

    table = Table(people, schema(job, folder))
    first, second, third = job["privacy"]
    requirement = (
        KAnonymity(first["qid"], first["k"])
        & LDiversity(second["qid"], second["l"], second["sensitive"])
        & KAnonymity(third["qid"], third["k"])
    )
    assert set(requirement.qid_attributes) == set(job["attributes"])
    outcome = TopDownSpecialization(job["roles"]["class"], job["algorithm"]["score"]).run_on_table(table, requirement)
    assert len({step.attribute for step in outcome.steps}) >= 3


def test_every_value_is_a_leaf_of_its_taxonomy(tmp_path: Path) -> None:
    folder = write_people(tmp_path, 10).parent
    people = generate_people(20_000)
    for name, file in find_taxonomies(folder / "taxonomies").items():
        kind: AttributeKind = "continuous" if name == "hours" else "categorical"
        taxonomy = read_taxonomy(file, kind)
        column = Table(people, Schema([Attribute(name, kind, taxonomy)])).column(name)
        assert len(set(column.ranks.tolist())) == taxonomy.size, f"{name}: a leaf that nobody has"
        assert len(set(taxonomy.leaf_depths)) > 1 or name == "job", f"{name}: of equal depth"


# --- organisations ---


def test_organisations_know_different_things_about_overlapping_people() -> None:
    people = generate_people(2000)
    tables = split_people(people)
    assert {name: tuple(table.column_names[1:]) for name, table in tables.items()} == ORGANISATIONS
    known = {name: set(table["ssn"].to_pylist()) for name, table in tables.items()}
    whole = {row["ssn"]: row for row in people.to_pylist()}
    for name, table in tables.items():
        assert 1600 < table.num_rows == len(known[name]) < 1800
        assert all(row.items() <= whole[row["ssn"]].items() for row in table.to_pylist())
        for other in tables:
            assert name == other or known[name] - known[other]
    orders = [[each for each in table["ssn"].to_pylist() if each in known["bank"]] for table in tables.values()]
    assert orders[0] != orders[1] != orders[2]
    common = common_people(people, tables)
    assert set(common["ssn"].to_pylist()) == known["bank"] & known["insurer"] & known["clinic"]
    assert common.column_names == people.column_names


def test_a_seed_gives_the_same_organisations_for_ever() -> None:
    tables = split_people(generate_people(200))
    assert "".join(digest(table)[:8] for table in tables.values()) == "912c5cd058c73e4ffbb5db38"
    assert split_people(generate_people(200), seed=8)["bank"] != tables["bank"]


def test_organisations_that_know_everybody_or_nobody() -> None:
    people = generate_people(20)
    everybody = split_people(people, {"bank": ["job"], "shop": ["town"]}, known=1.0)
    assert common_people(people, everybody) == people
    assert split_people(people, known=0.0)["clinic"].num_rows == 0
    assert split_people(people.slice(0, 0))["clinic"].num_rows == 0
    with pytest.raises(ParameterError, match="known parameter of split_people must be"):
        split_people(people, known=1.5)
