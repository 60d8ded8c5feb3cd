"""The data-integration paper's examples (Mohammed, Fung, Debbabi), with the corrections of the reading notes."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import masquerade as mq
from adult import TOP9, adult
from papers.paper_tables import loan_table

REQUIREMENT = mq.KAnonymity(["Sex", "Job"], k=4) & mq.KAnonymity(["Sex", "Salary"], k=5)


def test_example_sequence() -> None:
    release = mq.anonymize(loan_table(), REQUIREMENT, mq.TopDownSpecialization(target="Class"))
    assert [(s.attribute, s.value, s.children, round(s.score, 4)) for s in release.steps] == [
        ("Salary", "[1, 99)", ("[1, 37)", "[37, 99)"), 0.3827),
        ("Job", "ANY_Job", ("Blue-collar", "White-collar"), 0.2723),
        ("Job", "Blue-collar", ("Non-Technical", "Technical"), 0.3424),
        ("Salary", "[1, 37)", ("[1, 35)", "[35, 37)"), 0.2505),
        ("Salary", "[37, 99)", ("[37, 44)", "[44, 99)"), 0.1751),
        ("Sex", "ANY_Sex", ("Male", "Female"), 0.1348),
        ("Job", "White-collar", ("Manager", "Professional"), 0.1212),
        ("Job", "Technical", ("Carpenter", "Technician"), 0.0919),
    ]


def test_example_release() -> None:
    release = mq.anonymize(loan_table(), REQUIREMENT, mq.TopDownSpecialization(target="Class"))
    records = Counter((r["Sex"], r["Job"], r["Salary"], r["Class"]) for r in release.table.to_pylist())
    groups = {
        ("Female", "Manager", "[37, 44)"): (4, 2),
        ("Female", "Manager", "[44, 99)"): (3, 0),
        ("Female", "Professional", "[44, 99)"): (4, 0),
        ("Female", "Technician", "[37, 44)"): (3, 1),
        ("Male", "Carpenter", "[35, 37)"): (2, 3),
        ("Male", "Non-Technical", "[1, 35)"): (0, 7),
        ("Male", "Professional", "[44, 99)"): (5, 0),
    }
    expected = Counter[tuple[str, ...]]()
    for cells, (yes, no) in groups.items():
        expected.update([(*cells, "Y")] * yes + [(*cells, "N")] * no)
    assert records == expected
    assert [v.value for v in release.verdicts] == [4, 5]
    assert release.summary["groups"] == 7


def test_example_without_sex() -> None:
    """When Party A never takes part, the run is the same without ANY_Sex."""
    table = loan_table()
    schema = mq.Schema(
        [
            mq.Attribute("Sex", taxonomy=mq.Taxonomy(mq.Branch("ANY_Sex"))) if a.name == "Sex" else a
            for a in table.schema
        ]
    )
    general = table.arrow.set_column(0, "Sex", pa.array(["ANY_Sex"] * len(table)))
    release = mq.anonymize(mq.Table(general, schema), REQUIREMENT, mq.TopDownSpecialization(target="Class"))
    assert len(release.steps) == 7
    assert "Sex" not in {step.attribute for step in release.steps}


@pytest.mark.parametrize(
    ("n_attributes", "k", "n_steps", "n_groups", "smallest"), [(5, 100, 3, 6, 199), (9, 20, 7, 30, 21)]
)
def test_adult(n_attributes: int, k: int, n_steps: int, n_groups: int, smallest: int) -> None:
    qid = TOP9[:n_attributes]
    release = mq.anonymize(adult(), mq.KAnonymity(qid, k), mq.TopDownSpecialization(target="income"))
    assert release.summary["released"] == 45_222
    assert release.summary["dropped_rows"] == 48_842 - 45_222
    assert len(release.steps) == n_steps
    assert release.summary["groups"] == n_groups
    assert release.verdicts[0].value == smallest
