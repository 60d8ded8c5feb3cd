"""A method on chunks makes the release that it makes of the whole table, and says the same of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from chunked import MISSING, in_chunks, plain, rows_of, same_in_chunks, write_parts
from masquerade.anonymize import wanted_of
from masquerade.anonymize.mondrian import counted_cuts, linked
from masquerade.anonymize.mondrian.cuts import CutGroups
from masquerade.data import partitioned_files, read_chunks
from masquerade.data.write import expanded
from masquerade.engine import LocalEngine
from masquerade.engine.local import LocalChunks
from masquerade.errors import Bug, DataError, ParameterError, RequirementUnreachable
from masquerade.report import attacks_on
from masquerade.report.risks import risks_section
from masquerade.utility import comparison

SCHEMA = mq.Schema(
    [
        mq.Attribute("birth_date", "date"),
        mq.Attribute("sex", taxonomy="flat"),
        mq.Attribute("town", taxonomy="flat"),
        mq.Attribute("salary", "continuous"),
        mq.Attribute("children", "continuous", lower=0, upper=20),
        mq.Attribute("education"),
    ]
)
QID = ["birth_date", "sex", "town", "salary", "children"]
TREES = ["sex", "town"]
K = mq.KAnonymity(QID, k=12)


def people(n: int = 400, missing: float = 0.05) -> mq.Table:
    return mq.Table(mq.generate_people(n, missing=missing).drop_columns(["ssn", "name"]), SCHEMA)


# What contract/test_chunked_methods.py has not: dates, bounds, missing cells that are kept, several QIDs and providers.
CASES: dict[str, tuple[mq.Requirement, Any, dict[str, Any]]] = {
    "tds, missing cells kept": (K, mq.TopDownSpecialization("approved"), {"missing": "keep"}),
    "tds, suppression": (K, mq.TopDownSpecialization("approved", suppression=0.1), {}),
    "tds, several QIDs": (
        mq.KAnonymity(QID[:3], k=9) & mq.KAnonymity(QID[2:], k=20) & mq.LDiversity(QID[1:4], l=3, sensitive="disease"),
        mq.TopDownSpecialization("approved"),
        {},
    ),
    "mondrian": (K, mq.Mondrian(), {}),
    "mondrian, missing cells kept": (K, mq.Mondrian(strict=True), {"missing": "keep"}),
    "mondrian, QIDs that share attributes": (
        mq.KAnonymity(QID[:3], k=9) & mq.KAnonymity(QID[2:], k=20) & mq.LDiversity(QID[1:4], l=3, sensitive="disease"),
        mq.Mondrian("approved", choose="information-gain"),
        {"missing": "keep"},
    ),
    "mondrian, provider-aware beside QIDs that share attributes": (
        mq.MPrivacy(
            1,
            mq.KAnonymity(QID[:1], k=4)
            & mq.KAnonymity(QID[1:3], k=6)
            & mq.TCloseness(QID[2:], t=0.6, sensitive="disease"),
            "education",
        ),
        mq.ProviderAwareMondrian(strict=True),
        {},
    ),
    "tds, m-privacy, missing cells kept": (
        mq.MPrivacy(1, mq.KAnonymity(QID, k=5), "education"),
        mq.TopDownSpecialization("approved"),
        {"missing": "keep"},
    ),
    "mondrian, provider-aware": (
        mq.MPrivacy(2, mq.KAnonymity(QID, k=6), "education"),
        mq.Mondrian(provider_aware=True),
        {"sensitive": ("disease",)},
    ),
    "mondrian, provider-aware, by fitness": (
        mq.MPrivacy(1, mq.KAnonymity(QID, k=4) & mq.LDiversity(QID, l=2, sensitive="disease"), "education"),
        mq.ProviderAwareMondrian(choose="fitness"),
        {},
    ),
    "mondrian, provider-aware, by class, two QIDs": (
        mq.MPrivacy(1, mq.KAnonymity(QID[:2], k=4), "education") & mq.KAnonymity(QID[2:], k=9),
        mq.ProviderAwareMondrian("approved", choose="information-gain"),
        {},
    ),
    "datafly, whole columns, values": (
        mq.KAnonymity(TREES, k=8) & mq.LDiversity(TREES, l=3, sensitive="disease"),
        mq.Datafly(whole_columns=True),
        {},
    ),
}

# Groups of up to so many rows are brought together by Mondrian; larger ones are cut by counts.
MANY = ("mondrian", "mondrian, provider-aware", "mondrian, QIDs that share attributes")
TOGETHER = {case: (30, 150, 10_000) if case in MANY else (60,) for case in CASES}


@pytest.mark.parametrize(("case", "rows_at_once"), [(case, n) for case in CASES for n in TOGETHER[case]])
def test_chunks_give_what_the_whole_table_gives(
    case: str, rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirement, method, more = CASES[case]
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: rows_at_once)
    release, whole = same_in_chunks(people(), requirement, method, tmp_path, **more)
    assert release.sensitive_before == whole.sensitive_before
    assert (release.suppressed > 0) == ("suppression" in case)
    assert len(whole.summary["steps"]) != 0 or "tds" not in case


ALONE: dict[str, tuple[mq.Requirement, Any]] = {
    "by sizes": (mq.KAnonymity(QID, k=3), mq.Mondrian()),
    "by values": (mq.KAnonymity(QID, k=3) & mq.LDiversity(QID, l=2, sensitive="disease"), mq.Mondrian()),
    "between providers": (mq.MPrivacy(1, mq.KAnonymity(QID, k=3), "education"), mq.ProviderAwareMondrian()),
}


@pytest.mark.parametrize("rows_at_once", [9, 10_000])
@pytest.mark.parametrize("case", ALONE)
def test_groups_that_one_chunk_has_are_cut_where_they_are(
    case: str, rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside others that are done already, because they were cut by counts."""

    def exchange(*_: Any) -> Any:
        pytest.fail("records are sent to where they are")

    requirement, method = ALONE[case]
    table = people(40, missing=0)
    whole = method.run_on_table(table, requirement)
    write_parts(table.arrow, tmp_path / "people", 1)
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: rows_at_once)
    monkeypatch.setattr(LocalChunks, "exchange", exchange)
    with LocalEngine(threads=1, folder=tmp_path) as engine:
        files = partitioned_files("people", tmp_path)
        object.__setattr__(files, "parts", lambda _: type(files).parts(files, 40))
        records = read_chunks(files, wanted_of(SCHEMA, requirement, None, (), "drop", MISSING), engine)
        assert len(records.chunks) == 1
        made = method.run(records, requirement).in_table(records)
    assert len(set(made.columns[0].labels)) > 1
    for ours, theirs in zip(made.columns, whole.columns, strict=True):
        assert ours.labels == theirs.labels
        assert np.array_equal(ours.codes, theirs.codes)


