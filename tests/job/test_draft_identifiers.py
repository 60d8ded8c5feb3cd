"""What identifies people is never drafted for publication, by its name in many languages and by its cells."""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from adult import adult
from examples import examples
from job.hospital import CONTACTS, DIAGNOSES, NAME_COLUMNS, WRITTEN, nhs_number, people, plain_columns
from masquerade.jobs import RoleProposal
from masquerade.jobs.drafts.profile import profile
from masquerade.jobs.drafts.roles import propose_roles

N = 240

_REACHING = """
address Adresse Anschrift street Straße Hausnummer phone Telefonnummer téléphone teléfono telefon_nr
puhelin mobile Handynummer e-mail EmailAddress correo account account_number Kontonummer konto_nr IBAN
patient_id PatientID customer_no Kundennummer NHS_Number passport dni PESEL bsn codice_fiscale
personnummer fødselsnummer henkilötunnus rodné_číslo adres dirección indirizzo morada osoite lakcím
Versichertennummer policy_number ip_address username phone2 insurance_no
"""


def proposals(cells: dict[str, list[str]], sensitive: tuple[str, ...] = ()) -> dict[str, RoleProposal]:
    columns = [profile(name, pa.chunked_array([each]), ["", "?"]) for name, each in cells.items()]
    return propose_roles(columns, None, sensitive)


def roles(cells: dict[str, list[str]]) -> dict[str, str]:
    return {name: each.role for name, each in proposals(cells).items()}


def plain(seed: int = 1, rows: int = N) -> dict[str, list[str]]:
    return plain_columns(random.Random(seed), rows)


