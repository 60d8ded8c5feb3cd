"""Charts draw the numbers they are given."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.errors import ParameterError
from masquerade.report import figure
from masquerade.report.charts import (
    Bar,
    Reference,
    Series,
    SizeLine,
    bar_chart,
    line_chart,
    share_bar,
    size_bins,
    size_histogram,
    standalone,
)
from masquerade.report.charts.svg import Scale, log_ticks, ticks
from masquerade.report.verdict import bare_name, duration, percent


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60), st.lists(st.integers(1, 10**6), max_size=3))
@settings(max_examples=examples(150), deadline=None)
def test_bins_hold_every_group_once_and_begin_at_the_marks(sizes, marks):
    bins = size_bins(np.array(sizes), marks)
    assert list(bins.edges) == sorted(set(bins.edges))
    assert bins.edges[0] <= min(sizes)
    assert max(sizes) < bins.edges[-1]
    assert list(bins.counts) == [
        sum(lo <= size < hi for size in sizes) for lo, hi in zip(bins.edges, bins.edges[1:], strict=False)
    ]
    assert all(mark in bins.edges for mark in marks if bins.edges[0] < mark < bins.edges[-1])
    assert len(bins.counts) <= 50


def test_every_series_has_a_colour_and_a_marker_of_its_own() -> None:
    names = [f"method {number}" for number in range(30)]
    series = [Series(name, [(1.0, number), (2.0, number)]) for number, name in enumerate(names)]
    svg = ElementTree.fromstring(line_chart(series, title="many"))
    dots: dict[str, set[tuple[str, str]]] = {name: set() for name in names}
    for path in svg.iter("path"):
        if path.get("class", "").startswith("dot") and len(path):
            dots[path[0].text.split(",")[0]].add((path.get("class"), path.get("d")))
    assert all(len(looks) == 1 for looks in dots.values())
    looks = [next(iter(each)) for each in dots.values()]
    assert len(set(looks)) == len(names)
    assert len({colour for colour, _ in looks[:12]}) == len({marker for _, marker in looks[:12]}) == 12


def test_the_levels_of_a_line_chart_stand_beside_the_lines() -> None:
    points = [(0.0, 0.0), (0.1, 0.9), (1.0, 1.0)]
    svg = ElementTree.fromstring(line_chart([Series("model", points)], title="ROC", write=percent))
    ends = [
        float(text.get("x"))
        for text in svg.iter("text")
        if text.get("class") == "tick" and text.get("text-anchor") == "end"
    ]
    lines = [each for each in svg.iter("path") if each.get("class") == "line s0"]
    (start,) = (float(re.match(r"M([0-9.]+)", each.get("d")).group(1)) for each in lines)
    assert len(ends) > 2
    assert max(ends) < start


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40), st.lists(st.integers(1, 9000), max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_bars_left_of_a_line_are_the_groups_below_it(sizes, ks):
    lines = [SizeLine(k, f"k = {k}") for k in ks]
    svg = ElementTree.fromstring(size_histogram(np.array(sizes), lines, title="sizes"))
    bars = [rect for rect in svg.iter("rect") if rect.get("class") == "bar"]
    for line in (each for each in svg.iter("line") if each.get("class") == "required"):
        at = float(line.get("x1"))
        assert all(
            float(bar.get("x")) + float(bar.get("width")) <= at + 0.05 or float(bar.get("x")) >= at - 0.05
            for bar in bars
        )
    told = [int(bar[0].text.split(": ")[1].split()[0].replace(",", "")) for bar in bars]
    assert sum(told) == len(sizes)


def test_few_sizes_have_a_bar_each_and_a_wide_range_is_logarithmic():
    assert size_bins(np.array([3, 4, 4, 7])).edges == (3, 4, 5, 6, 7, 8)
    wide = size_bins(np.array([20, 500, 40_000]), [20])
    assert wide.log
    assert wide.edges[0] == 20


def test_the_histogram_says_its_figures():
    svg = ElementTree.fromstring(size_histogram(np.array([2, 2, 9]), [SizeLine(2, "k = 2")], title="sizes"))
    assert svg[1].text.startswith("3 groups; the smallest has 2 records, the median 2, the largest 9. Required: k = 2.")


def test_points_stand_at_their_values():
    svg = ElementTree.fromstring(
        line_chart([Series("a", [(10, 0.1), (20, 0.2), (1000, 0.4)])], title="t", references=[Reference(0.3, "paper")])
    )
    dots = [each for each in svg.iter("path") if each.get("class") == "dot s0"][1:]  # the first is the legend's
    at = [tuple(float(n) for n in re.findall(r"[\d.]+", dot.get("transform"))) for dot in dots]
    (x0, y0), (x1, y1), (x2, y2) = at
    assert (x1 - x0) / (x2 - x0) == pytest.approx(10 / 990, abs=1e-4)
    assert (y0 - y1) / (y0 - y2) == pytest.approx(1 / 3, abs=1e-3)
    level = float(next(each for each in svg.iter("line") if each.get("class") == "required").get("y1"))
    assert level == pytest.approx((y1 + y2) / 2, abs=0.1)
    assert dots[2][0].text == "a, 1,000: 0.4"
    assert "For comparison, paper: 0.3." in svg[1].text


def test_a_gap_is_not_bridged():
    svg = line_chart([Series("a", [(1, 1.0), (2, None), (3, 2.0), (4, 3.0)])], title="t")
    path = re.search(r'<path class="line s0" d="([^"]*)"', svg)[1]
    assert path.count("M") == 1


def test_line_charts_refuse_what_they_cannot_draw():
    with pytest.raises(ParameterError, match="at least one point"):
        line_chart([Series("a", [(1, None)])], title="t")
    with pytest.raises(ParameterError, match="above 0"):
        line_chart([Series("a", [(0, 1.0)])], title="t", x_scale="log")


def test_bars_are_as_long_as_their_values():
    svg = ElementTree.fromstring(bar_chart([Bar("a", 5), Bar("b", 20), Bar("c", 0)], title="t", maximum=40))
    widths = [float(each.get("width")) for each in svg.iter("rect") if each.get("class") == "bar"]
    assert widths == [80, 320, 0]
    assert svg[1].text == "a: 5; b: 20; c: 0"


@pytest.mark.parametrize(
    ("share", "width"), [(0, "0.00%"), (0.255, "25.50%"), (1, "100.00%"), (7, "100.00%"), (-1, "0.00%")]
)
def test_share_bars(share, width):
    assert ElementTree.fromstring(share_bar(share))[1].get("width") == width


def test_a_standalone_chart_is_a_document_with_its_style():
    root = ElementTree.fromstring(standalone(bar_chart([Bar("a", 1)], title="t")).encode())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in root[0].text


def test_ticks_are_round():
    assert ticks(0, 100, 5) == (0, 20, 40, 60, 80, 100)
    assert ticks(0.147, 0.183, 5) == (0.15, 0.16, 0.17, 0.18)
    assert log_ticks(20, 1000) == (20, 50, 100, 200, 500, 1000)
    assert Scale(1, 100, 0, 10, "log")(10) == pytest.approx(5)


def test_numbers_for_reading():
    assert [figure(each) for each in (None, 45222, 4.857142, 0.00012345, 12345.678, float("inf"), 3.0)] == [
        "—", "45,222", "4.857", "0.0001234", "12,345.7", "—", "3",
    ]  # fmt: skip
    assert [percent(each) for each in (0, 1e-9, 0.1234, 0.99999, 1)] == [
        "0\u202f%", "0.1\u202f%", "12.3\u202f%", "99.9\u202f%", "100\u202f%",
    ]  # fmt: skip
    assert [duration(each) for each in (0.00123, 0.42, 1.5, 340.2)] == ["1.23 ms", "420 ms", "1.50 s", "340 s"]
    assert [bare_name(each) for each in ("/a/b.csv", "b.csv", "C:\\x\\b.csv", "sqlite:////x/y.db")] == [
        "b.csv", "b.csv", "b.csv", "sqlite database",
    ]  # fmt: skip
