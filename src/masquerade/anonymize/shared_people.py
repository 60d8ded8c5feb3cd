"""People whose records several providers hold.

m-privacy takes the records of different providers for those of different people. Who is at two providers is in the
table twice: a coalition of one of them may know one record by the other, and a group of k records has fewer people.
Only their number is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade.data.encode import missing_rows
from masquerade.data.table import Table
from masquerade.engine.counts import value_counts
from masquerade.engine.numbering import renumber
from masquerade.privacy.requirement import Requirement


@dataclass(frozen=True)
class SharedPeople:
    """How many people are at two or more providers, going by an identifier."""

    people: int
    identifier: str


def shared_people(table: Table, requirement: Requirement) -> SharedPeople | None:
    """Count them by the table's first identifier; None without one, or where no requirement is about providers."""
    names = [name for name in table.schema.identifiers if name in table.arrow.column_names]
    if not names or not requirement.provider_columns:
        return None
    absent = missing_rows(table.cells(names[0]), table.origin.missing_values)
    known = table if absent is None else table.take(np.flatnonzero(~absent))
    people, providers = known.coded(names[0]), known.coded(requirement.provider_columns[0])
    n_providers = max(len(providers.labels), 1)
    pairs = people.codes.astype(np.int64) * n_providers + providers.codes
    _, found = renumber(pairs, max(len(people.labels), 1) * n_providers)
    at = value_counts(found // n_providers, len(people.labels))
    return SharedPeople(int(np.count_nonzero(at > 1)), names[0])
