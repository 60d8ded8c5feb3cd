"""Which role a column has, and why: by its name, by what its cells look like, and by how far it identifies rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from masquerade.job.draft.column_names import known_of_people, may_identify, sounds_sensitive
from masquerade.job.draft.profile import Profile
from masquerade.job.draft.roles_by_name import (
    KNOWN,
    MIGHT_BE_KNOWN,
    MOST_QUASI_IDENTIFIERS,
    TOO_MANY,
    Proposal,
    identifier_by_name,
)
from masquerade.risk.coded_table import CodedTable
from masquerade.risk.greedy_key import greedy_key
from masquerade.risk.partition import Partition, partition_by

_NEARLY_ALL, _MANY, _FEW_ROWS = 0.98, 0.5, 20


def propose_roles(
    columns: Sequence[Profile], target: str | None, sensitive: Sequence[str]
) -> dict[str, Proposal]:
    """Propose a role for each column; those of the class and the sensitive attributes are given."""
    proposed: dict[str, Proposal] = {}
    for column in columns:
        if column.name == target:
            proposed[column.name] = Proposal("class", "you named it as the class")
        elif column.name in sensitive:
            proposed[column.name] = Proposal("sensitive", "you named it as sensitive")
        elif (settled := _by_itself(column)) is not None:
            proposed[column.name] = settled
    left = [column for column in columns if column.name not in proposed]
    return {**proposed, **_quasi_identifiers(left)}


def _by_itself(column: Profile) -> Proposal | None:
    """Return the role of a column that cannot be generalised usefully: an identifier, free text, or always the same."""
    share, different = (
        column.distinct_ratio,
        f"{len(column.cells):,} different values in {column.present:,} rows",
    )
    if len(column.cells) < 2:
        where = "every row" if column.present == column.codes.size else "every row that has one"
        same = f"it has the same value in {where}" if column.cells else "no row has a value"
        return Proposal("other", f"left out: {same}")
    if (named := identifier_by_name(column.name)) is not None:
        return named
    if sum("@" in cell for cell in column.cells) > _NEARLY_ALL * len(column.cells):
        return Proposal("identifier", "its cells are e-mail addresses")
    if may_identify(column.name) and share >= _MANY:
        return Proposal("identifier", f'its name, "{column.name}", and {different}')
    if column.type == "text":
        return Proposal("other", f"left out: free text, which may hold anything; {different}")
    is_measured = column.type == "date" or (column.type == "number" and not _is_numbering(column))
    if share >= _NEARLY_ALL and column.present >= _FEW_ROWS and not is_measured:
        return Proposal("identifier", f"it identifies nearly every row: {different}")
    return None


def _is_numbering(column: Profile) -> bool:
    """Return whether numbers just count the rows."""
    if not all(cell.isdigit() for cell in column.cells):
        return False
    numbers = sorted(map(int, column.cells))
    return numbers[-1] - numbers[0] + 1 == len(numbers)


def _quasi_identifiers(columns: Sequence[Profile]) -> Mapping[str, Proposal]:
    """Take what people are known by, then what tells most rows apart, and leave out what is too much."""
    if not columns:
        return {}
    table = CodedTable(
        tuple(column.name for column in columns),
        tuple(column.codes + np.int32(1) for column in columns),
        tuple(len(column.cells) + 1 for column in columns),
        len(columns[0].codes),
    )
    everything = partition_by(table, range(table.width)).extent.pairs
    key = greedy_key(
        Partition.of(table),
        range(table.width),
        lambda extent: extent.pairs == everything,
        [1.0] * table.width,
    )
    assert key is not None  # all columns together tell as much apart as all columns
    groups = partition_by(table, key)
    told = f"it tells {groups.extent.groups:,} groups of rows apart, {groups.alone:,} of them of one row"
    known = [at for at in range(table.width) if known_of_people(table.names[at])]
    order = list(dict.fromkeys([*known, *key, *range(table.width)]))
    found = {}
    for position, at in enumerate(order):
        name = table.names[at]
        hint = "; it sounds sensitive: name it with --sensitive if it is" if sounds_sensitive(name) else ""
        if position >= MOST_QUASI_IDENTIFIERS:
            found[name] = Proposal("other", TOO_MANY)
        elif at in known:
            found[name] = Proposal("quasi-identifier", KNOWN + hint)
        elif at in key:
            others = ", ".join(table.names[other] for other in key if other != at)
            reason = f"with {others} {told}" if others else f"alone {told}"
            found[name] = Proposal("quasi-identifier", reason + hint)
        else:
            reason = f"{MIGHT_BE_KNOWN}; it has {len(columns[at].cells):,} different values"
            found[name] = Proposal("quasi-identifier", reason + hint)
    return found
