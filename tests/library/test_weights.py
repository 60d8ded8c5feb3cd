"""Attribute weights: learned from queries, a declaration and the class; owner and users; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from job.job_files import changed, write_job
from masquerade.cli.app import command_line
from masquerade.errors import BadInput
from masquerade.jobs import weights_job

QUERIES = """SELECT age, job FROM people WHERE age > 30;
SELECT COUNT(*) FROM people WHERE job = 'Nurse' AND income = 'Y'
SELECT AVG(age), disease FROM people;
"""


def learned(folder: Path, text: str | None = None, name: str = "q.sql", **options: Any) -> dict[str, Any]:
    if not (folder / "job.toml").exists():
        write_job(folder)
    if text is not None:
        (folder / name).write_text(text)
    return weights_job(folder / name if text is not None else None, folder / "job.toml", **options)


def test_the_weight_is_the_normalised_frequency(tmp_path: Path) -> None:
    found = learned(tmp_path, QUERIES)
    assert found["weights"] == {"age": 0.6, "job": 0.4}
    assert found["reasons"]["age"] == "read by 2 of 3 queries, selected by in 1"
    assert (found["queries"], found["passed_over"], found["warnings"]) == (3, 0, [])


def test_scenario_1_of_the_paper_by_declaration(tmp_path: Path) -> None:
    found = learned(tmp_path, 'features = ["job"]', "study.toml")
    assert found["weights"] == {"age": 0, "job": 1}
    assert found["reasons"] == {"age": "is in no role", "job": "is a feature"}
    both = 'selection = ["age"]\nfeatures = ["age", "job"]\ntarget = "income"\n'
    assert learned(tmp_path, both, "study.toml")["weights"] == {"age": 0.666667, "job": 0.333333}


@pytest.mark.parametrize("by", ["information", "accuracy"])
def test_what_tells_more_about_the_class_weighs_more(tmp_path: Path, by: str) -> None:
    found = learned(tmp_path, by=by)
    assert found["weights"]["job"] > found["weights"]["age"]
    assert sum(found["weights"].values()) == pytest.approx(1)
    assert "income" in found["reasons"]["job"]


def test_an_attribute_that_tells_nothing_weighs_nothing(tmp_path: Path) -> None:
    write_job(tmp_path)
    same = "ssn,age,job,city,disease,income,hospital\n"
    same += "".join(f"{at},{20 + at % 2},Nurse,Bern,Flu,{'NY'[at // 2 % 2]},north\n" for at in range(40))
    (tmp_path / "people.csv").write_text(same)
    found = weights_job(None, tmp_path / "job.toml")
    assert found["weights"] == {"age": 0.5, "job": 0.5}
    assert "no attribute alone tells anything about income" in found["reasons"]["age"]


def test_owner_and_users_are_kept_apart_and_combined_openly(tmp_path: Path) -> None:
    write_job(tmp_path, changed("[attributes.age]", "[attributes.age]\nweight = 0"))
    apart = learned(tmp_path, QUERIES)
    assert (apart["users"], apart["owner"]) == ({"age": 0.6, "job": 0.4}, {"age": 0, "job": 1})
    assert apart["weights"] == apart["users"]
    half = learned(tmp_path, QUERIES, owner_share=0.5)
    assert half["weights"] == {"age": 0.3, "job": 0.7}
    assert half["reasons"]["job"].endswith(": 0.4; the owner's weight: 1, counted 0.5")
    assert learned(tmp_path, QUERIES, owner_share=1.0)["weights"] == apart["owner"]


def test_a_class_that_is_also_sensitive_gets_a_warning(tmp_path: Path) -> None:
    write_job(tmp_path, changed('sensitive = ["disease"]', 'sensitive = ["disease", "income"]'))
    (warning,) = learned(tmp_path, QUERIES)["warnings"]
    assert warning.startswith("income is the class and sensitive")


@pytest.mark.parametrize(
    ("text", "name", "options", "message"),
    [
        ("SELECT agee FROM p", "q.sql", {}, r'q.sql: line 1: no column "agee" in the job \(did you mean "age"\?\)'),
        ("SELECT ssn FROM p", "q.sql", {}, "q.sql: no query asks about an attribute of a QID; those are age, job"),
        ("", "q.sql", {}, "q.sql: no query; a log has SELECT statements"),
        ("feature = []", "s.toml", {}, r's.toml: feature: unknown key \(did you mean "features"\?\)'),
        ('features = "age"', "s.toml", {}, "s.toml: features: must be a list of names; got 'age'"),
        ('features = ["agee"]', "s.toml", {}, 's.toml: features: no column "agee" in the job'),
        ("features = []", "s.toml", {}, "s.toml: the declaration names no attribute of a QID"),
        (None, "q.sql", {"by": "queries"}, "weights by queries need a file: a query log"),
        ("SELECT age FROM p", "q.sql", {"by": "accuracy"}, "are learned from the job's table; leave "),
        (None, "q.sql", {"by": "luck"}, "The by parameter of weights must be one of queries, declaration, "),
        (None, "q.sql", {"owner_share": 2}, "The owner_share parameter of weights must be a number from 0 to 1"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    tmp_path: Path, text: str | None, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message) as error:
        learned(tmp_path, text, name, **options)
    assert len(error.value.lines) == 1


def test_weights_by_a_class_need_one(tmp_path: Path) -> None:
    write_job(tmp_path, changed('class = "income"\n', ""))
    with pytest.raises(BadInput, match=r"roles.class: missing; weights by information are about a class"):
        learned(tmp_path)


def test_owners_who_say_nothing_have_no_share(tmp_path: Path) -> None:
    text = changed("[attributes.age]", "[attributes.age]\nweight = 0")
    write_job(tmp_path, changed("[attributes.job]", "[attributes.job]\nweight = 0", text))
    with pytest.raises(BadInput, match="the job's weights are all 0"):
        learned(tmp_path, QUERIES, owner_share=0.5)
    assert learned(tmp_path, QUERIES)["owner"] is None


def test_the_command(tmp_path: Path) -> None:
    job = write_job(tmp_path)
    (tmp_path / "q.sql").write_text(QUERIES + "SET x = 1;")
    asked = ["weights", str(tmp_path / "q.sql"), "--job", str(job)]
    told = CliRunner().invoke(command_line(), asked).stdout.splitlines()
    assert told == [
        "age  0.6000  read by 2 of 3 queries, selected by in 1",
        "job  0.4000  read by 1 of 3 queries, selected by in 1",
        "statements passed over, because they are no queries: 1",
        "write each into the job as weight = … below its [attributes.NAME]",
    ]
    found = json.loads(CliRunner().invoke(command_line(), [*asked, "--json"]).stdout)
    assert found["weights"] == {"age": 0.6, "job": 0.4}
    assert set(found["reasons"]) == {"age", "job"}
