"""Several columns treated as one: a record's value is the combination of its values on all of them.

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
    """The name of a product column, such as "disease × job"; `names` are those of its members."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, names: Iterable[str]) -> Product:
        """Name the product of these columns."""
        listed = tuple(names)
        product = super().__new__(cls, _SIGN.join(listed))
        product.names = listed
        return product

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override] # made of names, not of a text
        return (self.names,)


class Combination(str):
    """A value of a product column: the members' values, and the index of each among its column's values."""

    __slots__ = ("places", "values")
    values: tuple[str, ...]
    places: tuple[int, ...]

    def __new__(cls, values: Sequence[str], places: Sequence[int]) -> Combination:
        """Combine one value of each member, with its index."""
        combination = super().__new__(cls, _SIGN.join(values))
        combination.values = tuple(values)
        combination.places = tuple(places)
        return combination

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[int, ...]]:  # type: ignore[override] # as above
        return (self.values, self.places)


def columns_of(name: str) -> tuple[str, ...]:
    """Return the members of a product's name; for any other name, the name itself."""
    return name.names if isinstance(name, Product) else (name,)


def coded_product(name: str, members: Sequence[Coded]) -> Coded:
    """Encode the combinations that occur, ordered by the first member's values, then the second's, …"""
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
