"""What the others learn of a site that drops out, by subtracting sums: with `go-on` its means, else nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from masquerade.net import Script
from masquerade.protocol.learn.sums import Aggregation, MaskedSummands
from protocol.test_learn_drop_out import LOST, SITES, before_the, scene, session, vanishing


def opened_to_anna(monkeypatch: pytest.MonkeyPatch, drop_out: str, lost_before: int) -> list[Any]:
    """All sums that the first site saw; the lost one vanishes before it sends its nth summands."""
    seen: list[Any] = []
    total = Aggregation.total

    def noted(sums: Aggregation, numbers: Any) -> Script[Any]:
        found = yield from total(sums, numbers)
        if SITES[0] not in sums._peers:
            seen.append(found)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Aggregation, "total", noted)
        session(drop_out, {LOST: vanishing(before_the(MaskedSummands, lost_before))})
    return seen


def own_sums(*sites: str) -> Any:
    """The number of some sites' records, and the sums of their first two attributes."""
    tables = [each.arrow for site, each in zip(SITES, scene("stop", "logistic")[2], strict=True) if site in sites]
    columns = [np.concatenate([np.asarray(each[name], float) for each in tables]) for name in ("age", "income")]
    return np.array([len(columns[0]), columns[0].sum(), columns[1].sum()])


def test_going_on_tells_how_many_records_the_lost_site_had_and_their_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first Hessian is a quarter of Σ zz', whose last column has the sums of standardised attributes."""
    totals, products, first, *_ = opened_to_anna(monkeypatch, "go-on", 2)
    n, mean = totals[0], totals[1:] / totals[0]
    upper = np.triu_indices(mean.size)
    deviation = np.sqrt(products[upper[0] == upper[1]] / n)
    size = mean.size + 1
    hessian = np.zeros((size, size))
    hessian[np.triu_indices(size)] = first[1 + size :]
    n_left, standard = 4 * hessian[-1, -1], 4 * hessian[:-1, -1]
    sums_left = standard * deviation + n_left * mean
    guessed = np.concatenate(([n - n_left], totals[1:] - sums_left))[:3]
    np.testing.assert_allclose(guessed, own_sums(LOST), rtol=1e-9)


def test_starting_over_tells_sums_of_those_who_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    totals, *_ = opened_to_anna(monkeypatch, "start-over", 0)
    np.testing.assert_allclose(totals[:3], own_sums(*(site for site in SITES if site != LOST)), rtol=1e-9)
