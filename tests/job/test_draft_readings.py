"""Numbers, times and missing words as people write them: a draft reads them, and runs as it is."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.jobs.drafts.profile import Profile, profile

N = 120


def column(cells: list[str], name: str = "x") -> Profile:
    return profile(name, pa.chunked_array([cells]), ["", "?"])


def money(form: str) -> list[str]:
    draw = random.Random(1)
    written = [f"{draw.randrange(100, 9_000_000) / 100:,.2f}" for _ in range(N)]
    signs = str.maketrans({",": form[0], ".": form[1]})
    return [form[2:].replace("N", each.translate(signs)) for each in written]


NUMBERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "dollars": (money(",.$N"), {"thousands": ",", "unit": "$"}),
    "euros after a space": (money(".,N €"), {"decimal": ",", "thousands": ".", "unit": "€"}),
    "thousands alone": (money(",.N"), {"thousands": ","}),
    "Swiss": (money("'.CHF N"), {"thousands": "'", "unit": "CHF"}),
    "spaces": (money(" ,N"), {"decimal": ",", "thousands": " "}),
    "spaces that do not break": (money("\u202f,N\u00a0€"), {"decimal": ",", "thousands": " ", "unit": "€"}),
    "percent": ([f"{at % 90}.5 %" for at in range(N)], {"unit": "%"}),
    "whole with commas": ([f"{1 + at % 9},{100 + at}" for at in range(N)], {"thousands": ","}),
    "negative": ([f"-${at}.50" if at % 2 else f"${at}" for at in range(N)], {"unit": "$"}),
}


def drafted(cells: dict[str, list[str]], folder: Path) -> dict[str, Any]:
    """Draft, anonymise, and return the job."""
    rows = [list(cells), *zip(*cells.values(), strict=True)]
    path = folder / "table.csv"
    path.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows) + "\n", "utf-8")
    draft = mq.draft(path, folder / "job.toml")
    written = mq.anonymize_job(draft.job)
    assert mq.verify_job(written.table, draft.job)
    job = tomllib.loads(draft.text)
    return {**job, "summary": written.summary, "told": {each["name"]: each["reason"] for each in draft.attributes}}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_read_as_they_are_written(case: str, tmp_path: Path) -> None:
    cells, keys = NUMBERS[case]
    job = drafted({"x": cells, "sex": ["m", "f"] * (N // 2)}, tmp_path)
    section = job["attributes"]["x"]
    assert section.pop("type") == "continuous"
    section.pop("taxonomy")
    assert section == keys
    assert job["summary"]["dropped_rows"] == 0


@pytest.mark.parametrize(
    "cells",
    [
        ["A12", "B7", "C15"],
        ["$", "€", "5"],
        ["5 $", "6 €", "7 $"],
        ["12 kg", "13 mm", "5 kg"],
        ["1,23,456", "7", "8"],
        ["612 345 67", "612 345 68", "5"],
        ["007 $", "008 $", "9 $"],
    ],
)
def test_what_is_no_number_is_none(cells: list[str]) -> None:
    assert column(cells).type != "number"


def test_a_point_before_three_digits_is_a_decimal_point_unless_there_is_a_unit() -> None:
    cells = [f"1.{at}" for at in range(100, 200)]
    assert column(cells).numbers.thousands == ""
    assert column([f"{cell} €" for cell in cells]).numbers.thousands == "."


def times(form: str) -> list[str]:
    draw = random.Random(2)
    return [
        form.format(
            y=draw.randrange(1990, 2024),
            m=draw.randrange(1, 13),
            d=draw.randrange(13, 28),
            H=draw.randrange(1, 12),
            M=draw.randrange(60),
        )
        for _ in range(N)
    ]


TIMES = {
    "{y}-{m:02}-{d}T{H:02}:{M:02}:00Z": "iso",
    "{y}-{m:02}-{d}T{H:02}:{M:02}:07.125+02:00": "iso",
    "{y}-{m:02}-{d} {H:02}:{M:02}": "iso",
    "{d}.{m:02}.{y} {H:02}:{M:02}": "%d.%m.%Y %H:%M",
    "{d}/{m:02}/{y} {H:02}:{M:02}:59": "%d/%m/%Y %H:%M:%S",
    "{m:02}/{d}/{y} {H:02}:{M:02} PM": "%m/%d/%Y %I:%M %p",
}


@pytest.mark.parametrize("form", TIMES)
def test_times_are_dates(form: str, tmp_path: Path) -> None:
    job = drafted({"seen": times(form), "sex": ["m", "f"] * (N // 2)}, tmp_path)
    section = job["attributes"]["seen"]
    assert (section["type"], section["format"]) == ("date", TIMES[form])
    assert job["summary"]["dropped_rows"] == 0


def test_times_of_iso_may_be_written_in_several_ways() -> None:
    cells = ["2024-05-01", "2024-05-02T10:00Z", "2024-05-03 10:00:00+0200", "2024-05-04T10:00:00.5"]
    assert (column(cells).type, column(cells).format) == ("date", "iso")


MISSING = ("NA", "N/A", "null", "none", "-", "unknown", "keine Angabe", "n/d", "NaN", "#N/A", "Unknown")
PLAIN = {
    "postcode": [f"{10115 + at % 40}" for at in range(N)],
    "british": [f"LS{at % 20} {at % 9}AB" for at in range(N)],
    "job": [("cook", "clerk", "driver")[at * at % 3] for at in range(N)],
    "charge": [f"${at % 50}.00" for at in range(N)],
    "seen": [f"{1 + at % 28:02}.05.2024 10:00" for at in range(N)],
}


@pytest.mark.parametrize("word", MISSING)
@pytest.mark.parametrize("name", PLAIN)
def test_missing_words_are_looked_for_in_every_column(name: str, word: str) -> None:
    found, plain = column([word, *PLAIN[name][1:]], name), column(PLAIN[name], name)
    assert (found.type, found.format, found.numbers) == (plain.type, plain.format, plain.numbers)
    assert (found.missing_words, found.present) == ((word,), N - 1)


def test_a_draft_with_missing_words_runs_and_says_them(tmp_path: Path) -> None:
    cells = {name: ["NA", "unknown", *each[2:]] for name, each in PLAIN.items()}
    cells["smoker"] = ["unknown", "yes", "no"] * (N // 3)
    job = drafted(cells, tmp_path)
    assert set(job["data"]["missing_values"]) == {"", "?", "NA", "unknown"}
    assert job["data"]["missing"] == "keep"  # a third of the rows lack a cell
    assert "count as missing" in job["told"]["postcode"]


def test_namibia_is_a_country() -> None:
    countries = ["DE", "FR", "NL", "NA", "PL", "ES", "PT", "IT", "SE", "FI", "DK", "NO", "CZ", "HU"]
    assert column(countries * 9, "country").missing_words == ()


def test_values_that_differ_in_capitals_are_pointed_out(tmp_path: Path) -> None:
    cells = {"sex": ["M", "m", "F", "f", "F ", "M"] * (N // 6), "age": [str(at % 30) for at in range(N)]}
    job = drafted(cells, tmp_path)
    assert '"F" and "f", "M" and "m" differ only in capitals' in job["told"]["sex"]
    assert "differ only" not in job["told"]["age"]
    assert "differ only in" in (tmp_path / "job.toml").read_text("utf-8")
