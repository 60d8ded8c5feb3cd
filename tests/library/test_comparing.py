"""Methods side by side: rows, refusals, the best, the frame and the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

import masquerade as mq
from job.job_files import JOB, changed, write_job
from masquerade.errors import ParameterError
from masquerade.methods import table_methods
from masquerade.utility import MEASURES

AGES = {"age": [21, 22, 38, 39, 40, 61, 62, 63], "town": list("aabbaabb")}
TOWNS = mq.Taxonomy.flat("ab")
SCHEMA = mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("town", taxonomy=TOWNS)])
TABLE = mq.Table(pa.table(AGES), SCHEMA)
K2 = mq.KAnonymity(["age", "town"], k=2)


def test_every_method_that_fits_has_its_rows_and_the_others_their_reasons() -> None:
    found = mq.compare(TABLE, K2)
    assert {row.name for row in found.rows} | set(found.refused) == set(table_methods()) - {"auto"}
    assert "generalises step by step" in str(found.refused["datafly"][0])
    named = [row.method for row in found.rows]
    assert all(named.count(each) == 1 for each in named), "nothing is run twice"
    assert {"name": "mondrian", "choose": "widest", "strict": False} in named


def test_a_row_has_the_figures_of_the_release_that_its_method_makes() -> None:
    row = next(row for row in mq.compare(TABLE, K2, methods=["mondrian"]).rows)
    release = mq.anonymize(TABLE, K2, mq.Mondrian())
    assert {name: row.metrics[name] for name in release.metrics} == dict(release.metrics)
    assert set(row.metrics) <= set(MEASURES)
    sizes = release.group_sizes
    assert (row.groups, row.released, row.suppressed) == (sizes.size, 8, 0)
    assert (row.risk.highest, row.risk.mean, row.risk.unique) == (1 / sizes.min(), sizes.size / 8, 0)


def test_each_k_is_tried_and_has_its_best() -> None:
    found = mq.compare(TABLE, K2, methods=["tds", "mondrian"], k=[2, 4])
    assert [row.k for row in found.best] == [2, 4]
    for best in found.best:
        rivals = [row.metrics["ncp"] for row in found.rows if row.k == best.k]
        assert best.metrics["ncp"] == min(filter(None, rivals))
        assert best.risk.highest <= 1 / (best.k or 1)


def test_a_k_inside_m_privacy_is_replaced_too() -> None:
    wrapped = mq.MPrivacy(1, K2, "bank")
    assert str(mq.MPrivacy(1, K2.with_k(3), "bank")) == str(wrapped.with_k(3))
    plain = mq.LDiversity(["age"], 2, "town")
    assert plain.with_k(7) is plain


def test_a_class_adds_the_error_of_trees() -> None:
    table = mq.Table(pa.table({**AGES, "class": list("yynnyynn")}), SCHEMA)
    found = mq.compare(table, K2, target="class", methods=["mondrian"])
    assert found.measure == "classification_error"
    assert all(0 <= (row.metrics["classification_error"] or 0) <= 1 for row in found.rows)


def test_the_best_is_named_by_a_figure_that_is_shown_first() -> None:
    table = mq.Table(pa.table({**AGES, "class": list("yynnyynn")}), SCHEMA)
    for target in ("class", None):
        found = mq.compare(table, K2, target=target, methods=["mondrian"])
        assert found.headline[0] == found.measure
        assert len(set(found.headline)) == len(found.headline)
        assert {"ncp", "information_kept", "query_error"} <= set(found.headline)


def test_without_decision_trees_the_best_is_named_by_the_classes_of_its_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)  # type: ignore[arg-type] # as if it were not installed
    table = mq.Table(pa.table({**AGES, "class": list("yynnyynn")}), SCHEMA)
    found = mq.compare(table, K2, target="class", methods=["mondrian"])
    assert found.measure == found.headline[0] == "classification_metric"
    assert found.best


def test_too_few_rows_for_trees_still_have_a_best() -> None:
    few = {name: cells[:4] for name, cells in AGES.items()}
    table = mq.Table(pa.table({**few, "class": list("yynn")}), SCHEMA)
    found = mq.compare(table, K2, target="class", methods=["mondrian"])
    assert all(row.metrics[found.measure] is not None for row in found.rows)
    assert found.best


def test_it_is_a_frame_for_everybody() -> None:
    frame = pa.table(mq.compare(TABLE, K2, methods=["mondrian"]))
    assert frame.column_names[:3] == ["method", "settings", "k"]
    assert {"ncp", "query_error", "mean_risk", "highest_risk", "seconds"} <= set(frame.column_names)
    assert frame["settings"].to_pylist() == ["choose certainty, strict no", "choose widest, strict no"]


def test_the_page_needs_no_network_and_draws_every_method(tmp_path: Path) -> None:
    mq.compare(TABLE, K2, k=[2, 3]).report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<svg" in page
    assert page.count("mondrian: choose certainty, strict no") >= 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["mondrain"]}, "must be methods on one table: tds, "),
        ({"methods": ["mondrain"]}, 'Got "mondrain" instead (did you mean "mondrian"?).'),
        ({"methods": ["dka"]}, 'Got "dka" instead'),
        ({"k": [0]}, "The k parameter of compare must be a whole number of at least 1"),
    ],
)
def test_bad_words_are_named(options: dict[str, list[object]], words: str) -> None:
    with pytest.raises(ParameterError) as caught:
        mq.compare(TABLE, K2, **options)  # type: ignore[arg-type] # on purpose
    assert words in caught.value.lines[0]


def test_a_k_that_nothing_has_or_nobody_can_reach() -> None:
    with pytest.raises(ParameterError, match="must be left out where no requirement has a k"):
        mq.compare(TABLE, mq.LDiversity(["age"], 2, "town"), k=[3])
    with pytest.raises(mq.RequirementUnreachable, match="cannot be reached"):
        mq.compare(TABLE, K2, k=[9])


def test_a_job_is_compared_whatever_its_own_method(tmp_path: Path) -> None:
    job = write_job(tmp_path, changed("[[privacy]]", '[algorithm]\nname = "datafly"\n\n[[privacy]]', JOB))
    found = mq.compare_job(job, methods=["mondrian"], ks=[2, 3])
    assert [(row.name, row.k) for row in found.rows] == [("mondrian", k) for k in (2, 2, 2, 3, 3, 3)]
    assert not (tmp_path / "release.csv").exists()
