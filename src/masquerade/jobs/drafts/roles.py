"""Which role a column has, and why: by its name, by what its cells look like, and by how far it identifies rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from masquerade.engine import occurring, which_occur
from masquerade.errors import ParameterError
from masquerade.jobs.drafts import personal
from masquerade.jobs.drafts.column_names import (
    KNOWN_OF_PEOPLE,
    MAY_IDENTIFY,
    PEOPLE,
    REMARKS,
    always_identifies,
    has_word,
    is_about_health,
    names_people,
    sounds_sensitive,
)
from masquerade.jobs.drafts.profile import Profile
from masquerade.risk import CodedRows, SeparatedRows, greedy_key

# --- roles by name ------------------------------------------------------------------------------------------
# Which role a column has, by what it is called and what its holder says of it: nobody looks at its cells.
#
# For requests, where each party describes its columns and shows none. `roles.py` goes on from here where a
# table is at hand.

Role = Literal["identifier", "quasi-identifier", "sensitive", "class", "other"]

MOST_QUASI_IDENTIFIERS = 10
KNOWN = "others know this of a person, or can look it up"
MIGHT_BE_KNOWN = "others might know it"
CLASS = "its holder offers it to classifiers; choose none if no classifier will predict it"
ANOTHER_CLASS = "its holder offers it to classifiers, too; choose it in place of the other, or none"
TOO_MANY = "left out: the more attributes, the less is left of each; add it if needed"


@dataclass(frozen=True)
class RoleProposal:
    """The role proposed for a column, and why."""

    role: Role
    reason: str


@dataclass(frozen=True)
class DescribedColumn:
    """A column as its holder describes it."""

    name: str
    kind: Literal["categorical", "continuous", "date"]
    role: Literal["attribute", "sensitive", "class", "duration", "event"] = "attribute"


def identifier_by_name(name: str, *, holds_words: bool = True) -> RoleProposal | None:
    """Return the proposal for a column whose name is that of something that identifies people.

    `holds_words` is whether it may hold people's names: numbers and dates are none.
    """
    if holds_words and names_people(name):
        return RoleProposal("identifier", f'its name, "{name}", is that of people\'s names')
    if not always_identifies(name):
        return None
    return RoleProposal("identifier", f'its name, "{name}", is that of something that identifies people')


def propose_by_name(columns: Sequence[DescribedColumn]) -> list[RoleProposal]:
    """Propose a role for each column, at most ten of them quasi-identifiers; those that people are known by first."""
    settled = [_settled(column) for column in columns]
    left = [at for at, proposal in enumerate(settled) if proposal is None]
    order = sorted(left, key=lambda at: not has_word(columns[at].name, KNOWN_OF_PEOPLE))
    chosen = {*order[:MOST_QUASI_IDENTIFIERS]}
    return [
        proposal or (_quasi_identifier(columns[at]) if at in chosen else RoleProposal("other", TOO_MANY))
        for at, proposal in enumerate(settled)
    ]


def _settled(column: DescribedColumn) -> RoleProposal | None:
    if column.role == "sensitive":
        return RoleProposal("sensitive", "its holder says so; it is released as it is")
    if column.role == "class":
        return RoleProposal("class", CLASS)
    if column.role in ("duration", "event"):
        return RoleProposal("other", "its holder offers it to models of survival; no table has it")
    named = identifier_by_name(column.name, holds_words=column.kind == "categorical")
    if named is not None:
        return named
    if has_word(column.name, MAY_IDENTIFY) and not has_word(column.name, KNOWN_OF_PEOPLE):
        return RoleProposal("identifier", f'its name, "{column.name}", may be that of something that identifies people')
    return None


def _quasi_identifier(column: DescribedColumn) -> RoleProposal:
    hint = "; it sounds sensitive, and is generalised like the others" if sounds_sensitive(column.name) else ""
    if has_word(column.name, KNOWN_OF_PEOPLE):
        return RoleProposal("quasi-identifier", KNOWN + hint)
    if column.kind == "date":
        return RoleProposal("quasi-identifier", f"days on which something happened to a person: {MIGHT_BE_KNOWN}{hint}")
    return RoleProposal("quasi-identifier", MIGHT_BE_KNOWN + hint)


# --- roles --------------------------------------------------------------------------------------------------

_NEARLY_ALL, _MANY, _FEW_ROWS = 0.98, 0.5, 20
_FEW_REMARKS = 10  # different ones, which are a list to choose from
_EVIDENCE, _RARELY = (20, 0.05)  # rows beyond one a value; share of the rows in which one of two columns has no cell


def propose_roles(
    columns: Sequence[Profile], target: str | None, sensitive: Sequence[str], qid: Sequence[str] | None = None
) -> dict[str, RoleProposal]:
    """Propose a role for each column; those of the class and the named sensitive attributes are given.

    What identifies people is settled first, by its name and by its cells, then diagnoses; only the rest can be
    quasi-identifiers. Those of `qid` are, if it is given, and no others; one that identifies people is an error.
    """
    proposed: dict[str, RoleProposal] = {}
    for column in columns:
        if column.name == target:
            proposed[column.name] = RoleProposal("class", "you named it as the class")
        elif column.name in sensitive:
            proposed[column.name] = RoleProposal("sensitive", "you named it as sensitive")
    cells = {column.name: personal.Cells(column) for column in columns if column.name not in proposed}
    proposed |= _identifiers(cells)
    for name, each in cells.items():
        if name not in proposed and (settled := _by_itself(each)) is not None:
            proposed[name] = settled
    if qid is not None:
        return {column.name: _as_asked(column, proposed.get(column.name), qid) for column in columns}
    proposed |= _twins(columns, proposed)
    left = [column for column in columns if column.name not in proposed]
    return {**proposed, **_quasi_identifiers(left)}


def _as_asked(column: Profile, proposal: RoleProposal | None, qid: Sequence[str]) -> RoleProposal:
    """Return the role of a column where somebody has named the quasi-identifiers."""
    if column.name not in qid:
        return proposal or RoleProposal("other", "left out: not among the quasi-identifiers that you named")
    if not column.cells or column.type == "text" or (proposal is not None and proposal.role == "identifier"):
        reason = proposal.reason.removeprefix("left out: ") if proposal is not None else "free text"
        text = f"{column.name}: no quasi-identifier: {reason}; if it can be released, say how in a job file"
        raise ParameterError(text)
    return RoleProposal("quasi-identifier", "you named it as a quasi-identifier")


def _identifiers(columns: Mapping[str, personal.Cells]) -> dict[str, RoleProposal]:
    """Return the columns that identify people, whether or not their cells repeat."""
    found, names = dict[str, RoleProposal](), frozenset[str]()
    for name, cells in columns.items():
        if (people := _people(cells)) is not None:
            found[name] = people
            names |= personal.name_words(cells)
        elif cells.column.cells and cells.column.type != "date":  # a date is when a passport was issued
            if (named := identifier_by_name(name, holds_words=False)) is not None:
                found[name] = named
            elif (what := personal.identifying_cells(cells)) is not None:
                found[name] = RoleProposal("identifier", f"its cells are {what}")
    for name, cells in columns.items():
        if (
            name not in found
            and not has_word(name, KNOWN_OF_PEOPLE)
            and _is_of_words(cells)
            and personal.names_among(cells, names)
        ):
            found[name] = RoleProposal("identifier", "its cells hold names that another column has")
    return found


def _people(cells: personal.Cells) -> RoleProposal | None:
    """Return the proposal for a column of people's names: by its own name, or by its cells."""
    name = cells.column.name
    if not cells.column.cells or cells.column.type in ("number", "date"):
        return None
    if names_people(name):
        return identifier_by_name(name)
    if has_word(name, PEOPLE) and personal.are_only_words(cells):
        return RoleProposal("identifier", f'its name, "{name}", is that of people, and its cells are words')
    if has_word(name, KNOWN_OF_PEOPLE) or (why := personal.people_in(cells)) is None:
        return None
    return RoleProposal("identifier", why)


