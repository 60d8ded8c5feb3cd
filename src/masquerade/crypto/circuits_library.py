"""The circuits that protocols evaluate, by name. Each is built once and kept.

circuit                inputs                          output                      ANDs (small form)
winner                 "party 0", "party 1", …         "winner": a bit per party   n(n − 1)/2 · w + n(n − 2)
comparison             "left", "right"                 "right is larger"           w
equality               "left", "right"                 "equal"                     w − 1
shared_threshold       "share 0", "share 1"            "reached"                   about 2w
masked_threshold       "masked", "mask"                "reached": a bit per slot   about 2w per slot
table_look_up          "index", "entry 0", …           "entry"                     w per entry
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from masquerade.crypto import words
from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import FALSE, Builder, Circuit, Literal, Word, to_bits
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

    def bits(self, bid: tuple[int, int] | None) -> Bits:
        """Return the word as a circuit input with one instance."""
        return self.each([bid])

    def each(self, bids: Sequence[tuple[int, int] | None]) -> Bits:
        """Return the words as a circuit input with an instance for each."""
        return to_bits([self.word(bid) for bid in bids], self.width)


@lru_cache(maxsize=64)
def winner(n_parties: int, width: int, shallow: bool = False) -> Circuit:
    """Find the party with the largest bid word, as one bit per party; no bit is set when nobody has a candidate.

    Ties go to the lowest party. Nothing else is revealed: neither scores nor who had no candidate.
    """
    if n_parties < 2:
        raise ParameterError(f"a comparison takes at least 2 parties. Got {n_parties} instead.")
    build = Builder()
    bids = [build.input(f"party {party}", width) for party in range(n_parties)]
    flags = words.champions(build, bids, shallow=shallow)
    # A party that beats an earlier one has a larger word, hence a candidate; party 0 may win with none against none.
    build.output("winner", [build.both(flags[0], bids[0][-1]), *flags[1:]])
    return build.build()


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
def comparison(width: int, shallow: bool = False) -> Circuit:
    """Compute left < right."""
    build = Builder()
    left, right = build.input("left", width), build.input("right", width)
    build.output("right is larger", [words.less_than(build, left, right, shallow=shallow)])
    return build.build()


@lru_cache(maxsize=64)
def equality(width: int) -> Circuit:
    """Compute left = right."""
    build = Builder()
    left, right = build.input("left", width), build.input("right", width)
    build.output("equal", [words.equal(build, left, right)])
    return build.build()


@lru_cache(maxsize=64)
def shared_threshold(width: int, at_least: int, shallow: bool = False) -> Circuit:
    """Test whether a count that two parties share additively modulo 2^width is at least `at_least`, and not 0."""
    build = Builder()
    shares = [build.input(f"share {party}", width) for party in range(2)]
    count = words.add(build, *shares, shallow=shallow)
    build.output("reached", [_reached(build, count, at_least, shallow)])
    return build.build()


@lru_cache(maxsize=64)
def masked_threshold(width: int, at_least: int, slots: int = 1, shallow: bool = False) -> Circuit:
    """Test `slots` counts packed into one number likewise; one party holds number + mask, the other the mask.

    Both are taken modulo 2^(width · slots), which ignores higher bits of a longer mask; the difference is taken over
    all slots at once, because a sum carries from one slot into the next.
    """
    build = Builder()
    masked, mask = build.input("masked", width * slots), build.input("mask", width * slots)
    packed = words.subtract(build, masked, mask, shallow=shallow)
    counts = [packed[at : at + width] for at in range(0, width * slots, width)]
    build.output("reached", [_reached(build, count, at_least, shallow) for count in counts])
    return build.build()


@lru_cache(maxsize=64)
def table_look_up(n_entries: int, width: int) -> Circuit:
    """Return the entry at a secret index of a secret table; zero past its end."""
    build = Builder()
    index = build.input("index", max(1, (n_entries - 1).bit_length()))
    entries: list[Word] = [build.input(f"entry {at}", width) for at in range(n_entries)]
    build.output("entry", words.look_up(build, index, entries))
    return build.build()


def _reached(build: Builder, count: Sequence[Literal], at_least: int, shallow: bool) -> Literal:
    bound = max(at_least, 1)  # a count of 0 never reaches it
    if bound >> len(count):
        return FALSE
    return words.at_least(build, count, words.constant(bound, len(count)), shallow=shallow)


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
