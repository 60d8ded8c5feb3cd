"""A party's cuts on one level, as they travel: along which attribute, into how many parts, and each record's part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize import Batch
from masquerade.engine import Counts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message
from masquerade.protocol.mondrian.own_cuts import PartsOfGroups
from masquerade.protocol.tds.instruction_code import pack, unpack

_WIDE = np.dtype("<u4")


class LevelCuts(Message, tag="level-cuts", frozen=True):
    """A party's cuts on one level: of each group it cuts, the attribute and how many parts, then each record's part."""

    positions: bytes
    n_parts: bytes
    parts: bytes


def write_cuts(positions: Counts, cuts: PartsOfGroups) -> LevelCuts:
    """Write cuts, each along the attribute at its position."""
    parts = pack(cuts.part_of_row.astype(np.uint32), int(cuts.n_parts.max())) if cuts.n_parts.size else b""
    return LevelCuts(write_numbers(positions), write_numbers(cuts.n_parts), parts)


def read_cuts(message: LevelCuts, sender: str, cut: Batch) -> tuple[Counts, PartsOfGroups]:
    """Read a peer's cuts of these groups, with their attributes; raise unless every record has a part of its group."""
    positions, n_parts = (read_numbers(data, cut.n_groups) for data in (message.positions, message.n_parts))
    if positions is None or n_parts is None:
        raise PeerBrokeProtocol(sender, f"cut other groups than the {cut.n_groups} that it won")
    if not cut.n_groups:
        if message.parts:
            raise PeerBrokeProtocol(sender, "sent parts of records whose groups it did not win")
        return positions, PartsOfGroups(n_parts, np.zeros(0, np.int64))
    if not ((n_parts >= 2) & (n_parts <= cut.sizes)).all():
        raise PeerBrokeProtocol(sender, "cut a group into more parts than it has records, or into one")
    try:
        parts = unpack(message.parts, int(n_parts.max()), cut.n_records)
    except ValueError as error:
        raise PeerBrokeProtocol(sender, f"sent cuts that cannot be read: {error}") from None
    if (parts >= np.repeat(n_parts, cut.sizes)).any():
        raise PeerBrokeProtocol(sender, "put a record into a part that there is not")
    return positions, PartsOfGroups(n_parts, parts)


def write_numbers(numbers: Counts) -> bytes:
    """Write small numbers, four bytes each."""
    return numbers.astype(_WIDE).tobytes()


def read_numbers(data: bytes, count: int) -> Counts | None:
    """Read `count` numbers; None where there are not as many."""
    if len(data) != count * _WIDE.itemsize:
        return None
    return np.frombuffer(data, _WIDE).astype(np.int64)


def ordered(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers in the order of these doubles, which are equal where they are."""
    bits = (scores + 0.0).view(np.int64)  # without negative zeros
    return np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
