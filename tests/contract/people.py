"""The people that the contract suite anonymises, and what must be true of every release of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from contract.methods import HERE
from masquerade.data import columns_of
from masquerade.privacy import REQUIREMENTS, GroupRequirement, Verdict
from papers.paper_tables import JOB, SEX
from privacy.definitions import PROVIDER, SENSITIVE, definition_of, figure, satisfied

Record = dict[str, Any]

QID = ("sex", "job", "age")
TAXONOMIES = {"sex": mq.Taxonomy(SEX), "job": mq.Taxonomy(JOB)}
AGES = mq.Taxonomy(
    mq.Branch(
        "[0, 99)",
        (
            mq.Branch("[0, 40)", tuple(mq.Branch(f"[{low}, {low + 10})") for low in range(0, 40, 10))),
            mq.Branch("[40, 99)", (mq.Branch("[40, 50)"), mq.Branch("[50, 99)"))),
        ),
    ),
    edges=(0, 10, 20, 30, 40, 50, 99),
)
SCHEMA = mq.Schema(
    [
        mq.Attribute("sex", taxonomy=TAXONOMIES["sex"]),
        mq.Attribute("job", taxonomy=TAXONOMIES["job"]),
        mq.Attribute("age", "continuous"),
        mq.Attribute("row", "continuous"),  # in no QID: tells which record a released row was
    ]
)
STEPWISE = mq.Schema(  # for methods that climb a tree that is given
    mq.Attribute("age", "continuous", taxonomy=AGES) if name == "age" else SCHEMA[name] for name in SCHEMA.names
)

FLAT = mq.Schema(  # for methods that must know a tree before they see anybody's values
    mq.Attribute("job", taxonomy="flat") if name == "job" else SCHEMA[name] for name in SCHEMA.names
)
BOUNDED = mq.Schema(  # for methods that keep to boundaries alone
    mq.Attribute("job", taxonomy=TAXONOMIES["job"], max_generalization=[each.name for each in JOB.children])
    if name == "job"
    else SCHEMA[name]
    for name in SCHEMA.names
)
SCHEMAS = (SCHEMA, STEPWISE, FLAT, BOUNDED)
CONJUNCTIONS = [
    mq.KAnonymity(["sex", "job"], k=3) & mq.KAnonymity(["job", "age"], k=2),
    mq.KAnonymity(QID, k=2) & mq.LDiversity(["sex", "job"], l=2, sensitive=SENSITIVE),
]


def requirements() -> list[mq.Requirement]:
    """An example of every model of the registry, and two conjunctions over several QIDs."""
    return [*(make(QID) for model in REQUIREMENTS for make in definition_of(model).examples), *CONJUNCTIONS]


def people(n: int, seed: int) -> list[Record]:
    """At least four records, with all sensitive values among them; the seed says which."""
    draw = np.random.default_rng(seed)
    columns = {
        "sex": draw.choice(["Male", "Female"], n),
        "job": draw.choice(TAXONOMIES["job"].leaves, n),
        "age": draw.integers(18, 60, n),
        "row": np.arange(n),
        "class": draw.choice(["Y", "N"], n),
        SENSITIVE: np.append(list("abcd"), draw.choice(list("abcd"), n - 4)),
        PROVIDER: draw.choice(["north", "south", "west"], n),
    }
    return pa.table({name: cells.tolist() for name, cells in columns.items()}).to_pylist()


def assert_refusals(lines: Iterable[str], expected: Sequence[str]) -> None:
    """Each is one line that matches one of the patterns expected of its method, and none of these is left over."""
    said = set(lines)
    for line in said:
        assert "\n" not in line
        assert any(re.match(each, line) for each in expected), f"no entry of {HERE} expects: {line}"
    for each in expected:
        assert any(re.match(each, line) for line in said), f"an entry of {HERE} expects what is never said: {each}"


def assert_kept_promises(
    release: pa.Table, records: Sequence[Record], parts: Sequence[GroupRequirement], verdicts: Sequence[Verdict]
) -> None:
    """By counts of our own: the requirement holds, with the figures that are told, and cells cover their originals."""
    rows = release.to_pylist()
    told = {str(verdict.requirement): verdict for verdict in verdicts}
    for part in parts:
        groups = _groups(rows, records, part)
        everybody = [values for group in groups for values in group]
        assert all(satisfied(part, group, everybody) for group in groups), f"{part} holds"
        verdict = told[str(part)]
        assert verdict.holds
        assert verdict.groups == len(groups)
        worst = min if part.worst == "smallest" else max
        assert verdict.value == pytest.approx(worst(figure(part, group, everybody) for group in groups))
    qid = {name for part in parts for name in part.qid}
    for cells in rows:
        _assert_generalises(cells, records[cells["row"]], qid)


def looked_at(part: GroupRequirement, record: Record) -> Any:
    """What a requirement looks at, of one record: its sensitive value, for m-privacy with the provider."""
    columns = columns_of(part.sensitive) if part.sensitive is not None else ()
    value = "".join(record[name] for name in columns if name != part.provider_column)
    return (record[part.provider_column], value) if part.provider_column is not None else value


def holds_of_everybody(part: GroupRequirement, records: Sequence[Record]) -> bool:
    """Whether the requirement holds for all records in one group; otherwise no cut can make it hold."""
    everybody = [looked_at(part, record) for record in records]
    return satisfied(part, everybody, everybody)


def _groups(rows: Sequence[Record], records: Sequence[Record], part: GroupRequirement) -> list[list[Any]]:
    found = defaultdict(list)
    for cells in rows:
        found[tuple(cells[name] for name in part.qid)].append(looked_at(part, records[cells["row"]]))
    return list(found.values())


def _assert_generalises(cells: Record, original: Record, qid: set[str]) -> None:
    """Every cell of the QID covers its original; every other is its original."""
    for name, cell in cells.items():
        if name not in qid:
            assert cell == original[name]
        elif name == "age":
            low, high = cell.strip("[)").split(", ")
            assert float(low) <= original["age"] < float(high)
        else:
            node, rank = TAXONOMIES[name].find(cell), TAXONOMIES[name].rank[original[name]]
            assert node.lo <= rank < node.hi
