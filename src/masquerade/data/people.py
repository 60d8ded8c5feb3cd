"""Synthetic people: a seeded generator of tables with taxonomies, for trials and tests.

Education influences the job, both the salary, all three the loan approval, and age the disease, so that an
algorithm finds structure to keep. Only the raw bits of numpy's PCG64 are used, whose stream never changes,
and no function whose last digit depends on the machine: a seed always gives the same table.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.data.continuum import days
from masquerade.errors import ParameterError

# --- people words -------------------------------------------------------------------------------------------
# The vocabulary of the generated people: names, towns, jobs and so on, with their taxonomies.
#
# The people are fictitious: first and last names are drawn independently from two short lists.

FEMALE = (
    "Ada", "Alma", "Amira", "Beatrix", "Carla", "Celia", "Dora", "Elena", "Emma", "Fatima", "Grace",
    "Hanna", "Ines", "Iris", "Julia", "Klara", "Leila", "Lena", "Maria", "Mila", "Nadia", "Nora", "Olga",
    "Petra", "Rosa", "Sara", "Sofia", "Tessa", "Vera", "Zoe",
)  # fmt: skip
MALE = (
    "Adam", "Anton", "Boris", "Carlo", "Daniel", "David", "Emil", "Enzo", "Felix", "Georg", "Hugo", "Ivan",
    "Jakob", "Jonas", "Karim", "Leo", "Luca", "Marco", "Milan", "Nils", "Omar", "Oscar", "Pablo", "Paul",
    "Robin", "Samuel", "Stefan", "Theo", "Victor", "Yusuf",
)  # fmt: skip
LAST = (
    "Abel", "Adler", "Bauer", "Becker", "Bianchi", "Blanc", "Bruno", "Carter", "Costa", "Dubois", "Ferrari",
    "Fischer", "Fontaine", "Gallo", "Garnier", "Haas", "Hahn", "Keller", "Kaya", "Lambert", "Lang", "Leroy",
    "Marino", "Martin", "Meyer", "Moreau", "Morel", "Neri", "Novak", "Petit", "Ricci", "Rossi", "Roux",
    "Sala", "Schmidt", "Serra", "Simon", "Stein", "Vogel", "Weber", "Weiss", "Winter", "Wolf", "Zimmer",
)  # fmt: skip

# Each town: its share of the people in tenths of a percent, and its wages in percent of the average.
TOWNS = {
    "Lyon": (70, 105), "Grenoble": (30, 100), "Annecy": (20, 110), "Paris": (150, 125),
    "Versailles": (25, 130), "Rennes": (35, 90), "Brest": (25, 80), "Munich": (90, 125),
    "Augsburg": (25, 105), "Nuremberg": (35, 100), "Berlin": (120, 95), "Potsdam": (20, 90),
    "Cologne": (65, 105), "Bonn": (30, 110), "Milan": (80, 105), "Bergamo": (25, 90), "Brescia": (25, 85),
    "Rome": (60, 75), "Naples": (30, 55), "Luxembourg": (40, 150),
}  # fmt: skip

# Each education: its share in tenths of a percent, and its level, on which jobs and salaries depend.
EDUCATIONS = {
    "No-schooling": (30, 0), "Primary": (90, 1), "Lower-secondary": (170, 2), "Upper-secondary": (230, 3),
    "Apprenticeship": (200, 3), "Bachelor": (150, 5), "Master": (95, 6), "Doctorate": (35, 7),
}  # fmt: skip

# Each job: the level of education it requires, its salary in thousands a year, and the hours of its week.
JOBS = {
    "Manager": (5, 72, 46), "Lawyer": (6, 80, 48), "Physician": (7, 88, 52), "Teacher": (5, 44, 38),
    "Engineer": (5, 58, 41), "Accountant": (4, 46, 40), "Clerk": (3, 33, 38), "Salesperson": (3, 32, 39),
    "Nurse": (4, 38, 40), "Electrician": (3, 37, 41), "Mechanic": (3, 35, 41), "Welder": (2, 33, 42),
    "Baker": (2, 28, 44), "Cook": (1, 25, 43), "Driver": (1, 27, 45), "Cleaner": (0, 20, 30),
    "Farmhand": (0, 21, 47), "Student": (3, 7, 12), "Retired": (0, 18, 0),
}  # fmt: skip

# Each disease: its weight in tenths of a percent for the young, the middle-aged and the old.
DISEASES = {
    "Flu": (330, 230, 140), "Asthma": (170, 100, 60), "Allergy": (200, 120, 50), "Migraine": (120, 130, 50),
    "Depression": (100, 120, 70), "Hypertension": (20, 110, 200), "Diabetes": (20, 70, 130),
    "Arthritis": (15, 60, 160), "Cancer": (10, 35, 80), "HIV": (15, 25, 60),
}  # fmt: skip

TAXONOMIES = {
    "town.csv": """\
