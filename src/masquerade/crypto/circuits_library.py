"""The circuits that protocols evaluate, by name. Each is built once and kept.

circuit                inputs                          output                      ANDs (small form)
compare_bids           "left", "right"                 "left wins", "right wins"   w + 1
undefeated             "0 1", "0 2", …                 "winner": a bit per party   n(n − 2)
masked_threshold       "masked", "mask"                "reached": a bit per slot   about 2w per slot
reciprocal_circuit     "provider 0", "provider 1", …   "reciprocal"                see below
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from masquerade.crypto import words
from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import FALSE, Builder, Circuit, Word, to_bits
from masquerade.errors import ParameterError


@dataclass(frozen=True)
class BidWords:
    """Encodes a bid (a signed score, then the earlier position) as an unsigned word, preserving order.

    From the top: whether there is a candidate; the score, shifted to be unsigned; the position, counted from the
    last. "No candidate" is the word 0, below all others, so that it looks like any other secret input.
    """

    score_bits: int
    position_bits: int

    def __post_init__(self) -> None:
        if not (1 <= self.score_bits <= 192 and 1 <= self.position_bits <= 32):
            raise ParameterError(
                "a bid's score must have 1 to 192 bits and its position 1 to 32. "
                f"Got {self.score_bits} and {self.position_bits} instead."
            )

    @property
    def width(self) -> int:
        """The number of bits of a word."""
        return 1 + self.score_bits + self.position_bits

    def word(self, bid: tuple[int, int] | None) -> int:
        """Return the word of a (score, position); None means no candidate."""
        if bid is None:
            return 0
        score, position = bid
        shifted = score + (1 << (self.score_bits - 1))
        if not (0 <= shifted < 1 << self.score_bits and 0 <= position < 1 << self.position_bits):
            # The score is secret: the message must not contain it.
            raise ParameterError(f"a bid does not fit {self.score_bits} and {self.position_bits} bits")
        backwards = (1 << self.position_bits) - 1 - position
        return ((1 << self.score_bits | shifted) << self.position_bits) | backwards

    def each(self, bids: Sequence[tuple[int, int] | None]) -> Bits:
        """Return the words as a circuit input with an instance for each."""
        return to_bits([self.word(bid) for bid in bids], self.width)


@lru_cache(maxsize=64)
def compare_bids(width: int, shallow: bool = False) -> Circuit:
    """Find the larger of two bid words, the left one on a tie; neither wins when neither has a candidate."""
    build = Builder()
    left, right = build.input("left", width), build.input("right", width)
    right_wins = words.less_than(build, left, right, shallow=shallow)
    build.output("left wins", [build.both(right_wins ^ 1, left[-1])])
    build.output("right wins", [right_wins])
    return build.build()


@lru_cache(maxsize=64)
def undefeated(n_parties: int) -> Circuit:
    """Find who won all comparisons: input "i j" says that i beat j; output "winner" has one bit per party."""
    build = Builder()
    won = {
        (party, other): build.input(f"{party} {other}", 1)[0]
        for party in range(n_parties)
        for other in range(n_parties)
        if party != other
    }
    rows = [[won[party, other] for other in range(n_parties) if other != party] for party in range(n_parties)]
    build.output("winner", [build.all_of(row) for row in rows])
    return build.build()


@lru_cache(maxsize=64)
def masked_threshold(width: int, at_least: int, slots: int) -> Circuit:
    """Test whether each of `slots` counts in one number is at least `at_least`, and not 0.

    One party holds number + mask, the other the mask.
    Both are taken modulo 2^(width · slots), which ignores higher bits of a longer mask; the difference is taken over
    all slots at once, because a sum carries from one slot into the next.
    """
    build = Builder()
    masked, mask = build.input("masked", width * slots), build.input("mask", width * slots)
    packed = words.subtract(build, masked, mask)
    counts = [packed[at : at + width] for at in range(0, width * slots, width)]
    bound = max(at_least, 1)  # a count of 0 never reaches it
    reached = [FALSE] * slots
    if not bound >> width:
        reached = [words.at_least(build, count, words.constant(bound, width)) for count in counts]
    build.output("reached", reached)
    return build.build()


# --- reciprocal ---------------------------------------------------------------------------------------------
# The circuit of 1/x, for x in fixed point and of unknown size, by long division of its leading digits.
#
# x is shifted up until its highest digit is set; its first `MANTISSA` digits divide a power of two; the
# quotient is shifted up by as much. So the relative error is below 2^(2 − MANTISSA) whatever the size of x.
#
# About M² · log₂ M + 2w · log₂ w ANDs on a path of M · (log₂ M + 2), for words of w digits and a mantissa
# of M: n-party sharing pays a round for each AND on the path.

MANTISSA = 20


@lru_cache(maxsize=16)
def reciprocal_circuit(n_addends: int, width: int, dropped: int, out: int) -> Circuit:
    """Return the circuit that adds up words "provider 0" … and gives `out` digits of the sum's "reciprocal".

    Of a sum x, that is about 2^(width + MANTISSA − 2 − dropped) / x. A reciprocal of more digits is cut off at the top.
    """
    build = Builder()
    x = words.total(build, [build.input(f"provider {number}", width) for number in range(n_addends)], shallow=True)
    aligned, zeros = words.normalised(build, x)
    quotient = _divided(build, ([FALSE] * MANTISSA + aligned)[-MANTISSA:])
    word = (quotient + [FALSE] * (out + dropped))[: out + dropped]
    for place, bit in enumerate(zeros):
        word = words.multiplex(build, bit, word, ([FALSE] * (1 << place) + word)[: len(word)])
    build.output("reciprocal", word[dropped:])
    return build.build()


def _divided(build: Builder, divisor: Word) -> Word:
    """Return ⌊2^(2M − 2) / divisor⌋, for a divisor of M digits of which the highest is set."""
    m = len(divisor)
    wide = [*divisor, FALSE]
    rest = words.constant(1 << (m - 2), m)
    quotient: Word = []
    for _ in range(m):
        doubled = [FALSE, *rest]
        difference = words.subtract(build, [*doubled, FALSE], [*wide, FALSE], shallow=True)
        fits = difference[-1] ^ 1
        rest = words.multiplex(build, fits, doubled, difference[:-1])[:m]
        quotient.append(fits)
    return quotient[::-1]
