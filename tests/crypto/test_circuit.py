"""Circuits against Python's arithmetic, in both forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import comparison
from examples import examples
from masquerade.crypto import FALSE, TRUE, Bits, Builder, Literal, Word, circuits_library, to_bits, words
from masquerade.crypto.circuit import CircuitError, evaluate
from masquerade.errors import ParameterError

FORMS = pytest.mark.parametrize("shallow", [False, True], ids=["small", "shallow"])
few = settings(max_examples=examples(25), deadline=None)


def from_bits(bits: Bits) -> list[int]:
    """Words as whole numbers, none negative."""
    rows = np.packbits(bits.T, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def computed(numbers: Sequence[Sequence[int]], width: int, make: Callable[..., Word | Literal]) -> list[int]:
    """What `make` gives on words that hold these numbers: one list an input, one entry an instance."""
    build = Builder()
    inputs = [build.input(f"x{at}", width) for at in range(len(numbers))]
    result = make(build, *inputs)
    build.output("result", [result] if isinstance(result, int) else result)
    bits = {f"x{at}": to_bits(values, width) for at, values in enumerate(numbers)}
    return from_bits(evaluate(build.build(), bits)["result"])


@st.composite
def columns(draw: st.DrawFn, n_inputs: int, widths: tuple[int, int] = (1, 200)) -> tuple[int, list[list[int]]]:
    """A width, and for each input as many numbers of that width; numbers near each other are likely."""
    width = draw(st.integers(*widths))
    n = draw(st.integers(1, 9))
    near = draw(st.integers(0, 2**width - 1))
    number = st.integers(0, 2**width - 1) | st.sampled_from(sorted({near, (near + 1) % 2**width, 0, 2**width - 1}))
    return width, [draw(st.lists(number, min_size=n, max_size=n)) for _ in range(n_inputs)]


@FORMS
@given(case=columns(2))
@few
def test_sums_and_differences(shallow: bool, case: tuple[int, list[list[int]]]) -> None:
    width, (xs, ys) = case
    sums = computed([xs, ys], width, lambda build, x, y: words.add(build, x, y, shallow=shallow))
    assert sums == [(x + y) % 2**width for x, y in zip(xs, ys, strict=True)]
    gaps = computed([xs, ys], width, lambda build, x, y: words.subtract(build, x, y, shallow=shallow))
    assert gaps == [(x - y) % 2**width for x, y in zip(xs, ys, strict=True)]


@FORMS
@given(case=columns(2))
@few
def test_comparisons(shallow: bool, case: tuple[int, list[list[int]]]) -> None:
    width, (xs, ys) = case
    pairs = list(zip(xs, ys, strict=True))
    less = computed([xs, ys], width, lambda build, x, y: words.less_than(build, x, y, shallow=shallow))
    assert less == [x < y for x, y in pairs]
    reached = computed([xs, ys], width, lambda build, x, y: words.at_least(build, x, y, shallow=shallow))
    assert reached == [x >= y for x, y in pairs]
    assert computed([xs, ys], width, words.equal) == [x == y for x, y in pairs]
    assert computed([xs], width, words.is_zero) == [x == 0 for x in xs]


@FORMS
@given(data=st.data())
@few
def test_the_largest_and_of_equal_ones_the_first(shallow: bool, data: st.DataObject) -> None:
    width, numbers = data.draw(columns(data.draw(st.integers(2, 6)), (1, 20)))
    instances = list(zip(*numbers, strict=True))
    index = computed(numbers, width, lambda build, *x: words.arg_max(build, x, shallow=shallow)[0])
    assert index == [instance.index(max(instance)) for instance in instances]
    value = computed(numbers, width, lambda build, *x: words.arg_max(build, x, shallow=shallow)[1])
    assert value == [max(instance) for instance in instances]
    flags = computed(numbers, width, lambda build, *x: words.champions(build, x, shallow=shallow))
    assert flags == [1 << instance.index(max(instance)) for instance in instances]


@given(numbers=st.lists(st.integers(0, 2**40 - 1), min_size=1, max_size=8), width=st.integers(1, 40))
@few
def test_population(numbers: list[int], width: int) -> None:
    kept = [number % 2**width for number in numbers]
    assert computed([kept], width, words.population) == [number.bit_count() for number in kept]


@given(case=columns(4, (1, 12)), bound=st.integers(0, 300))
@few
def test_a_sum_reaches_a_bound(case: tuple[int, list[list[int]]], bound: int) -> None:
    width, numbers = case

    def reached(build: Builder, *terms: Word) -> Literal:
        return words.reaches(build, list(zip(*terms, strict=True)), bound)[0]

    totals = [sum(instance) for instance in zip(*numbers, strict=True)]
    assert computed(numbers, width, reached) == [total >= bound for total in totals]


def test_what_is_known_late_is_combined_last() -> None:
    """A chain of three ANDs and three literals: the literals wait for nobody."""
    build = Builder()
    word = build.input("x", 7)
    late = build.both(build.both(build.both(word[0], word[1]), word[2]), word[3])
    build.output("all", [build.all_of([late, *word[4:]])])
    assert build.build().depth == 4


@given(case=columns(3, (1, 70)))
@few
def test_choices(case: tuple[int, list[list[int]]]) -> None:
    width, (choices, xs, ys) = case
    chosen = computed([choices, xs, ys], width, lambda build, c, x, y: words.multiplex(build, c[0], x, y))
    assert chosen == [y if c & 1 else x for c, x, y in zip(choices, xs, ys, strict=True)]


@given(data=st.data(), width=st.integers(1, 24))
@few
def test_thresholds_of_masked_counts(data: st.DataObject, width: int) -> None:
    top = 2**width - 1
    bound = data.draw(st.integers(0, min(2 * top, 300)))
    counts = data.draw(st.lists(st.integers(0, min(top, 310)), min_size=1, max_size=6))
    expected = [count >= bound and count > 0 for count in counts]
    # All counts in one number, under one mask with 40 bits to spare: sums carry from slot to slot.
    packed = sum(count << (width * at) for at, count in enumerate(counts))
    mask = data.draw(st.integers(0, 2 ** (width * len(counts) + 40) - 1))
    whole = width * len(counts)
    masked = circuits_library.masked_threshold(width, bound, len(counts))
    reached = evaluate(masked, {"masked": to_bits([packed + mask], whole), "mask": to_bits([mask], whole)})
    assert reached["reached"][:, 0].tolist() == expected


bids = st.none() | st.tuples(st.integers(-3, 3) | st.integers(-(2**99), 2**99 - 1), st.integers(0, 40))


@FORMS
@given(offered=st.lists(bids, min_size=2, max_size=5))
@few
def test_the_winner_is_the_highest_score_and_then_the_earliest_position(
    shallow: bool, offered: list[tuple[int, int] | None]
) -> None:
    coding = circuits_library.BidWords(score_bits=100, position_bits=6)
    # Every pair by itself, then whoever won all of its own.
    results: dict[str, Bits] = {}
    for left, right in combinations(range(len(offered)), 2):
        words_of = {"left": coding.each([offered[left]]), "right": coding.each([offered[right]])}
        result = evaluate(circuits_library.compare_bids(coding.width, shallow), words_of)
        results[f"{left} {right}"], results[f"{right} {left}"] = result["left wins"], result["right wins"]
    undefeated = evaluate(circuits_library.undefeated(len(offered)), results)
    assert undefeated["winner"][:, 0].tolist() == flags(offered)


def flags(offered: list[tuple[int, int] | None]) -> list[int]:
    candidates = {party: bid for party, bid in enumerate(offered) if bid is not None}
    best = min(candidates, key=lambda each: (-candidates[each][0], candidates[each][1], each), default=None)
    return [int(party == best) for party in range(len(offered))]


def test_bids_that_do_not_fit_are_refused_without_showing_them() -> None:
    coding = circuits_library.BidWords(score_bits=8, position_bits=2)
    assert coding.word((-128, 3)) > coding.word(None)
    for bid in [(128, 0), (-129, 0), (77777, 1), (0, 4), (0, -1)]:
        with pytest.raises(ParameterError, match="a bid does not fit 8 and 2 bits") as refused:
            coding.word(bid)
        assert "77777" not in str(refused.value)
    with pytest.raises(ParameterError, match="1 to 192 bits"):
        circuits_library.BidWords(score_bits=193, position_bits=1)


@pytest.mark.parametrize("width", [1, 8, 64, 113, 192])
def test_small_comparisons_take_one_and_a_bit_and_shallow_ones_few_rounds(width: int) -> None:
    small, shallow = (comparison(width, form) for form in (False, True))
    assert small.n_and == width
    assert shallow.depth <= 1 + int(np.ceil(np.log2(width)))
    assert shallow.n_and <= 3 * width


def test_gates_on_constants_and_equal_gates_are_not_built() -> None:
    build = Builder()
    x, y = build.input("x", 2)
    assert build.both(x, FALSE) == FALSE
    assert build.both(x, TRUE) == x
    assert build.both(x, x) == x
    assert build.both(x, x ^ 1) == FALSE
    assert build.xor(x, x) == FALSE
    assert build.xor(x, x ^ 1) == TRUE
    assert build.xor(x, TRUE) == x ^ 1
    assert build.both(x, y) == build.both(y, x)
    assert build.xor(x, y ^ 1) == build.xor(y, x) ^ 1
    build.both(x ^ 1, y)  # leads nowhere
    build.output("and", [build.both(x, y), TRUE, FALSE])
    circuit = build.build()
    assert (circuit.n_and, circuit.depth) == (1, 1)
    assert from_bits(evaluate(circuit, {"x": to_bits([0, 1, 2, 3], 2)})["and"]) == [2, 2, 2, 3]


def test_circuits_put_together_wrongly_are_refused() -> None:
    build = Builder()
    x = build.input("x", 3)
    for mistake in (
        lambda: build.input("x", 1),
        lambda: words.add(build, x, x[:2]),
        lambda: words.constant(8, 3),
        build.build,
    ):
        with pytest.raises(CircuitError):
            mistake()
    build.output("x", [build.both(x[0], x[1])])
    with pytest.raises(CircuitError, match="twice"):
        build.output("x", x)
    with pytest.raises(CircuitError, match="before any gate"):
        build.input("y", 1)
    circuit = build.build()
    with pytest.raises(CircuitError, match="3 rows"):
        evaluate(circuit, {"x": to_bits([1], 2)})
    with pytest.raises(CircuitError, match="inputs are x"):
        evaluate(circuit, {"y": to_bits([1], 3)})


@given(numbers=st.lists(st.integers(-(2**130), 2**130), min_size=1, max_size=5), width=st.integers(1, 140))
@few
def test_numbers_as_bits_and_back(numbers: list[int], width: int) -> None:
    assert from_bits(to_bits(numbers, width)) == [number % 2**width for number in numbers]


@few
@given(columns(2, (1, 20)))
def test_an_included_circuit_computes_the_same(drawn: tuple[int, list[list[int]]]) -> None:
    """On inverted inputs, and beside gates of its own."""
    width, (left, right) = drawn
    build = Builder()
    x, y = build.input("x", width), build.input("y", width)
    less = build.include(comparison(width), {"left": words.inverted(x), "right": words.inverted(y)})["right is larger"]
    build.output("less", less)
    bits = {"x": to_bits(left, width), "y": to_bits(right, width)}
    assert evaluate(build.build(), bits)["less"][0].tolist() == [a > b for a, b in zip(left, right, strict=True)]
    with pytest.raises(CircuitError, match='input "left" must have'):
        Builder().include(comparison(2), {"left": [FALSE], "right": [TRUE]})