AGES = mq.Schema([mq.Attribute("age", "continuous")])
ALIKE: dict[int, mq.Requirement] = {  # by the seed of people who look alike in parts of one group, and violate as one
    18: mq.TCloseness(["age"], t=0.4, sensitive="disease"),
    16: mq.ConfidenceBounding(["age"], confidence=0.7, sensitive="disease"),
    22: mq.AlphaKAnonymity(["age"], k=2, alpha=0.7, sensitive="disease"),
}


@pytest.mark.parametrize("rows_at_once", [8, 10_000])
@pytest.mark.parametrize("seed", ALIKE)
def test_cuts_between_providers_are_undone_where_parts_violate_as_one_group(
    seed: int, rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were made by counts, and those inside of a chunk with whole groups."""
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: rows_at_once)
    undone = []
    kept = CutGroups.undone
    monkeypatch.setattr(
        CutGroups,
        "undone",
        lambda *given: undone.append(kept(*given)) or undone[-1],  # type: ignore[func-returns-value]
    )
    chance, n = np.random.default_rng(seed), 120
    frame = pa.table(
        {
            "age": chance.integers(20, 27, n),
            "disease": chance.choice(["Asthma", "Flu", "HIV"], n),
            "clinic": chance.choice(list("AABC"), n),
        }
    )
    requirement, method = mq.MPrivacy(1, ALIKE[seed], "clinic"), mq.ProviderAwareMondrian()
    same_in_chunks(mq.Table(frame, AGES), requirement, method, tmp_path, sensitive=("disease",))
    assert any(each.size for each in undone), "otherwise nothing is shown here"


@pytest.mark.parametrize("whole_columns", [False, True])
def test_records_that_datafly_cannot_save_are_left_out(whole_columns: bool, tmp_path: Path) -> None:
    """Two of a rare value, fewer than k, in different chunks."""
    values = ["a"] * 30 + ["rare"] + ["b"] * 30 + ["rare"]
    schema = mq.Schema([mq.Attribute("value", taxonomy="flat")])
    table = mq.Table(pa.table({"value": values, "number": list(range(62))}), schema)
    method = mq.Datafly(whole_columns=whole_columns)
    release, _ = same_in_chunks(table, mq.KAnonymity(["value"], 5), method, tmp_path, sensitive=("number",))
    assert release.suppressed == 2


def test_shuffled_rows_are_the_same_in_an_order_of_their_own(tmp_path: Path) -> None:
    table = people(missing=0)
    method = mq.TopDownSpecialization("approved")
    _, rows = in_chunks(table, K, method, tmp_path, shuffle=True, sensitive=("disease",))
    whole = mq.anonymize(table, K, method, order="input", sensitive=["disease"])
    assert not rows.equals(plain(whole.table))
    assert rows_of(rows) == rows_of(whole.table)


def test_the_order_is_expanded_from_a_secret() -> None:
    """Whoever takes over from a lost worker puts the same rows into the same files; nobody else knows which."""
    secret = bytes(range(32))
    one, again = expanded(secret, 1, 3, 100), expanded(secret, 1, 3, 100)
    assert np.array_equal(one, again)
    for other in (expanded(secret, 2, 3, 100), expanded(secret, 1, 4, 100), expanded(bytes(32), 1, 3, 100)):
        assert not np.isin(one, other).any()


def test_a_bad_cell_is_named_by_its_file_and_row(tmp_path: Path) -> None:
    table = people(missing=0).arrow
    cells = table.column("town").to_pylist()
    cells[250] = "Atlantis"
    table = table.set_column(table.column_names.index("town"), "town", [cells])
    towns = mq.Taxonomy.flat(sorted(set(cells) - {"Atlantis"}))
    schema = mq.Schema([mq.Attribute("town", taxonomy=towns)])
    with pytest.raises(DataError, match=r'part-2\.parquet: row 51, column town: "Atlantis" is no leaf'):
        in_chunks(mq.Table(table, schema), mq.KAnonymity(["town"], 2), mq.TopDownSpecialization(), tmp_path)


def test_what_cannot_be_reached_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(RequirementUnreachable, match="even the group of all records has 400 records"):
        in_chunks(people(missing=0), mq.KAnonymity(QID, 401), mq.TopDownSpecialization(), tmp_path)
    assert not list((tmp_path / "release").iterdir())


LEVELS = mq.Taxonomy(
    mq.Branch(
        "Any",
        (
            mq.Branch("School", tuple(map(mq.Branch, ("Primary", "Lower-secondary", "Upper-secondary")))),
            mq.Branch("Trade", tuple(map(mq.Branch, ("Apprenticeship", "No-schooling")))),
            mq.Branch("Degree", tuple(map(mq.Branch, ("Bachelor", "Master", "Doctorate")))),
        ),
    ),
    "levels",
)
WITHIN = ("School", "Trade", "Any", "Doctorate")
BOUNDED = mq.Schema(
    [
        mq.Attribute("education", taxonomy=LEVELS, max_generalization=WITHIN),
        mq.Attribute("sex", taxonomy="flat"),
        mq.Attribute("salary", "continuous", max_width=25),
    ]
)


@pytest.mark.parametrize(
    ("method", "numbers"),
    [
        (mq.TopDownSpecialization("approved"), True),
        (mq.TopDownSpecialization(suppression=0.05), True),
        (mq.Mondrian(), True),
        (mq.Mondrian(merge="small"), True),  # of QIDs that share attributes
        (mq.Datafly(), False),
        (mq.Datafly(whole_columns=True), False),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_boundaries_are_kept_to(method: Any, numbers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that no release within them can hold are left out, and the others start from them."""
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 60)
    table = mq.Table(people(missing=0.02).arrow, BOUNDED)
    qid = ["education", "sex", *(["salary"] if numbers else [])]
    also = qid if getattr(method, "merge", None) is None else qid[1:]
    requirement = mq.ConstrainedKAnonymity(qid, k=9) & mq.LDiversity(also, l=2, sensitive="disease")
    release, whole = same_in_chunks(table, requirement, method, tmp_path)
    assert release.metrics["violations"] == 0
    if method != mq.Datafly():  # without salaries all can be released
        assert release.suppressed > 0
    assert release.boundaries == whole.boundaries
    assert release.sensitive_before == whole.sensitive_before
    assert bool(release.sensitive_before) == numbers, "where enough are left out it may be told"


