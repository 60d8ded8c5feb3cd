"""Tables 2 to 4 of Motwani and Xu, on Adult: as many columns in each key, and as many published, as in the paper.

Their 14 attributes are those without `fnlwgt`, and with the class.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import masquerade as mq
from adult import TRAINING_ROWS, adult


@pytest.fixture(scope="module")
def table() -> pa.Table:
    complete = adult().complete(adult().arrow.column_names).arrow
    return complete.slice(0, TRAINING_ROWS).drop_columns(["fnlwgt"])


def test_the_keys_of_table_4(table: pa.Table) -> None:
    assert len(mq.keys(table).key) == 13
    assert len(mq.keys(table, exact=True).key) == 13  # "by exhaustive search"
    assert len(mq.keys(table, epsilon=0.1, delta=0.01).key) == 13
    by_pairs = mq.keys(table, measure="separation", epsilon=0.001, delta=0.01)
    assert len(by_pairs.key) <= 5
    assert by_pairs.ratio >= 0.999


def test_what_tables_2_and_3_publish(table: pa.Table) -> None:
    assert len(mq.mask(table, measure="distinct", beta=0.5).published) == 12
    assert len(mq.mask(table, measure="separation", beta=0.8).published) == 5
    sampled = mq.mask(table, measure="separation", beta=0.8, sample=50_000, delta=0.01)
    assert len(sampled.published) in (4, 5)
    assert mq.ratios(table, sampled.published)["separation"] <= 0.8
