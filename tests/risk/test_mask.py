"""Masking: what is published never exceeds the limit, by definition."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given

import masquerade as mq
from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.risk.sampling import least_sample_for_masking, masked_beta
from risk import brute_force as by_definition
from risk.test_keys import BETAS, MEASURES, TABLE_1, cells


def test_the_masks_of_table_1() -> None:
    table = pa.table(TABLE_1)
    assert mq.mask(table, measure="distinct", beta=0.8).published == ("sex", "state")
    assert mq.mask(table, measure="separation", beta=0.8).published == ("sex",)
    assert mq.mask(table, measure="separation", beta=0.8, always=["age"]).published == ("age",)
    assert mq.mask(table, measure="separation", beta=0.8, never=["sex"]).published == ("state",)
    assert mq.mask(table, measure="separation", beta=0.8, weights={"age": 3}).published == ("age",)
    assert mq.mask(table, measure="distinct", beta=0.1).published == ()


@given(cells(), MEASURES, BETAS)
def test_nothing_more_fits_and_nothing_exceeds(table: by_definition.Cells, measure: str, beta: float) -> None:
    found = mq.mask(pa.table(table), measure=measure, beta=beta)  # type: ignore[arg-type]
    limit = Fraction(str(beta))
    assert sorted([*found.published, *found.withheld]) == sorted(table)
    if found.published:
        assert by_definition.ratio(table, found.published, measure) <= limit
        assert found.ratio == pytest.approx(float(by_definition.ratio(table, found.published, measure)))
    for name in found.withheld:
        assert by_definition.ratio(table, [*found.published, name], measure) > limit


@given(cells(), MEASURES, BETAS)
def test_each_choice_adds_least(table: by_definition.Cells, measure: str, beta: float) -> None:
    """The bounds that spare most counting change nothing: a plain greedy run publishes the same."""
    published: list[str] = []
    while True:
        order = {name: by_definition.ratio(table, [*published, name], measure) for name in table}
        fits = [name for name in table if name not in published and order[name] <= Fraction(str(beta))]
        if not fits:
            break
        published.append(min(fits, key=lambda name: order[name]))
    found = mq.mask(pa.table(table), measure=measure, beta=beta)  # type: ignore[arg-type]
    assert set(found.published) == set(published)


def test_a_sample_keeps_the_promise_and_publishes_less() -> None:
    n = 5000
    table = pa.table({f"c{at}": [row % (at + 2) for row in range(n)] for at in range(6)})
    for measure, beta in (("distinct", 0.1), ("separation", 0.8)):
        whole = mq.mask(table, measure=measure, beta=beta)  # type: ignore[arg-type]
        part = mq.mask(table, measure=measure, beta=beta, sample=2000, delta=0.01)  # type: ignore[arg-type]
        assert part.sampled == 2000
        assert set(part.published) <= set(whole.published)
        assert mq.ratios(table, part.published)[measure] <= beta  # type: ignore[index]


def test_a_sample_that_is_too_small_names_what_is_needed() -> None:
    table = pa.table(TABLE_1)
    needed = least_sample_for_masking(3, 0.5, 0.01)
    assert masked_beta(3, needed, 0.5, 0.01) > 0 >= masked_beta(3, needed - 1, 0.5, 0.01)
    with pytest.raises(AnswerIsNo, match=f"at least {needed} are needed"):
        mq.mask(table, measure="distinct", beta=0.5, sample=4, delta=0.01)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sample": 100}, "belong together"),
        ({"sample": 0, "delta": 0.1}, "sample must be"),
        ({"always": ["age"], "never": ["age"]}, "both always and never"),
        ({"beta": -1}, "beta must be above 0"),
    ],
)
def test_what_cannot_be_asked(options: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        mq.mask(pa.table(TABLE_1), **{"measure": "distinct", "beta": 0.5, **options})  # type: ignore[arg-type]


def test_columns_that_are_not_there_or_too_telling() -> None:
    with pytest.raises(mq.DataError, match='no column "zip"'):
        mq.mask(pa.table(TABLE_1), measure="distinct", beta=0.5, never=["zip"])
    with pytest.raises(AnswerIsNo, match="to be published always, but their distinct ratio is"):
        mq.mask(pa.table(TABLE_1), measure="distinct", beta=0.5, always=["age"])
