"""Numbers on wires: arithmetic, comparison and choice over a circuit's words.

Where it matters there are two forms. The small one has the fewest ANDs, one per bit, on a path as long as the word:
for garbling, which pays per gate. The shallow one has about three times as many on a path of logarithmic length: for
n-party sharing, which pays a round for each AND on the path.

    words of w bits      small: ANDs, depth     shallow: ANDs, depth
    add, subtract        w − 1, w − 1           about w·log w, log w
    less_than            w, w                   3w − log w − 2, 1 + log w
    equal                w − 1, log w
    multiplex, exchange  w, 1
    total of n           (n − 1)·w, w + log n   as many shallow additions, log n after each other
    times of v bits      about 2·v·w, v + w     about v·w·log w, log v · log w
    population           at most w − 1
    reaches              one for each bit that is added

Numbers are unsigned and sums are modulo 2^w unless a function says otherwise; all words of a call are equally wide.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from masquerade.crypto.circuit import FALSE, TRUE, Builder, CircuitError, Literal, Word


def constant(number: int, width: int) -> Word:
    """Return a public number as a word."""
    if not 0 <= number < 1 << width:
        raise CircuitError(f"{number} does not fit into {width} bits")
    return [TRUE if number >> bit & 1 else FALSE for bit in range(width)]


def inverted(word: Sequence[Literal]) -> Word:
    """Flip each bit: 2^w − 1 − x."""
    return [bit ^ 1 for bit in word]


def add(
    build: Builder, x: Sequence[Literal], y: Sequence[Literal], *, shallow: bool = False, carry: Literal = FALSE
) -> Word:
    """Compute x + y + `carry`."""
    _same_width(x, y)
    carries = _prefix_carries(build, x, y, carry) if shallow else _ripple_carries(build, x, y, carry)
    return [build.xor(build.xor(a, b), c) for a, b, c in zip(x, y, carries, strict=False)]


def subtract(build: Builder, x: Sequence[Literal], y: Sequence[Literal], *, shallow: bool = False) -> Word:
    """Compute x − y."""
    return add(build, x, inverted(y), shallow=shallow, carry=TRUE)


def less_than(build: Builder, x: Sequence[Literal], y: Sequence[Literal], *, shallow: bool = False) -> Literal:
    """Compute x < y."""
    _same_width(x, y)
    if not shallow:
        return _ripple_carries(build, x, inverted(y), TRUE)[-1] ^ 1  # no carry out of x − y: it borrowed
    level = [(build.both(a ^ 1, b), build.xor(a, b) ^ 1) for a, b in zip(x, y, strict=True)]  # (less, equal)
    while len(level) > 1:
        joined = []
        for at in range(0, len(level) - 1, 2):
            (low_less, low_equal), (high_less, high_equal) = level[at : at + 2]
            # At most one of the two terms holds, so XOR equals OR.
            less = build.xor(high_less, build.both(high_equal, low_less))
            joined.append((less, build.both(high_equal, low_equal)))
        level = joined + level[len(level) & ~1 :]
    return level[0][0]


def at_least(build: Builder, x: Sequence[Literal], y: Sequence[Literal], *, shallow: bool = False) -> Literal:
    """Compute x ≥ y."""
    return less_than(build, x, y, shallow=shallow) ^ 1


def equal(build: Builder, x: Sequence[Literal], y: Sequence[Literal]) -> Literal:
    """Compute x = y."""
    _same_width(x, y)
    return build.all_of([build.xor(a, b) ^ 1 for a, b in zip(x, y, strict=True)])


def is_zero(build: Builder, x: Sequence[Literal]) -> Literal:
    """Compute x = 0."""
    return build.all_of(inverted(x))


def multiplex(build: Builder, choice: Literal, x: Sequence[Literal], y: Sequence[Literal]) -> Word:
    """Return y where `choice` holds, else x."""
    _same_width(x, y)
    return [build.xor(a, build.both(choice, build.xor(a, b))) for a, b in zip(x, y, strict=True)]


def total(build: Builder, terms: Sequence[Sequence[Literal]], *, shallow: bool = False) -> Word:
    """Add up any number of words, at least one, as a tree."""
    level = [list(term) for term in terms]
    while len(level) > 1:
        paired = [add(build, *level[at : at + 2], shallow=shallow) for at in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) & ~1 :]
    return level[0]


def times(build: Builder, x: Sequence[Literal], y: Sequence[Literal], *, shallow: bool = False) -> Word:
    """Compute x · y modulo 2^w, with w the width of x; y may have another. Bits of y that are public and 0 are free."""
    terms = [
        [FALSE] * shift + [build.both(bit, each) for each in x[: len(x) - shift]]
        for shift, bit in enumerate(y[: len(x)])
        if bit != FALSE
    ]
    return total(build, terms, shallow=shallow) if terms else [FALSE] * len(x)


def exchange(build: Builder, swap: Literal, x: Sequence[Literal], y: Sequence[Literal]) -> tuple[Word, Word]:
    """Return y and x where `swap` holds, else x and y; one AND per bit."""
    _same_width(x, y)
    moved = [build.both(swap, build.xor(a, b)) for a, b in zip(x, y, strict=True)]
    first, second = ([build.xor(a, b) for a, b in zip(word, moved, strict=True)] for word in (x, y))
    return first, second


def normalised(build: Builder, number: Sequence[Literal]) -> tuple[Word, Word]:
    """Shift a number up until its highest bit is set. Return it, and by how much it was shifted."""
    word, zeros = list(number), []
    for place in reversed(range((len(word) - 1).bit_length())):
        by = 1 << place
        empty = is_zero(build, word[-by:])
        word = multiplex(build, empty, word, ([FALSE] * by + word)[: len(word)])
        zeros.append(empty)
    return word, zeros[::-1]


def population(build: Builder, bits: Sequence[Literal]) -> Word:
    """Count the bits that are set."""
    return add_columns(build, [bits])


def add_columns(build: Builder, columns: Sequence[Sequence[Literal]]) -> Word:
    """Add up any number of bits of each place; the result is as wide as it may have to be."""
    word: Word = []
    waiting = [list(column) for column in columns]
    while waiting:
        bit, carries = _add_column(build, waiting.pop(0))
        word.append(bit)
        if carries:
            waiting[:1] = [[*(waiting[0] if waiting else []), *carries]]
    return word


def reaches(build: Builder, columns: Sequence[Sequence[Literal]], bound: int) -> tuple[Literal, Word]:
    """Test whether the sum of any number of bits of each place is at least `bound`.

    What the bound lacks of the next power of two is added, so that the carries out of the lower places say it, and no
    comparison comes after the sum. Return also these lower places, of the sum with what was added.
    """
    if bound <= 0:
        return TRUE, []
    width = (bound - 1).bit_length()
    added = constant((1 << width) - bound, width)
    word: Word = []
    carries: list[Literal] = []
    for place, more in enumerate(added):
        given = columns[place] if place < len(columns) else []
        bit, carries = _add_column(build, [*given, *carries, *([more] if more else [])])
        word.append(bit)
    return build.any_of([*(bit for column in columns[width:] for bit in column), *carries]), word


def at_least_of(build: Builder, bits: Sequence[Literal], bound: int) -> Literal:
    """Test whether at least `bound` of the bits are set."""
    return reaches(build, [bits], bound)[0]


def _add_column(build: Builder, bits: Sequence[Literal]) -> tuple[Literal, list[Literal]]:
    """Add up bits of one place by full adders, three at a time, those of the least depth first: sum and carries."""
    column = sorted(bits, key=build.depth)
    carries: list[Literal] = []
    while len(column) > 1:
        a, b, c = [*column[:2], FALSE] if len(column) == 2 else column[:3]
        del column[:3]
        insort(column, build.parity((a, b, c)), key=build.depth)  # after its equals: the tree stays balanced
        carries.append(_majority(build, a, b, c))
    return (column[0] if column else FALSE), [carry for carry in carries if carry != FALSE]


def arg_max(build: Builder, words: Sequence[Sequence[Literal]], *, shallow: bool = False) -> tuple[Word, Word]:
    """Return (index, value) of the largest word by a knock-out tournament; ties go to the lowest index."""
    n_bits = max(1, (len(words) - 1).bit_length())
    level = [(constant(at, n_bits), list(word)) for at, word in enumerate(words)]
    while len(level) > 1:
        winners = []
        for at in range(0, len(level) - 1, 2):
            (early, x), (late, y) = level[at : at + 2]
            later_wins = less_than(build, x, y, shallow=shallow)
            winners.append((multiplex(build, later_wins, early, late), multiplex(build, later_wins, x, y)))
        level = winners + level[len(level) & ~1 :]
    return level[0]


def champions(build: Builder, words: Sequence[Sequence[Literal]], *, shallow: bool = False) -> Word:
    """Return one bit per word, set only for the largest; ties go to the lowest index.

    Compares all pairs: more comparisons than a tournament, but all of them at once.
    """
    later_wins = {
        (early, late): less_than(build, words[early], words[late], shallow=shallow)
        for late in range(len(words))
        for early in range(late)
    }
    return [
        build.all_of(
            [later_wins[other, at] for other in range(at)]
            + [later_wins[at, other] ^ 1 for other in range(at + 1, len(words))]
        )
        for at in range(len(words))
    ]


def _ripple_carries(build: Builder, x: Sequence[Literal], y: Sequence[Literal], carry: Literal) -> list[Literal]:
    """Return the carry into each bit, and out of the last."""
    carries = [carry]
    for a, b in zip(x, y, strict=True):
        carries.append(_majority(build, a, b, carries[-1]))
    return carries


def _majority(build: Builder, a: Literal, b: Literal, c: Literal) -> Literal:
    """Return whether at least two of three hold, with one AND."""
    return build.xor(c, build.both(build.xor(a, c), build.xor(b, c)))


def _prefix_carries(build: Builder, x: Sequence[Literal], y: Sequence[Literal], carry: Literal) -> list[Literal]:
    """Return the same carries by Sklansky's parallel prefix over (generates, propagates)."""
    spans = [(carry, FALSE)] + [(build.both(a, b), build.xor(a, b)) for a, b in zip(x, y, strict=True)]
    stride = 1
    while stride < len(spans):
        for at in range(len(spans)):
            if at & stride:
                generates, propagates = spans[at]
                low_generates, low_propagates = spans[(at & ~(2 * stride - 1)) + stride - 1]
                spans[at] = (
                    build.xor(generates, build.both(propagates, low_generates)),
                    build.both(propagates, low_propagates),
                )
        stride *= 2
    return [generates for generates, _ in spans]


def _same_width(x: Sequence[Literal], y: Sequence[Literal]) -> None:
    if len(x) != len(y) or not x:
        raise CircuitError(f"words of {len(x)} and {len(y)} bits; both must have the same width, at least 1")