def _is_of_words(cells: personal.Cells) -> bool:
    return cells.column.type not in ("number", "date")


def _by_itself(cells: personal.Cells) -> RoleProposal | None:
    """Return the role of a column that is sensitive, or cannot be generalised usefully: free text, always the same."""
    column = cells.column
    share, different = (column.distinct_ratio, f"{len(column.cells):,} different values in {column.present:,} rows")
    if len(column.cells) < 2:
        where = "every row" if column.present == column.codes.size else "every row that has one"
        same = f"it has the same value in {where}" if column.cells else "no row has a value"
        return RoleProposal("other", f"left out: {same}")
    if has_word(column.name, MAY_IDENTIFY) and share >= _MANY:
        return RoleProposal("identifier", f'its name, "{column.name}", and {different}')
    is_word = column.type in ("category", "code")
    if column.type == "text" or (is_word and has_word(column.name, REMARKS) and len(column.cells) > _FEW_REMARKS):
        return RoleProposal("other", f"left out: free text, which may hold anything; {different}")
    is_measured = column.type == "date" or (column.type == "number" and not _is_numbering(column))
    if share >= _NEARLY_ALL and column.present >= _FEW_ROWS and not is_measured:
        return RoleProposal("identifier", f"it identifies nearly every row: {different}")
    if is_word and share < _MANY and (why := _health(cells)) is not None:
        return RoleProposal("sensitive", why)
    if not has_word(column.name, KNOWN_OF_PEOPLE) and personal.might_be_names(cells):
        return RoleProposal(
            "other",
            f"left out: its cells might be people's names, capitalised words without numbers ({different}); "
            "if they are none, add it with a taxonomy",
        )
    return None


