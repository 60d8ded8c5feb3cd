"""Tables that the papers print, for the tests of the papers' examples."""

from __future__ import annotations

import pyarrow as pa

from masquerade import Attribute, Branch, Schema, Table, Taxonomy


def tree(name: str, *children: Branch | str) -> Branch:
    return Branch(name, tuple(child if isinstance(child, Branch) else Branch(child) for child in children))


JOB = tree(
    "ANY_Job",
    tree("Blue-collar", tree("Non-Technical", "Janitor", "Mover"), tree("Technical", "Carpenter", "Technician")),
    tree("White-collar", "Manager", tree("Professional", "Accountant", "Lawyer")),
)
SEX = tree("ANY_Sex", "Male", "Female")

# Table 1 of the data-integration paper: how many Y and N, and the record they share.
_TABLE_1 = [
    (0, 3, "Male", "Janitor", 30),
    (0, 4, "Male", "Mover", 32),
    (2, 3, "Male", "Carpenter", 35),
    (3, 1, "Female", "Technician", 37),
    (4, 2, "Female", "Manager", 42),
    (3, 0, "Female", "Manager", 44),
    (3, 0, "Male", "Accountant", 44),
    (3, 0, "Female", "Accountant", 44),
    (2, 0, "Male", "Lawyer", 44),
    (1, 0, "Female", "Lawyer", 44),
]


def loan_records() -> pa.Table:
    """Table 1: 34 records of a loan company and a bank."""
    rows = [(sex, job, salary, label) for y, n, sex, job, salary in _TABLE_1 for label in "Y" * y + "N" * n]
    sex, job, salary, label = zip(*rows, strict=True)
    return pa.table({"Sex": sex, "Job": job, "Salary": salary, "Class": label})


def loan_table() -> Table:
    """Table 1 with the taxonomies of Figure 2 and Salary in [1, 99)."""
    schema = Schema(
        [
            Attribute("Sex", taxonomy=Taxonomy(SEX)),
            Attribute("Job", taxonomy=Taxonomy(JOB)),
            Attribute("Salary", "continuous", lower=1, upper=99),
        ]
    )
    return Table(loan_records(), schema)
