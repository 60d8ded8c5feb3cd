"""Plain frames: what is guessed of their columns, what is left out, and that a warning at the caller's line says so."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.data import Taxonomy

N = 300
PEOPLE = mq.generate_people(N)
QID = ["birth_date", "sex", "town"]
FRAMES = {"pandas": lambda: PEOPLE.to_pandas(), "polars": lambda: pl.from_arrow(PEOPLE), "Arrow": lambda: PEOPLE}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_plain_frame_is_anonymised(kind: str) -> None:
    frame: Any = FRAMES[kind]()
    with pytest.warns(UserWarning, match=r'no taxonomy for sex, town: .* "\*"') as caught:
        release = mq.anonymize(frame, mq.KAnonymity(QID, k=10), mq.Mondrian(), sensitive=["disease"])
    assert [each.filename for each in caught] == [__file__]
    assert mq.verify(release.table, mq.KAnonymity(QID, k=10))
    assert release.summary["dropped"] == ["ssn", "name"]
    assert set(release.table.column("sex").to_pylist()) <= {"Male", "Female", "*"}


def test_a_note_says_what_is_left_out_and_what_is_published_as_it_is() -> None:
    table = pa.table({"age": [*range(20, 60)] * 2, "first name": ["Ada", "Bo"] * 40, "pets": [0, 1, 2, 3] * 20})
    with pytest.warns(UserWarning, match="never released") as caught:
        release = mq.anonymize(table, mq.KAnonymity(["age"], k=4))
    [note] = caught
    assert "never released: first name (" in str(note.message)
    assert "published as they are, being in no QID: pets" in str(note.message)
    assert release.table.column_names == ["age", "pets"]


def test_what_the_caller_names_is_not_left_out() -> None:
    table = pa.table({"age": [*range(20, 60)] * 2, "surname": ["Ada", "Bo"] * 40})
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        release = mq.anonymize(table, mq.KAnonymity(["age", "surname"], k=4))
    assert release.table.column_names == ["age", "surname"]


def test_nothing_is_guessed_of_numbers_alone_nor_of_a_table() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mq.anonymize(pa.table({"age": [*range(40)] * 2}), mq.KAnonymity(["age"], k=4)).released == 80
        table = mq.Table(PEOPLE.select(["sex", "name"]), taxonomies={"sex": "flat"})
        assert "name" in mq.anonymize(table, mq.KAnonymity(["sex"], k=4)).table.column_names


def test_compare_takes_a_plain_frame() -> None:
    with pytest.warns(UserWarning, match="no taxonomy for town"):
        found = mq.compare(PEOPLE, mq.KAnonymity(["hours", "town"], k=5), methods=["mondrian"])
    assert found.rows


def test_a_guess_is_what_init_drafts(tmp_path: Any) -> None:
    PEOPLE.to_pandas().to_csv(tmp_path / "people.csv", index=False)
    draft = mq.draft(tmp_path / "people.csv", tmp_path / "job.toml", target="approved", sensitive=["disease"], k=10)
    roles = {each["name"]: each["role"] for each in draft.attributes}
    with pytest.warns(UserWarning, match="Guessed: ") as caught:
        table = mq.Table.guess(pd.read_csv(tmp_path / "people.csv"), target="approved", sensitive=["disease"])
    assert [each.filename for each in caught] == [__file__]
    proposed = [name for name, role in roles.items() if role == "quasi-identifier"]
    assert f"quasi-identifiers as init would propose: {', '.join(proposed)};" in str(caught[0].message)
    assert set(table.schema.identifiers) == {name for name, role in roles.items() if role == "identifier"}
    for path, text in draft.taxonomies.items():
        taxonomy = table.schema[path.stem].taxonomy
        assert isinstance(taxonomy, Taxonomy)
        inner = {cell for line in text.splitlines() for cell in line.replace('"', "").split(";")}
        assert {node.name for node in taxonomy.nodes} <= inner
    asked = mq.KAnonymity(proposed, k=10) & mq.LDiversity(proposed, 2, "disease")
    release = mq.anonymize(table, asked, mq.Mondrian("approved"))
    assert mq.verify(release.table, asked)
    assert {"ssn", "name"}.isdisjoint(release.table.column_names)
    assert release.table.column_names == [*proposed, "disease", "approved"]


def test_what_is_made_of_a_table_is_a_table_of_the_same_kind() -> None:
    table = mq.Table(PEOPLE.select(["hours", "salary"]))
    for made in (table.with_schema(table.schema), table.take(np.arange(3)), table.complete(["hours"])):
        assert isinstance(made, mq.Table)


def test_a_guess_reads_what_stands_for_a_missing_cell() -> None:
    cells = [str(10_000 + 7 * at % 90) for at in range(99)]
    frame = pd.DataFrame({"cost": [*cells, "NA"], "sex": ["f", "m"] * 50})
    with pytest.warns(UserWarning, match="Guessed"):
        table = mq.Table.guess(frame)
    assert table.schema["cost"].kind == "continuous"
    assert mq.anonymize(table, mq.KAnonymity(["cost"], k=5), mq.Mondrian()).dropped_rows == 1


def test_a_guessed_release_names_its_labels() -> None:
    with pytest.warns(UserWarning, match="Guessed"):
        table = mq.Table.guess(PEOPLE, target="approved")
    release = mq.anonymize(table, mq.KAnonymity(["job", "town", "birth_date"], k=20), mq.Mondrian())
    labels = release.labels()
    assert labels.column_names == ["attribute", "label", "value"]
    assert set(labels.column("attribute").to_pylist()) <= {"job", "town"}
    for name in ("job", "town"):
        listed = {row["label"] for row in labels.to_pylist() if row["attribute"] == name}
        values = set(PEOPLE.column(name).to_pylist())
        assert listed == set(release.table.column(name).to_pylist()) - values - {"*"}
    assert set(release.labels("job").column("attribute").to_pylist()) <= {"job"}


def test_the_method_of_a_job_file_and_that_of_python_take_the_same_words() -> None:
    table = pa.table({"age": [*range(40)] * 3, "hospital": ["a", "b", "c"] * 40})
    asked = mq.MPrivacy(1, mq.KAnonymity(["age"], 4), "hospital")
    release = mq.anonymize(table, asked, mq.Mondrian(choose="fitness"))
    assert release.settings["algorithm"]["choose"] == "fitness"
    assert mq.anonymize(table, asked, mq.Mondrian(choose="widest")).settings["algorithm"]["choose"] == "widest"
    assert mq.verify(table.select(["hospital"]).append_column("age", pa.array(["*"] * 120)), asked)
    with pytest.raises(mq.ParameterError, match='must be "certainty" or "widest"'):
        mq.anonymize(table, mq.KAnonymity(["age"], 4), mq.Mondrian(choose="fitness"))


# --- attack ---


def guessed() -> mq.Table:
    with pytest.warns(UserWarning, match="Guessed"):
        return mq.Table.guess(PEOPLE, target="approved", sensitive=["disease"])


def test_a_release_is_attacked_by_what_it_knows() -> None:
    table = guessed()
    asked = mq.KAnonymity(QID, k=10) & mq.LDiversity(QID, 2, "disease")
    release = mq.anonymize(table, asked, mq.Mondrian("approved"), order="input")
    found = mq.attack(release)
    assert found == mq.attack(release.table, asked, schema=table.schema, sensitive=["disease"], target="approved")
    assert {each.attribute for each in found if each.name == "homogeneity"} == {"disease", "approved"}
    assert next(each.value for each in found if each.name == "prosecutor") <= 0.1
    exposed = {each.name: each.records for each in mq.attack(release, original=PEOPLE)}
    assert exposed == {each.name: each.records for each in mq.attack(release, original=table)}
    assert exposed["prosecutor"]
    rolled = mq.roll_up(release, mq.KAnonymity(QID, k=30))
    assert "difference" in {each.name for each in mq.attack(rolled, earlier=[release])}


def test_a_table_is_attacked_by_a_requirement() -> None:
    with pytest.raises(mq.ParameterError, match="requirement parameter must be a requirement"):
        mq.attack(PEOPLE)


def test_a_release_of_which_some_rows_are_here_is_not_attacked() -> None:
    from dataclasses import replace

    release = mq.anonymize(guessed(), mq.KAnonymity(QID, k=10), mq.Mondrian())
    with pytest.raises(mq.ParameterError, match="attack_job"):
        mq.attack(replace(release, released_rows=release.released + 1))
