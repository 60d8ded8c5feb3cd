"""What a programmer sees: printed releases, frames with taxonomies, errors that show no record."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import masquerade as mq
from masquerade.data import Branch, Taxonomy
from masquerade.errors import DataError, ParameterError

SECRET = "Zebedee"
FRAME = pd.DataFrame({"age": [30, 31, 40, 41], "job": ["a", "b", "a", "b"], "name": [SECRET, "x", "y", "z"]})


def release() -> mq.Release:
    table = mq.Table(FRAME.drop(columns="name"), taxonomies={"job": "flat"})
    return mq.anonymize(table, mq.KAnonymity(["age", "job"], k=2), mq.Mondrian())


def test_a_release_is_printed_in_five_lines_without_a_cell() -> None:
    made = release()
    assert str(made).splitlines() == [
        "rows:         4 released, 0 dropped, 0 suppressed",
        "requirements: k-anonymity (k = 2) over age, job holds",
        "groups:       2 of 2 to 2 records",
        "columns:      age, job",
        "loss:         age 100%, job 0%; information kept: age 0%, job 100%",
    ]
    assert repr(made) == "<Release of 4 rows in 2 groups>"


def test_a_notebook_shows_the_report() -> None:
    page = release()._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "&lt;svg" in page


def test_taxonomies_of_a_frame(tmp_path: Path) -> None:
    (tmp_path / "job.csv").write_text("a;any\nb;any\n")
    tree = Taxonomy(Branch("any", (Branch("a"), Branch("b"))))
    for given in (tmp_path, {"job": tree}, {"job": tmp_path / "job.csv"}):
        attribute = mq.Table(FRAME, taxonomies=given).schema["job"]
        assert isinstance(attribute.taxonomy, Taxonomy)
        assert attribute.taxonomy.leaves == ("a", "b")
    with pytest.raises(ParameterError, match='no attribute "jop"'):
        mq.Table(FRAME, taxonomies={"jop": "flat"})
    with pytest.raises(ParameterError, match="not both"):
        mq.Table(FRAME, mq.Schema([]), taxonomies={})


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: mq.read(FRAME),  # type: ignore[arg-type] # on purpose, as all of these
        lambda: mq.anonymize(FRAME, FRAME),  # type: ignore[arg-type]
        lambda: mq.anonymize(FRAME, mq.KAnonymity(["age"], 2), FRAME),  # type: ignore[arg-type]
        lambda: mq.verify(FRAME, FRAME),  # type: ignore[arg-type]
        lambda: mq.KAnonymity(["age"], FRAME),  # type: ignore[arg-type]
        lambda: mq.anonymize(FRAME, mq.KAnonymity(["age"], 2), sensitive=[FRAME]),  # type: ignore[list-item]
        lambda: mq.Table(FRAME.assign(age=[1, SECRET, 2, 3])),
    ],
)
def test_no_error_shows_a_record(mistake: object) -> None:
    assert callable(mistake)
    with pytest.raises((ParameterError, DataError)) as caught:
        mistake()
    assert SECRET not in str(caught.value)
    assert "Zeb" not in str(caught.value)
