"""Additive shares: n random elements whose sum is the value. Any n − 1 of them are independent of it.

The oldest trick of the field (Benaloh, CRYPTO 1986, credits Karnin, Greene and Hellman); perfect, not only
computational, when the elements are random. Sums of shared values are sums of shares; products need `products`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from numpy.typing import ArrayLike

from masquerade.crypto.rings import Elements, Ring
from masquerade.errors import ParameterError


def share(values: ArrayLike, parties: int, ring: Ring) -> list[Elements]:
    """Split values into one array of elements per party, which sum to the values."""
    if parties < 2:
        raise ParameterError(f"the number of parties must be at least 2. Got {parties} instead.")
    elements = ring.elements(values)
    others = [ring.random(elements.shape) for _ in range(parties - 1)]
    return [*others, reduce(ring.subtract, others, elements)]


def reconstruct(shares: Sequence[Elements], ring: Ring) -> Elements:
    """Return the values, from the shares of all parties."""
    if len(shares) < 2 or len({part.shape for part in shares}) != 1:
        raise ParameterError("shares of one value must be at least two arrays of one shape")
    return reduce(ring.add, shares)
