"""Generated stand-ins for UCI's files: as many complete records, the same columns, trees as high; other people.

What an experiment measures on them cannot be held against a paper; that it runs, and how fast, can be seen.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEED = 7
RECORDS = {"adult.data": 30_162, "adult.test": 15_060}
CRX_RECORDS = 653

Tree = Mapping[str, "Tree"] | Sequence[str]
_EDUCATIONS = (
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
    *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
)
TREES: dict[str, Tree] = {
    "workclass": {
        "paid": {
            "self-employed": ("Self-emp-inc", "Self-emp-not-inc"),
            "government": ("Federal-gov", "State-gov", "Local-gov"),
            "company": ("Private",),
        },
        "unpaid": ("Without-pay", "Never-worked"),
    },
    "education": {
        "school": {"primary": _EDUCATIONS[:4], "secondary": _EDUCATIONS[4:9]},
        "further": {"college": _EDUCATIONS[9:12], "university": _EDUCATIONS[12:]},
    },
    "marital-status": {
        "married": ("Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"),
        "single": ("Never-married", "Divorced", "Separated", "Widowed"),
    },
    "occupation": {
        "office": ("Exec-managerial", "Prof-specialty", "Adm-clerical", "Sales", "Tech-support"),
        "manual": ("Craft-repair", "Machine-op-inspct", "Handlers-cleaners", "Transport-moving", "Farming-fishing"),
        "service": ("Other-service", "Protective-serv", "Priv-house-serv", "Armed-Forces"),
    },
    "relationship": {
        "couple": ("Husband", "Wife"),
        "other": ("Own-child", "Other-relative", "Not-in-family", "Unmarried"),
    },
    "race": {"majority": ("White",), "minority": ("Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other")},
    "sex": ("Male", "Female"),
    "native-country": {
        "Americas": {
            "North-America": ("United-States", "Canada"),
            "Central-America": ("Mexico", "Guatemala", "El-Salvador"),
            "South-America": ("Columbia", "Ecuador", "Peru"),
            "Caribbean": ("Cuba", "Jamaica", "Haiti"),
        },
        "Europe": {
            "Western-Europe": ("England", "Germany", "France"),
            "Southern-Europe": ("Italy", "Portugal"),
            "Eastern-Europe": ("Poland", "Hungary"),
        },
        "Asia": {
            "Eastern-Asia": ("China", "Japan"),
            "South-eastern-Asia": ("Philippines", "Vietnam"),
            "Other-Asia": ("India", "Iran"),
        },
    },
}  # fmt: skip


def write_stand_ins(root: Path) -> None:
    """Write folders like those of UCI's files and the taxonomies."""
    random = np.random.default_rng(SEED)
    adult = root / "adult"
    (adult / "taxonomies").mkdir(parents=True)
    for name, tree in TREES.items():
        _write(adult / "taxonomies" / f"{name}.csv", _paths(tree, (f"any {name}",)), ";")
    for name, n in RECORDS.items():
        _write(adult / name, _adult(random, n), ",")
    (root / "crx").mkdir()
    _write(root / "crx" / "crx.data", _crx(random), ",")


def _paths(tree: Tree, above: tuple[str, ...]) -> list[tuple[str, ...]]:
    if isinstance(tree, Mapping):
        return [path for name, below in tree.items() for path in _paths(below, (name, *above))]
    return [(leaf, *above) for leaf in tree]


def _leaves(name: str) -> list[str]:
    return [path[0] for path in _paths(TREES[name], ())]


def _adult(random: np.random.Generator, n: int) -> zip[tuple[object, ...]]:
    """People whose income follows from age, education, marriage, hours and gains, with much noise."""
    age = np.clip(random.gamma(6.5, 6, n) + 15, 17, 90).astype(int)
    learned = np.clip(np.rint(random.normal(10, 2.6, n)), 1, 16).astype(int)
    male = random.random(n) < 0.68
    married = random.random(n) < np.clip((age - 18) / 40, 0.05, 0.62)
    hours = np.clip(np.rint(random.normal(40, 11, n) / 5) * 5, 1, 99).astype(int)
    gain = np.where(random.random(n) < 0.08, (random.gamma(2, 4000, n) // 100 * 100).astype(int), 0)
    loss = np.where(random.random(n) < 0.05, (random.normal(1850, 250, n) // 10 * 10).astype(int), 0)
    pull = 0.03 * (age - 40) + 0.4 * (learned - 10) + 2.2 * married + 0.03 * (hours - 40) + gain / 3000 - 3.6
    rich = random.random(n) < 1 / (1 + np.exp(-pull))
    relation = np.where(married, np.where(male, "Husband", "Wife"), _drawn(random, _leaves("relationship")[2:], n))
    columns = (
        age,
        _drawn(random, _leaves("workclass"), n, 0.6),
        random.integers(12_000, 500_000, n),
        np.array(_EDUCATIONS)[learned - 1],
        learned,
        np.where(married, "Married-civ-spouse", _drawn(random, _leaves("marital-status")[1:], n, 0.6)),
        _drawn(random, _leaves("occupation"), n, 0.9),
        relation,
        _drawn(random, _leaves("race"), n, 0.3),
        np.where(male, "Male", "Female"),
        gain,
        loss,
        hours,
        _drawn(random, _leaves("native-country"), n, 0.5),
        np.where(rich, ">50K", "<=50K"),
    )  # fmt: skip
    return zip(*(column.tolist() for column in columns), strict=True)


def _drawn(random: np.random.Generator, names: Sequence[str], n: int, falling: float = 0.8) -> NDArray[np.str_]:
    """Names whose shares fall by this factor, the first most frequent."""
    shares = falling ** np.arange(len(names))
    return np.array(names)[random.choice(len(names), n, p=shares / shares.sum())]


def _crx(random: np.random.Generator) -> list[list[object]]:
    """Credits, granted by the numbers A8, A11 and A15 and by chance; the other columns are filled in."""
    rows: list[list[object]] = []
    for _ in range(CRX_RECORDS):
        debt, employed, score, income = (round(float(random.gamma(1, scale)), 2) for scale in (5, 2, 2, 800))
        granted = random.random() < 1 / (1 + np.exp(1.5 - employed / 2 - score / 2 - income / 1500))
        age, code = round(float(random.gamma(9, 3.5)), 2), int(random.integers(0, 400))
        rows.append(["b", age, debt, "u", "g", "w", "v", employed, "t", "f", int(score), "f", "g", code, int(income)])
        rows[-1].append("+" if granted else "-")
    return rows


def _write(path: Path, rows: object, separator: str) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows(rows)  # type: ignore[arg-type] # rows
