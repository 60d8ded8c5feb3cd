"""Synthetic people: a seeded generator of tables with taxonomies and a job, for trials and tests.

Education influences the job, both the salary, all three the loan approval, and age the disease, so that an
algorithm finds structure to keep. Only the raw bits of numpy's PCG64 are used, whose stream never changes,
and no function whose last digit depends on the machine: a seed always gives the same table.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.data.continuum import days
from masquerade.data.people_words import (
    DISEASES,
    EDUCATIONS,
    FEMALE,
    JOB,
    JOBS,
    LAST,
    MALE,
    TAXONOMIES,
    TOWNS,
)
from masquerade.data.write import write_table
from masquerade.errors import ParameterError
from masquerade.files import write_whole

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_PEOPLE = 10**8  # the count of numbers that begin with a 9, as no real one does
_OTHER_STREAM = 0x5EED  # who knows whom is drawn independently of the people
_TODAY = days(datetime.date(2025, 1, 1))
_RETIRED, _STUDENT = list(JOBS).index("Retired"), list(JOBS).index("Student")

ORGANISATIONS: Mapping[str, Sequence[str]] = {
    "bank": ("name", "job", "education", "salary", "approved"),
    "insurer": ("town", "hours", "children"),
    "clinic": ("name", "birth_date", "sex", "disease"),
}
"""Three organisations that know different things about the same people."""


def generate_people(n: int, seed: int = 7, *, missing: float = 0.0) -> pa.Table:
    """Generate a table of n people.

    Columns: ssn (unique), name, birth_date, sex, town, job, education, hours, salary (thousands a year),
    children, disease (sensitive) and approved (the class). `missing` is the share of cells, of all columns
    but ssn, that are missing: "?" in columns of text, null in the others.
    """
    if not 0 <= n <= MOST_PEOPLE:
        raise ParameterError(
            f"The n parameter of generate_people must be 0 to {MOST_PEOPLE}. Got {n!r} instead."
        )
    if seed < 0:
        raise ParameterError(
            f"The seed parameter of generate_people must be at least 0. Got {seed!r} instead."
        )
    if not 0 <= missing <= 1:
        raise ParameterError(
            f"The missing parameter of generate_people must be a share from 0 to 1. Got {missing!r} instead."
        )
    dice = _Dice(n, seed)
    age = 18 + 72 * dice.roll() * (0.5 + 0.5 * dice.roll())  # fewer old people than young
    female = dice.roll() < 0.51
    education = dice.choose([share for share, _ in EDUCATIONS.values()])
    level = np.array([level for _, level in EDUCATIONS.values()])[education]
    job = _jobs(dice, level, age)
    town = dice.choose([share for share, _ in TOWNS.values()])
    wealth = np.array([wages for _, wages in TOWNS.values()])[town] / 100
    wages = np.array([salary for _, salary, _ in JOBS.values()], float)[job]
    week = np.array([hours for _, _, hours in JOBS.values()], float)[job]

    hours = np.clip(np.rint(week + 6 * dice.bell()), 0, 80).astype(np.int64)
    experience = np.minimum(age - 18, 40) / 40
    salary = wages * wealth * (0.7 + 0.05 * level + 0.35 * experience) * (1 + 0.15 * dice.bell())
    salary = np.rint(10 * np.maximum(salary, 1)) / 10
    children = np.floor(4 * dice.roll() * dice.roll() * np.clip((age - 20) / 15, 0, 1)).astype(np.int64)
    merit = 0.035 * (salary - 42) + 0.25 * (level - 3) + 0.02 * (hours - 38) - 0.2 * children + wealth - 1
    approved = merit + dice.bell() > 0

    first = np.where(female, dice.below(len(FEMALE)), len(FEMALE) + dice.below(len(MALE)))
    names = [f"{given} {family}" for given in (*FEMALE, *MALE) for family in LAST]
    birth = (_TODAY - np.floor(age * 365.25)).astype(np.int32)
    table = pa.table(
        {
            "ssn": _numbers(n, seed),
            "name": _words(first * len(LAST) + dice.below(len(LAST)), names),
            "birth_date": pa.array(birth).view(pa.date32()),
            "sex": _words(female.astype(np.int64), ("Male", "Female")),
            "town": _words(town, list(TOWNS)),
            "job": _words(job, list(JOBS)),
            "education": _words(education, list(EDUCATIONS)),
            "hours": pa.array(hours),
            "salary": pa.array(salary),
            "children": pa.array(children),
            "disease": _words(_diseases(dice, age), list(DISEASES)),
            "approved": _words(approved.astype(np.int64), ("no", "yes")),
        }
    )
    return _with_holes(table, dice, missing) if missing else table


def split_people(
    people: pa.Table,
    holdings: Mapping[str, Sequence[str]] = ORGANISATIONS,
    seed: int = 7,
    known: float = 0.85,
) -> dict[str, pa.Table]:
    """Split the people into one table per organisation, each with its own columns and the ssn.

    Each organisation knows its own random `known` share of the people, and lists them in its own order.
    """
    if not 0 <= known <= 1:
        raise ParameterError(
            f"The known parameter of split_people must be a share from 0 to 1. Got {known!r} instead."
        )
    dice = _Dice(people.num_rows, seed ^ _OTHER_STREAM)
    tables = {}
    for name, columns in holdings.items():
        order = np.argsort(dice.roll(), kind="stable")
        tables[name] = people.select(["ssn", *columns]).take(pa.array(order[dice.roll() < known]))
    return tables


def common_people(people: pa.Table, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return the people known to every organisation: what a trusted party would get by joining the tables."""
    for table in tables.values():
        people = people.filter(pc.is_in(people["ssn"], table["ssn"].combine_chunks()))
    return people


