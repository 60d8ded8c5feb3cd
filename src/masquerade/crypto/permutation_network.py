"""A permutation as switches that each exchange two neighbours or do not: Beneš's network ("Optimal Rearrangeable
Multistage Connecting Networks", 1964).

For 2^m places there are 2·m − 1 stages of 2^(m−1) switches. Stage 0 sends one of each two neighbours to the upper and
one to the lower half, each half is a network of its own, and the last stage brings neighbours together again:

    stages 0 … m − 2       switch neighbours, then sort the places of each network by their last digit
    stage m − 1            switch neighbours
    stages m … 2·m − 2     the reverse: shuffle the halves of each network, then switch neighbours

Which switches are set depends on the permutation, everything else on m alone. Whoever goes to a half forces its
neighbour into the other one, at the input and at the output: these constraints form cycles, and one choice in each is
free. All networks of a stage are routed at once, and cycles by pointer doubling: (log₂ n)² passes over n numbers.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import Bits
from masquerade.errors import ParameterError

Order = NDArray[np.int64]
_Scalar = TypeVar("_Scalar", bound=np.generic)


def depth_for(places: int) -> int:
    """Return m of the smallest network whose 2^m places are enough; at least one switch."""
    return max(1, (places - 1).bit_length())


def stages_of(depth: int) -> int:
    """Return the number of stages of a network of 2^`depth` places."""
    return 2 * depth - 1


def switches(order: Order) -> Bits:
    """Return the switches, uint8[stages, places / 2], that turn v into v[order]; there are 2^m places, m ≥ 1."""
    size = len(order)
    if size < 2 or size & (size - 1):
        raise ParameterError(f"a network has a power of two of places. Got {size} instead.")
    places = np.arange(size)
    to = _inverse(order)
    first: list[Bits] = []
    last: list[Bits] = []
    width = size
    while width > 2:
        come_from = _inverse(to)
        # The input whose output neighbours that of our neighbour must go to the same half as we do.
        lowest = _lowest_of_cycle(come_from[to[places ^ 1] ^ 1])
        lower = (lowest > lowest[places ^ 1]).astype(np.int64)  # which half each input goes to
        out = lower[come_from]
        first.append(lower[::2].astype(np.uint8))
        last.append(out[::2].astype(np.uint8))
        within = (places & ~(width - 1)) + ((places & (width - 1)) >> 1)
        following = np.empty_like(to)
        following[within + lower * (width // 2)] = (within + out * (width // 2))[to]
        to = following
        width //= 2
    return np.stack([*first, (to[::2] & 1).astype(np.uint8), *reversed(last)])


def rearranged(wires: NDArray[_Scalar], stage: int, depth: int) -> NDArray[_Scalar]:
    """Return the wires in the order in which the switches of this stage take them, from that of the stage before."""
    if stage == 0:
        return wires
    if stage < depth:
        halves: NDArray[Any] = wires.reshape(1 << (stage - 1), -1, 2)
    else:
        halves = wires.reshape(1 << (2 * depth - 2 - stage), 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(-1)


def _inverse(order: Order) -> Order:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse


def _lowest_of_cycle(step: Order) -> Order:
    """Return the lowest place of the cycle that each place is on."""
    lowest = np.arange(len(step))
    for _ in range(depth_for(len(step))):
        lowest = np.minimum(lowest, lowest[step])
        step = step[step]
    return lowest