def test_boundaries_that_nobody_fits_are_told(tmp_path: Path) -> None:
    schema = mq.Schema([mq.Attribute("salary", "continuous", max_width=0)])
    table = mq.Table(people(missing=0).arrow, schema)
    with pytest.raises(RequirementUnreachable, match="every record is in a group that violates even at them"):
        in_chunks(table, mq.KAnonymity(["salary"], 40), mq.TopDownSpecialization(), tmp_path)


QUERIES = """
SELECT count(*) FROM people WHERE salary < 30 AND town IN ('Rome', 'Milan');
SELECT * FROM people WHERE birth_date >= '1970-01-01' AND salary BETWEEN 20 AND 45;
SELECT * FROM people WHERE education = 'Master' OR children = 0;
SELECT * FROM people WHERE town = 'Rome' AND approved = 'yes' AND salary > 1 + children;
"""


@pytest.mark.parametrize("rows_at_once", [40, 120, 10_000])
@pytest.mark.parametrize(("missing", "shared"), [("drop", False), ("keep", False), ("drop", True)])
def test_a_workload_cuts_chunks_where_it_cuts_one_table(
    rows_at_once: int, missing: str, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Selections are measured alike, too, from counts of the chunks."""
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: rows_at_once)
    log = tmp_path / "queries.sql"
    log.write_text(QUERIES)
    table, method = people(), mq.Mondrian(workload=str(log))
    requirement: mq.Requirement = mq.KAnonymity(QID, k=6)
    if shared:
        requirement = mq.KAnonymity(QID[:4], k=6) & mq.KAnonymity(QID[2:], k=4)
    more: Any = {"missing": missing, "sensitive": ("approved",)}
    release, whole = same_in_chunks(table, requirement, method, tmp_path, **more)
    assert release.purpose["selection_precision"] is not None
    plainly = mq.anonymize(table, requirement, mq.Mondrian(), order="input", **more)
    assert not plainly.table.equals(whole.table)


class OnChunks(mq.Auto):
    """The methods that run on chunks, for one table, too."""

    def methods(self) -> Any:
        return [each for each in super().methods() if not each.needs_whole_table]


@pytest.mark.parametrize("measure", ["ncp", "discernibility", "classification_metric", "selection_recall"])
def test_the_best_on_chunks_is_the_best_on_one_table(
    measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever wins: methods that run after it write over what it left beside the records."""
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 60)
    log = tmp_path / "queries.sql"
    log.write_text(QUERIES)
    method = OnChunks("approved", measure=measure, workload=str(log))
    release, _ = same_in_chunks(people(), mq.KAnonymity(QID, k=6), method, tmp_path)
    assert release.choice is not None
    assert len(release.choice.tried) > 3


