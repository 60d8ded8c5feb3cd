"""Several columns read as one: the value of a record is the combination of its values on all of them.

m-privacy needs it twice: several sensitive attributes count as one, their Cartesian product, and the records of a
group are counted by provider and sensitive value at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from masquerade.data.column import Coded
from masquerade.engine.numbering import first_rows, group_rows

_SIGN = " × "


class Product(str):
    """The name of such a column; `names` are those of its members. It reads like "disease × job"."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, names: Iterable[str]) -> Product:
        """The product of the columns of these names."""
        listed = tuple(names)
        product = super().__new__(cls, _SIGN.join(listed))
        product.names = listed
        return product

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override] # made of names, not of a text
        return (self.names,)


class Combination(str):
    """A value of such a column: the members' values, and the place of each among its column's values."""

    __slots__ = ("places", "values")
    values: tuple[str, ...]
    places: tuple[int, ...]

    def __new__(cls, values: Sequence[str], places: Sequence[int]) -> Combination:
        """One value of each member, with its place."""
        combination = super().__new__(cls, _SIGN.join(values))
        combination.values = tuple(values)
        combination.places = tuple(places)
        return combination

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[int, ...]]:  # type: ignore[override] # as above
        return (self.values, self.places)


def columns_of(name: str) -> tuple[str, ...]:
    """The columns that a name stands for: its members where it is a product, otherwise itself."""
    return name.names if isinstance(name, Product) else (name,)


def coded_product(name: str, members: Sequence[Coded]) -> Coded:
    """The combinations that occur, in the order of the first member's values, then the second's, …"""
    columns = ((member.codes, len(member.labels)) for member in members)
    keys, n_keys = group_rows(columns, members[0].codes.size)
    first = first_rows(keys, n_keys)
    labels = tuple(
        Combination(
            [member.labels[place] for member, place in zip(members, places, strict=True)],
            places,
        )
        for places in zip(*(member.codes[first].tolist() for member in members), strict=True)
    )
    return Coded(name, keys.astype(np.int32), labels)