@pytest.mark.parametrize("name", NAME_COLUMNS)
def test_a_column_of_names_is_an_identifier_though_they_repeat(name: str) -> None:
    few = ["Thwindle", "Zorvaster", "Gwexomby"] * (N // 3)
    assert roles({name: few, **plain()})[name] == "identifier"


@pytest.mark.parametrize("name", _REACHING.split())
def test_what_reaches_a_person_is_an_identifier_by_its_name(name: str) -> None:
    assert roles({name: ["a1", "b2", "c3"] * (N // 3), **plain()})[name] == "identifier"


@pytest.mark.parametrize("kind", CONTACTS)
def test_what_reaches_a_person_is_an_identifier_by_its_cells(kind: str) -> None:
    draw = random.Random(3)
    assert roles({"x": [CONTACTS[kind](draw) for _ in range(N)], **plain()})["x"] == "identifier"


@pytest.mark.parametrize("written", ["last", "first last", "last, first", "capitals", "titled"])
def test_names_are_recognised_by_what_they_are(written: str) -> None:
    cells = [WRITTEN[written](names) for names in people(random.Random(5), N, known=True)]
    assert roles({"x": cells, **plain()})["x"] == "identifier"


def test_names_that_another_column_has_are_found_under_any_name() -> None:
    drawn = people(random.Random(7), N, known=False)
    cells = {
        "Surname": [each[1] for each in drawn],
        "contact ref": [f"{each[1]} / {at % 9}" for at, each in enumerate(drawn)],
    }
    assert roles({**cells, **plain()})["contact ref"] == "identifier"


def test_capitalised_words_with_very_many_values_are_left_out_and_said() -> None:
    drawn = people(random.Random(7), N, known=False)
    found = proposals({"x": [" ".join(each) for each in drawn], **plain()})["x"]
    assert found.role == "other"
    assert "might be people's names" in found.reason


@pytest.mark.parametrize("name", ["age", "sex", "city", "job", "native_country", "workclass", "ward"])
def test_what_describes_people_is_no_name(name: str) -> None:
    assert roles(plain())[name] == "quasi-identifier"


def test_numbers_are_no_names_whatever_they_are_called() -> None:
    cells = {"nombre_enfants": [str(at % 5) for at in range(N)], "nombre": [str(at % 7) for at in range(N)]}
    assert set(roles(cells).values()) == {"quasi-identifier"}


def test_towns_and_jobs_with_very_many_values_keep_their_place() -> None:
    words = [
        f"{first}{last}" for first in ("New ", "Old ", "Upper ") for last in map("Ham{}".format, "abcdefghijklmnopqrst")
    ]
    cells = {"city": words * 4, "occupation": sorted(words * 4)}
    assert set(roles(cells).values()) == {"quasi-identifier"}


def test_no_column_of_adult_is_taken_for_a_name() -> None:
    table = adult().arrow
    columns = [profile(name, table.column(name), ["", "?"]) for name in table.column_names]
    found = propose_roles(columns, "income", ())
    assert {each.role for each in found.values()} == {"class", "quasi-identifier", "other"}
    left_out = {name: each.reason for name, each in found.items() if each.role == "other"}
    assert "the same as education" in left_out["education-num"]
    assert all(
        "limit" in each or "the more attributes" in each for name, each in left_out.items() if name != "education-num"
    )


def test_direct_identifiers_take_no_place_of_a_quasi_identifier() -> None:
    drawn = people(random.Random(2), N, known=True)
    direct = {name: [each[1] for each in drawn] for name in NAME_COLUMNS[:12]}
    others = {f"c{at}": [str(draw % (3 + at)) for draw in range(N)] for at in range(9)}
    found = roles({**direct, **others, "age": plain()["age"]})
    assert {name for name, role in found.items() if role == "quasi-identifier"} == {*others, "age"}


@pytest.mark.parametrize("name", ["diagnosis", "Diagnose", "ICD10", "enfermedad", "maladie", "choroba", "main code"])
def test_diagnoses_are_proposed_as_sensitive(name: str, tmp_path: Path) -> None:
    cells = plain()
    cells[name] = cells.pop("diagnosis")
    assert roles(cells)[name] == "sensitive"
    path = tmp_path / "stays.csv"
    write(path, cells)
    draft = mq.draft(path, tmp_path / "job.toml")
    release = mq.anonymize_job(draft.job)
    assert {each["model"] for each in release.summary["requirements"]} == {"k-anonymity", "l-diversity"}
    assert set(release.release.table[name].to_pylist()) == set(DIAGNOSES)


def test_one_of_two_columns_that_say_the_same_takes_a_place() -> None:
    levels = {"School": "9", "College": "13", "Doctorate": "16"}
    education = [list(levels)[at * at % 3] for at in range(N)]
    cells = {"education": education, "education_num": [levels[each] for each in education], **plain()}
    found = proposals(cells)
    assert (found["education"].role, found["education_num"].role) == ("quasi-identifier", "other")
    assert "the same as education" in found["education_num"].reason


def test_columns_that_only_seem_to_say_the_same_in_few_rows_stay() -> None:
    numbers = random.Random(1).sample(range(10**6), N)
    cells = {"gain": [f"{each}.5" for each in numbers], "loss": [f"{-each}.25" for each in numbers]}
    assert set(roles(cells).values()) == {"quasi-identifier"}


def write(path: Path, cells: dict[str, list[str]]) -> None:
    rows = [list(cells), *zip(*cells.values(), strict=True)]
    path.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows) + "\n", "utf-8")


@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(sorted(WRITTEN)), st.sampled_from(NAME_COLUMNS))
@settings(max_examples=examples(25))
def test_a_release_from_a_draft_never_holds_a_name(seed: int, known: bool, written: str, called: str) -> None:
    draw = random.Random(seed)
    drawn = people(draw, N, known=known)
    cells = {
        called: [each[1] for each in drawn],  # a column that says what it is
        "x": [WRITTEN[written](each) for each in drawn],  # and two that do not
        "ref": [WRITTEN[draw.choice(sorted(WRITTEN))](each) for each in drawn],
        "nhs": [nhs_number(draw) for _ in drawn],
        **plain(seed),
    }
    order = draw.sample(list(cells), len(cells))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stays.csv"
        write(path, {name: cells[name] for name in order})
        draft = mq.draft(path, Path(folder) / "job.toml", k=draw.choice([1, 2, 5]))
        made = mq.anonymize_job(draft.job)
        released = made.table.read_text("utf-8").lower()
    names = {word.lower() for each in drawn for word in each}
    assert not names & set(re.findall(r"[^\W\d_]+", released))
