"""The closest fraction below a bound: it stands for the bound wherever fractions of counts are compared with it.

A share, a ratio or a distance of a group is a fraction whose denominator is at most the number of records. So to
compare it with the bound is to compare it with the largest such fraction within the bound, and that takes whole numbers
no longer than the counts.
"""

from __future__ import annotations

from fractions import Fraction


def largest_within(bound: Fraction, n_records: int) -> tuple[int, int]:
    """Return the largest fraction, at most `bound`, whose denominator is at most `n_records`."""
    whole = bound.numerator // bound.denominator
    exact = bound - whole
    below, above = (0, 1), (1, 1)
    while below[1] + above[1] <= n_records:
        # As many steps at once as one side allows: the fractions between two neighbours are their sums.
        (a, b), (c, d) = below, above
        middle = Fraction(a + c, b + d)
        if middle <= exact:
            gap = exact.denominator * c - exact.numerator * d
            steps = (exact.numerator * b - exact.denominator * a) // gap if gap else n_records
            steps = max(1, min(steps, (n_records - b) // d))
            below = a + steps * c, b + steps * d
        else:
            gap = exact.numerator * b - exact.denominator * a
            steps = (exact.denominator * c - exact.numerator * d - 1) // gap if gap else n_records
            steps = max(1, min(steps, (n_records - d) // b))
            above = c + steps * a, d + steps * b
    return whole * below[1] + below[0], below[1]


def largest_below(bound: Fraction, n_records: int) -> tuple[int, int]:
    """Return the largest fraction, less than `bound` (above 0), whose denominator is at most `n_records`."""
    # Two fractions differ by at least one over the product of their denominators.
    return largest_within(bound - Fraction(1, n_records * bound.denominator), n_records)