def people_taxonomies() -> dict[str, str]:
    """Return the text of each taxonomy file, by file name."""
    return dict(TAXONOMIES)


def people_job() -> str:
    """Return a job file that anonymises `people.csv` with the taxonomies in `taxonomies/`."""
    return JOB


def write_people(folder: Path, n: int, seed: int = 7, *, missing: float = 0.0) -> Path:
    """Write people.csv, taxonomies/ and job.toml into a folder; return the job's path."""
    people = generate_people(n, seed, missing=missing)
    try:
        (folder / "taxonomies").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{folder}: cannot be written: {error.strerror or error}") from None
    write_table(people, folder / "people.csv")
    for name, text in people_taxonomies().items():
        write_whole(folder / "taxonomies" / name, text)
    job = folder / "job.toml"
    write_whole(job, people_job())
    return job


class _Dice:
    """Random columns of n rows."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self._bits = np.random.PCG64(seed)

    def roll(self) -> Floats:
        """Draw uniformly from [0, 1)."""
        raw = self._bits.random_raw(self.n) if self.n else np.empty(0, np.uint64)
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def bell(self) -> Floats:
        """Draw from an approximately normal distribution: mean 0, deviation 1, never beyond ±3."""
        return 2 * (self.roll() + self.roll() + self.roll() - 1.5)

    def below(self, n: int) -> Ints:
        """Draw integers from 0 to n−1."""
        return (self.roll() * n).astype(np.int64)

    def choose(self, weights: Sequence[int]) -> Ints:
        """Draw positions in proportion to their weights."""
        ends = np.cumsum(weights)
        return _positions(ends, self.roll())


def _positions(ends: Ints, chance: Floats) -> Ints:
    """Find where each chance in [0, 1) falls among the running sums of weights."""
    positions: Ints = np.searchsorted(ends, chance * ends[-1], side="right")
    return positions


def _jobs(dice: _Dice, level: Ints, age: Floats) -> Ints:
    """Draw jobs that mostly match the education; students are young, retired people old."""
    asked = np.array([level for level, _, _ in JOBS.values()])
    chance = dice.roll()
    job = np.zeros(dice.n, np.int64)
    for have in range(int(asked.max()) + 1):
        weights = np.maximum(1, 64 >> np.minimum(2 * np.abs(asked - have), 6))
        weights[[_RETIRED, _STUDENT]] = 0
        ends = np.cumsum(weights)
        at = level == have
        job[at] = _positions(ends, chance[at])
    job[(age < 25) & (dice.roll() < 0.5)] = _STUDENT
    job[(age > 64) & (dice.roll() < 0.9)] = _RETIRED
    return job


def _diseases(dice: _Dice, age: Floats) -> Ints:
    weights = np.array(list(DISEASES.values()))
    chance = dice.roll()
    disease = np.zeros(dice.n, np.int64)
    for time_of_life, at in enumerate((age < 35, (age >= 35) & (age < 60), age >= 60)):
        ends = np.cumsum(weights[:, time_of_life])
        disease[at] = _positions(ends, chance[at])
    return disease


def _words(codes: Ints, words: Sequence[str]) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(codes))


def _numbers(n: int, seed: int) -> pa.Array:
    """Return unique numbers like 912-34-5678, in no apparent order."""
    # Multiplying by a number coprime to 10^8 permutes the numbers below 10^8.
    serial = (np.arange(n, dtype=np.int64) * 61_803_399 + seed * 27_182_818 % MOST_PEOPLE) % MOST_PEOPLE
    letters = np.full((n, 11), ord("-"), np.uint8)
    letters[:, 0] = ord("9")
    for place in (10, 9, 8, 7, 5, 4, 2, 1):
        serial, digit = np.divmod(serial, 10)
        letters[:, place] = digit + ord("0")
    ends = np.arange(0, 11 * (n + 1), 11, dtype=np.int64)
    text = pa.LargeStringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(letters.tobytes()))
    return text.cast(pa.string())


def _with_holes(table: pa.Table, dice: _Dice, missing: float) -> pa.Table:
    for at, field in enumerate(table.schema):
        if field.name == "ssn":
            continue
        hole = pa.array(dice.roll() < missing)
        nothing = pa.scalar("?" if field.type == pa.string() else None, field.type)
        table = table.set_column(at, field, pc.if_else(hole, nothing, table.column(at)))
    return table