def test_without_a_measure_the_best_is_chosen_by_one_that_counts_tell(tmp_path: Path) -> None:
    release, _ = in_chunks(people(), mq.KAnonymity(QID, k=6), mq.Auto("approved"), tmp_path)
    assert release.choice is not None
    assert release.choice.measure == "classification_metric"
    assert release.settings["algorithm"]["measure"] == "classification_metric"


def test_a_method_that_breaks_its_requirement_is_caught_in_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check counts the finished files, whatever the method has counted."""
    from masquerade.anonymize import QidGroups

    monkeypatch.setattr(QidGroups, "allows", lambda *_: True)
    with pytest.raises(Bug, match="made a release that its requirement refuses; nothing was written"):
        in_chunks(people(missing=0), K, mq.TopDownSpecialization("approved"), tmp_path)


@pytest.mark.parametrize(
    "requirement",
    [K & mq.LDiversity(QID, l=2, sensitive="disease"), mq.MPrivacy(1, mq.KAnonymity(QID, k=6), "education")],
)
@pytest.mark.parametrize("largest_key", [1 << 62, 100])
def test_attacks_by_counts_find_what_they_find_in_all_rows(
    requirement: mq.Requirement, largest_key: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that need no other table; the provider is released, so coalitions are played, too.

    The values of a group may be more than a number of 64 bits can tell.
    """
    monkeypatch.setattr(comparison, "_LARGEST_KEY", largest_key)
    method: Any = mq.TopDownSpecialization("approved")
    sensitive = ("disease", *(["education"] if requirement.provider_columns else []))
    release, _ = in_chunks(people(missing=0), requirement, method, tmp_path, sensitive=sensitive)
    whole = mq.anonymize(people(missing=0), requirement, method, sensitive=sensitive)
    found = attacks_on(release)
    assert found == attacks_on(whole)
    assert risks_section(release, found) == risks_section(whole, found), "with the chart of attribute sets"
    names = {each.name for each in found}
    assert {"prosecutor", "marketer", "homogeneity", "skewness", "background-knowledge"} <= names
    for played in ("homogeneity", "skewness"):
        assert {"disease", "approved"} <= {each.attribute for each in found if each.name == played}
    assert ("subtraction" in names) == bool(requirement.provider_columns)


@pytest.mark.parametrize(
    ("requirement", "module"),
    [
        (mq.KAnonymity(["birth_date", "salary"], k=2), counted_cuts),
        (mq.KAnonymity(["birth_date", "sex"], k=2) & mq.KAnonymity(["sex", "salary"], k=2), linked),
    ],
)
def test_counts_of_very_many_values_that_do_not_fit_are_refused(
    requirement: mq.Requirement, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many bytes a count as make a few hundred fill the memory: what a million take in life."""
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 14)
    monkeypatch.setattr(module, "_BYTES_PER_PAIR", 1 << 25)
    with pytest.raises(ParameterError, match=r'memory: must be at least .*GB for this; got "8GB"; up to \d+ counts of'):
        in_chunks(people(), requirement, mq.Mondrian(), tmp_path)