Paris;Ile-de-France;France;Any-town
Versailles;Ile-de-France;France;Any-town
Lyon;Rhone-Alpes;France;Any-town
Grenoble;Rhone-Alpes;France;Any-town
Annecy;Rhone-Alpes;France;Any-town
Rennes;Brittany;France;Any-town
Brest;Brittany;France;Any-town
Berlin;Brandenburg;Germany;Any-town
Potsdam;Brandenburg;Germany;Any-town
Munich;Bavaria;Germany;Any-town
Augsburg;Bavaria;Germany;Any-town
Nuremberg;Bavaria;Germany;Any-town
Cologne;Rhineland;Germany;Any-town
Bonn;Rhineland;Germany;Any-town
Milan;Lombardy;Italy;Any-town
Bergamo;Lombardy;Italy;Any-town
Brescia;Lombardy;Italy;Any-town
Rome;Italy;Any-town
Naples;Italy;Any-town
Luxembourg;Any-town
""",
    "education.csv": """\
No-schooling;No-secondary;Any-education
Primary;No-secondary;Any-education
Lower-secondary;Secondary;Any-education
Upper-secondary;Completed-secondary;Secondary;Any-education
Apprenticeship;Completed-secondary;Secondary;Any-education
Bachelor;University;Any-education
Master;Postgraduate;University;Any-education
Doctorate;Postgraduate;University;Any-education
""",
    "job.yaml": """\
Any-job:
  At-work:
    White-collar:
      Professional: [Lawyer, Physician, Engineer, Teacher]
      Business: [Manager, Accountant]
      Service: [Nurse, Clerk, Salesperson]
    Blue-collar:
      Skilled: [Electrician, Mechanic, Welder, Baker, Cook]
      Unskilled: [Driver, Cleaner, Farmhand]
  Not-at-work: [Student, Retired]
""",
    "hours.csv": """\
[0, 10);[0, 20);Less-than-full;Any-hours
[10, 20);[0, 20);Less-than-full;Any-hours
[20, 35);Less-than-full;Any-hours
[35, 40);Full-time;Any-hours
[40, 45);Full-time;Any-hours
[45, 60);Overtime;Any-hours
[60, 100);Overtime;Any-hours
""",
}


# --- people -------------------------------------------------------------------------------------------------

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
        raise ParameterError(f"The n parameter of generate_people must be 0 to {MOST_PEOPLE}. Got {n!r} instead.")
    if seed < 0:
        raise ParameterError(f"The seed parameter of generate_people must be at least 0. Got {seed!r} instead.")
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
    people: pa.Table, holdings: Mapping[str, Sequence[str]] = ORGANISATIONS, seed: int = 7, known: float = 0.85
) -> dict[str, pa.Table]:
    """Split the people into one table per organisation, each with its own columns and the ssn.

    Each organisation knows its own random `known` share of the people, and lists them in its own order.
    """
    if not 0 <= known <= 1:
        raise ParameterError(f"The known parameter of split_people must be a share from 0 to 1. Got {known!r} instead.")
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