def _health(cells: personal.Cells) -> str | None:
    """Return why a column is taken for diagnoses or the like."""
    if is_about_health(cells.column.name):
        why = f'its name, "{cells.column.name}", is that of diagnoses or treatments'
    elif not has_word(cells.column.name, KNOWN_OF_PEOPLE) and personal.are_diagnosis_codes(cells):
        why = "its cells are codes of diagnoses (ICD-10)"
    else:
        return None
    return f"{why}; it is released as it is, and differs within each group"


def _twins(columns: Sequence[Profile], proposed: Mapping[str, RoleProposal]) -> dict[str, RoleProposal]:
    """Leave out each column that says the same as an earlier one, or as a sensitive one: one value for each of its."""
    kept = [column for column in columns if column.name in proposed and proposed[column.name].role == "sensitive"]
    found = dict[str, RoleProposal]()
    for column in columns:
        if column.name in proposed:
            continue
        twin = next((other for other in kept if _say_the_same(column, other)), None)
        if twin is None:
            kept.append(column)
        else:
            found[column.name] = RoleProposal("other", f"left out: it says the same as {twin.name}, in other words")
    return found


def _say_the_same(one: Profile, other: Profile) -> bool:
    """Return whether each value of one stands beside a single value of the other, in rows enough to mean something."""
    if len(one.cells) != len(other.cells):
        return False
    both = (one.codes >= 0) & (other.codes >= 0)
    rows = int(both.sum())
    if rows - len(one.cells) < max(_EVIDENCE, len(one.cells)) or rows < (1 - _RARELY) * one.codes.size:
        return False
    pairs = one.codes[both].astype(np.int64) * len(other.cells) + other.codes[both]
    _, sizes = occurring(pairs, len(one.cells) * len(other.cells))
    used = int(which_occur(one.codes[both], len(one.cells)).sum())
    return sizes.size == used == int(which_occur(other.codes[both], len(other.cells)).sum())


def _is_numbering(column: Profile) -> bool:
    """Return whether numbers just count the rows."""
    if not all(cell.isdigit() for cell in column.cells):
        return False
    numbers = sorted(map(int, column.cells))
    return numbers[-1] - numbers[0] + 1 == len(numbers)


def _quasi_identifiers(columns: Sequence[Profile]) -> Mapping[str, RoleProposal]:
    """Take what people are known by, then what tells most rows apart, and leave out what is too much."""
    if not columns:
        return {}
    table = CodedRows.of_codes(
        [column.name for column in columns],
        [(column.codes + np.int32(1), len(column.cells) + 1) for column in columns],
        len(columns[0].codes),
    )
    everything = SeparatedRows.of(table, range(table.width)).extent.pairs
    key = greedy_key(
        SeparatedRows.of(table), range(table.width), lambda extent: extent.pairs == everything, [1.0] * table.width
    )
    assert key is not None  # all columns together tell as much apart as all columns
    groups = SeparatedRows.of(table, key)
    told = f"it tells {groups.extent.groups:,} groups of rows apart, {groups.alone:,} of them of one row"
    known = [at for at in range(table.width) if has_word(table.names[at], KNOWN_OF_PEOPLE)]
    order = list(dict.fromkeys([*known, *key, *range(table.width)]))
    found = {}
    for position, at in enumerate(order):
        name = table.names[at]
        hint = "; it sounds sensitive: name it with --sensitive if it is" if sounds_sensitive(name) else ""
        if position >= MOST_QUASI_IDENTIFIERS:
            found[name] = RoleProposal("other", TOO_MANY)
        elif at in known:
            found[name] = RoleProposal("quasi-identifier", KNOWN + hint)
        elif at in key:
            others = ", ".join(table.names[other] for other in key if other != at)
            reason = f"with {others} {told}" if others else f"alone {told}"
            found[name] = RoleProposal("quasi-identifier", reason + hint)
        else:
            reason = f"{MIGHT_BE_KNOWN}; it has {len(columns[at].cells):,} different values"
            found[name] = RoleProposal("quasi-identifier", reason + hint)
    return found
