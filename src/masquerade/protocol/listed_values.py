"""Refuse sensitive values that a requirement lists and no record has: a typing error would disable the requirement.

The holder of the sensitive attribute looks for them in its whole table, before its first message; a trusted third
party looks in the records of all providers. The error names values that were asked for, and no others.

A value that the holder's table has, but no common record, is fine: the requirement holds for it as it is,
and refusing it would reveal something about people who are not in common. There a mashup goes on where
`anonymize` would refuse the joined table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from masquerade.data.column import Coded
from masquerade.errors import ParameterError, Problem
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.contract import Contract

# Returns the values of a column, wherever its rows are.
Values = Callable[[str], Coded]


def refuse_unknown_values(
    parts: Iterable[GroupRequirement], values_of: Values, who: str = "nobody has a record"
) -> None:
    """Raise a problem for each requirement that lists values which no record of the table has.

    Another is a requirement with a taxonomy that lacks values of the table: the holder finds that out before its first
    message, too. The requirement is the problem's owner. `who` says whose table it is: "the clinic has no record".
    """
    problems = []
    for part in parts:
        listed = part.values or ()
        known = set(values_of(part.sensitive).labels) if listed and part.sensitive is not None else set()
        if unknown := [f'"{value}"' for value in listed if value not in known]:
            lacking = f"{who} with {part.sensitive} = {' or '.join(unknown)}"
            text = f"{lacking}; a bound on a value that is nowhere binds nothing"
            problems.append(Problem(text, owner=str(part)))
        if part.sensitive is not None and part.needs_taxonomy(part.parameters()):
            try:
                part.bind(values_of(part.sensitive).labels)
            except ParameterError as error:
                problems += [each.at(owner=str(part), key=("taxonomy",)) for each in error.problems]
    if problems:
        raise ParameterError(*problems)


def refuse_unknown_to(name: str, contract: Contract, values_of: Values) -> None:
    """Do the same for one party of a mashup and its own table, for the sensitive values that it hands in.

    Providers of the same columns are not checked: another provider may have the value.
    """
    if contract.provider is not None:
        return
    own = {column.name for column in contract.columns_of(name)}
    if contract.class_holder == name and contract.class_name is not None:
        own.add(contract.class_name)
    judged = [part for part in contract.parts if part.sensitive in own]
    refuse_unknown_values(judged, values_of, f"{name} has no record")
