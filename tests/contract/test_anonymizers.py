"""What every anonymizer must keep: one suite over all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import masquerade as mq
from examples import examples
from masquerade.anonymize.method import TableMethod
from papers.paper_tables import JOB, SEX

ANONYMIZERS: list[TableMethod] = [
    mq.TopDownSpecialization("class"),
    mq.TopDownSpecialization("class", "info-gain"),
    mq.TopDownSpecialization("class", "info-gain-per-anonymity-loss"),
    mq.TopDownSpecialization(),
    mq.TopDownSpecialization(score="certainty"),
    mq.TopDownSpecialization("class", suppression=0.2),
    mq.TopDownSpecialization(score="certainty", suppression=0.2),
    mq.Datafly(),
    mq.Datafly("class", whole_columns=True),
    mq.Mondrian(),
    mq.Mondrian("class", "widest", strict=True),
]


@dataclass(frozen=True)
class Case:
    name: str
    requirement: mq.KAnonymity

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("k-anonymity", mq.KAnonymity(["sex", "job", "age"], k=3)),
    Case("two QIDs", mq.KAnonymity(["sex", "job"], k=3) & mq.KAnonymity(["job", "age"], k=2)),
    Case("l-diversity", mq.LDiversity(["sex", "job", "age"], l=2, sensitive="disease")),
    Case("entropy l-diversity", mq.EntropyLDiversity(["sex", "job"], l=1.5, sensitive="disease")),
    Case("recursive l-diversity", mq.RecursiveLDiversity(["sex", "job"], c=3, l=2, sensitive="disease")),
    Case("t-closeness", mq.TCloseness(["job", "age"], t=0.4, sensitive="disease")),
    Case(
        "ordered t-closeness", mq.TCloseness(["job", "age"], t=0.3, sensitive="disease", distance="ordered")
    ),
    Case("alpha-k", mq.AlphaKAnonymity(["sex", "job"], alpha=0.7, k=2, sensitive="disease")),
    Case("confidence bounding", mq.ConfidenceBounding(["sex", "age"], confidence=0.8, sensitive="disease")),
    Case("p-sensitive", mq.PSensitiveKAnonymity(["sex", "job", "age"], p=2, k=3, sensitive="disease")),
    Case(
        "k and l over different QIDs",
        mq.KAnonymity(["sex", "job", "age"], k=2) & mq.LDiversity(["sex", "job"], l=2, sensitive="disease"),
    ),
]

# One QID, and every part of a violating group violates: what to leave out follows from the groups.
SUPPRESSIBLE = ("k-anonymity", "l-diversity", "p-sensitive")

JOBS = mq.Taxonomy(JOB)
SCHEMA = mq.Schema(
    [
        mq.Attribute("sex", taxonomy=mq.Taxonomy(SEX)),
        mq.Attribute("job", taxonomy=JOBS),
        mq.Attribute("age", "continuous"),
        mq.Attribute("town"),
        mq.Attribute("row", "continuous"),  # in no QID: tells which record a released row was
    ]
)

AGES = mq.Taxonomy(
    mq.Branch(
        "[0, 99)",
        (
            mq.Branch("[0, 40)", tuple(mq.Branch(f"[{low}, {low + 10})") for low in range(0, 40, 10))),
            mq.Branch("[40, 99)", (mq.Branch("[40, 50)"), mq.Branch("[50, 99)"))),
        ),
    ),
    edges=(0, 10, 20, 30, 40, 50, 99),
)
STEPWISE = mq.Schema(  # for what climbs a tree that is given
    mq.Attribute("age", "continuous", taxonomy=AGES) if name == "age" else SCHEMA[name]
    for name in SCHEMA.names
)

people = st.lists(
    st.fixed_dictionaries(
        {
            "sex": st.sampled_from(["Male", "Female"]),
            "job": st.sampled_from(JOBS.leaves),
            "age": st.integers(18, 60),
            "town": st.sampled_from(["Ulm", "Graz", "Bern"]),
            "class": st.sampled_from("YN"),
            "disease": st.sampled_from(["flu", "cough", "HIV"]),
        }
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(
    "algorithm", ANONYMIZERS, ids=lambda each: "-".join(map(str, each.settings().values()))
)
@settings(max_examples=examples(15), deadline=None)
@given(records=people)
def test_contract(algorithm: TableMethod, case: Case, records: list[dict[str, object]]) -> None:
    records = [{**record, "row": row} for row, record in enumerate(records)]
    frame = pa.Table.from_pylist(records)
    before = frame.to_pylist()
    table = mq.Table(frame, STEPWISE if algorithm.name == "datafly" else SCHEMA)
    if (refusal := _refusal(algorithm, case)) is not None:
        with pytest.raises(mq.ParameterError, match=refusal):
            mq.anonymize(table, case.requirement, algorithm)
        return
    if not mq.verify(_most_general(frame), case.requirement):
        with pytest.raises(mq.RequirementUnreachable):
            mq.anonymize(table, case.requirement, algorithm)
        return
    release = mq.anonymize(table, case.requirement, algorithm, sensitive=["disease"], order="input")

    assert mq.verify(release.table, case.requirement), "the release meets its requirement"
    assert frame.to_pylist() == before, "the input is untouched"
    assert release.table.num_rows + release.suppressed == len(records), "nobody is lost"
    assert release.suppressed <= _may_suppress(algorithm, case, len(records)), "no more than may be"
    assert release.table.num_rows, "something is released"
    assert release.table["row"].to_pylist() == sorted(set(release.table["row"].to_pylist())), "input order"
    again = mq.anonymize(table, case.requirement, algorithm, sensitive=["disease"], order="input")
    assert again.table.equals(release.table), "the same input gives the same release"
    shuffled = mq.anonymize(table, case.requirement, algorithm, sensitive=["disease"])
    assert _bag(shuffled.table) == _bag(release.table), "the order of the rows is all that a shuffle changes"
    _assert_generalises(records, release.table, case.requirement.qid_attributes)


def _refusal(algorithm: TableMethod, case: Case) -> str | None:
    """What the algorithm says to a requirement that it cannot be given."""
    if algorithm.settings().get("suppression") and case.name not in SUPPRESSIBLE:
        return "suppression: "
    if algorithm.name == "datafly" and ("QIDs" in case.name or "t-closeness" in case.name):
        return "datafly: "
    return None


def _may_suppress(algorithm: TableMethod, case: Case, n_records: int) -> float:
    if algorithm.name == "datafly":
        return case.requirement.k - 1 if case.name == "k-anonymity" else n_records - 1
    share = algorithm.settings().get("suppression", 0)
    assert isinstance(share, int | float)
    return share * n_records


def _most_general(frame: pa.Table) -> pa.Table:
    general = pa.array(["*"] * frame.num_rows)
    for position, name in enumerate(frame.column_names):
        if name in ("sex", "job", "age"):
            frame = frame.set_column(position, name, general)
    return frame


def _bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def _assert_generalises(records: list[dict[str, object]], release: pa.Table, qid: tuple[str, ...]) -> None:
    """Every cell generalises its original; every other cell is its original."""
    for cells in release.to_pylist():
        original = records[cells["row"]]
        for name, cell in cells.items():
            if name not in qid:
                assert cell == original[name]
            elif name == "age":
                low, high = cell.strip("[)").split(", ")
                assert float(low) <= original["age"] < float(high)  # type: ignore[operator] # an int
            else:
                taxonomy = SCHEMA[name].taxonomy
                assert isinstance(taxonomy, mq.Taxonomy)
                node, rank = taxonomy.find(cell), taxonomy.rank[str(original[name])]
                assert node.lo <= rank < node.hi
