"""Table 1 and Scenario 1 of "Towards application-oriented data anonymization", and its cost metrics on them."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.jobs import evaluate

CRX = Path(__file__).parents[2] / "../shared/data/crx/crx.data"

QID = ("age", "gender", "zipcode")
PEOPLE = pa.table(
    {
        "age": [25, 28, 28, 26],
        "gender": ["Male", "Female", "Male", "Female"],
        "zipcode": [53710, 53712, 53711, 53712],
        "diagnosis": ["Influenza", "Lymphoma", "Bronchitis", "Influenza"],
    }
)
RELEASED = [("[25, 29)", "Male", "[53710, 53712)"), ("[25, 29)", "Female", "[53712, 53713)")] * 2


def people(*weights: float) -> mq.Table:
    age, gender, zipcode = weights
    return mq.Table(
        PEOPLE,
        mq.Schema(
            [
                mq.Attribute("age", "continuous", lower=25, upper=29, weight=age),
                mq.Attribute("gender", taxonomy="flat", weight=gender),
                mq.Attribute("zipcode", "continuous", lower=53710, upper=53713, weight=zipcode),
            ]
        ),
    )


def test_table_1_is_what_scenario_1_asks_for() -> None:
    """(Age, 0), (Gender, 0), (Zipcode, 1): a study of places."""
    release = mq.anonymize(
        people(0, 0, 1),
        mq.KAnonymity(QID, 2),
        mq.Mondrian(priority={"spread": 1, "weight": 1}),
        sensitive=["diagnosis"],
        order="input",
    )
    assert list(zip(*(release.table[name].to_pylist() for name in QID), strict=True)) == RELEASED
    assert release.table["diagnosis"].to_pylist() == PEOPLE["diagnosis"].to_pylist()


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((1, 1, 1), 16 + 8 + 8), ((0, 0, 1), 8), ((0.5, 0, 0), 8), ((0, 0, 0), 0)],
    ids=["all alike", "Scenario 1", "age alone", "nothing"],
)
def test_the_prioritised_cost_metric_of_table_1(weights: tuple[float, ...], expected: float) -> None:
    """C_DM = 2² + 2²; C_WDM adds the groups of each attribute alone, weighted: (4.1) and (4.2)."""
    released = pa.table(dict(zip((*QID,), map(list, zip(*RELEASED, strict=True)), strict=True)))
    found = evaluate(people(*weights), released, mq.KAnonymity(QID, 2), queries=0)
    assert found["metrics"]["discernibility"] == 8
    assert found["metrics"]["weighted_discernibility"] == expected
    assert found["weighted_overlap"] == expected  # no attribute has a value and its ancestor


def test_partly_blurred_looks_better_only_where_overlaps_do_not_count() -> None:
    """Where a column has both a value and its ancestor, (4.2) counts them as told apart."""
    table = mq.Table(pa.table({"sex": ["m", "m", "f", "f"]}), mq.Schema([mq.Attribute("sex", taxonomy="flat")]))
    exact, blurred = (
        evaluate(table, pa.table({"sex": cells}), mq.KAnonymity(["sex"], 1), queries=0)
        for cells in (["m", "m", "f", "f"], ["m", "*", "f", "*"])
    )
    assert blurred["metrics"]["weighted_discernibility"] < exact["metrics"]["weighted_discernibility"]
    assert exact["weighted_overlap"] == 8
    assert blurred["weighted_overlap"] == 16 - 2  # the m and the f alone are told apart


@pytest.mark.parametrize("k", [5, 50])
def test_figure_3_prioritised_is_more_accurate_than_plain(k: int) -> None:
    if not CRX.exists():
        pytest.skip("the credit-screening data is not in ../shared/data/crx")
    with CRX.open(newline="") as lines:
        records = [cells for cells in csv.reader(lines) if len(cells) == 16 and "?" not in cells]
    assert len(records) == 653
    names = ("A2", "A3", "A8", "A11", "A14", "A15")
    frame = pa.table(
        {
            **{name: [float(cells[int(name[1:]) - 1]) for cells in records] for name in names},
            "A16": [cells[15] for cells in records],
        }
    )
    features = {"A8", "A11", "A15"}
    table = mq.Table(frame, mq.Schema([mq.Attribute(name, "continuous", weight=name in features) for name in names]))
    plain, prioritised = (
        evaluate(
            table,
            mq.anonymize(table, mq.KAnonymity(names, k), method, sensitive=["A16"], order="input").table,
            mq.KAnonymity(names, k),
            "A16",
            queries=0,
        )
        for method in (mq.Mondrian(choose="widest"), mq.Mondrian(priority={"spread": 1, "weight": 1}))
    )
    bayes = [each["accuracy"]["naive_bayes"] for each in (plain, prioritised)]
    assert bayes[0]["release"] < bayes[1]["release"]
    assert bayes[1]["original"] == pytest.approx(0.715, abs=0.01)
    assert prioritised["weighted_overlap"] < plain["weighted_overlap"]
    assert prioritised["metrics"]["weighted_discernibility"] < plain["metrics"]["weighted_discernibility"]
