"""Tables 1 and 2 of the DkA paper: Datafly generalises Salary, then Area, then Salary again."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

import masquerade as mq

AREA = mq.Branch(
    "Computer science",
    (
        mq.Branch(
            "Database systems", (mq.Branch("Data mining"), mq.Branch("Data warehousing"), mq.Branch("Query processing"))
        ),
        mq.Branch("Information security", (mq.Branch("Intrusion detection"), mq.Branch("Digital forensics"))),
        mq.Branch("Operating systems", (mq.Branch("Distributed systems"), mq.Branch("Handhold systems"))),
    ),
)
POSITION = mq.Branch(
    "Staff",
    (
        mq.Branch(
            "Professors", (mq.Branch("Associate professor"), mq.Branch("Assistant professor"), mq.Branch("Professor"))
        ),
        mq.Branch("Assistant", (mq.Branch("Research assistant"), mq.Branch("Teaching assistant"))),
    ),
)
# The text shows levels 1 and 2 of the salaries; the raw ones are the leaves, the lower salaries have one level less.
SALARY = mq.Branch(
    "[11k, 180k]",
    (
        mq.Branch("[11k, 30k]", tuple(mq.Branch(str(each)) for each in (15, 15.5, 17))),
        mq.Branch(
            "[61k, 120k]",
            (
                mq.Branch("[61k, 90k]", (mq.Branch("78"), mq.Branch("90"))),
                mq.Branch("[91k, 120k]", (mq.Branch("91"), mq.Branch("95"), mq.Branch("100"))),
            ),
        ),
        mq.Branch(
            "[121k, 180k]",
            (
                mq.Branch("[121k, 150k]", (mq.Branch("135"), mq.Branch("145"), mq.Branch("150"))),
                mq.Branch("[151k, 180k]"),
            ),
        ),
    ),
)
PEOPLE = [
    ("Data mining", "Associate professor", "90"),
    ("Intrusion detection", "Assistant professor", "91"),
    ("Data warehousing", "Associate professor", "95"),
    ("Intrusion detection", "Assistant professor", "78"),
    ("Digital forensics", "Professor", "150"),
    ("Distributed systems", "Research assistant", "15"),
    ("Handhold systems", "Research assistant", "17"),
    ("Handhold systems", "Research assistant", "15.5"),
    ("Query processing", "Associate professor", "100"),
    ("Digital forensics", "Assistant professor", "78"),
    ("Digital forensics", "Professor", "135"),
    ("Intrusion detection", "Professor", "145"),
]
NAMES = ("area", "position", "salary")


def staff() -> mq.Table:
    """Table 1."""
    trees = zip(NAMES, (AREA, POSITION, SALARY), strict=True)
    schema = mq.Schema(mq.Attribute(name, taxonomy=mq.Taxonomy(tree)) for name, tree in trees)
    return mq.Table(pa.table(dict(zip(NAMES, map(list, zip(*PEOPLE, strict=True)), strict=True))), schema)


def test_table_2() -> None:
    release = mq.anonymize(staff(), mq.KAnonymity(NAMES, 3), mq.Datafly(whole_columns=True), order="input")
    groups = Counter(tuple(row.values()) for row in release.table.to_pylist())
    assert groups == {
        ("Database systems", "Associate professor", "[61k, 120k]"): 3,
        ("Information security", "Assistant professor", "[61k, 120k]"): 3,
        ("Information security", "Professor", "[121k, 180k]"): 3,
        ("Operating systems", "Research assistant", "[11k, 30k]"): 3,
    }
    assert release.suppressed == 0
