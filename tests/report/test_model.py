"""The page about a model: what it says, what it draws, and that hostile texts stay texts."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest

from masquerade.protocol import CoxSurvival, Learned, LogisticModel, Model, NetModel, TreeModel
from masquerade.protocol.learn.cox import concordance_metrics
from masquerade.report import render_model
from masquerade.report.charts.tree import decision_tree_chart, net_chart
from report.test_hostile_texts import HOSTILE

GOLF: dict[str, Any] = {
    "attribute": "outlook",
    "children": {"rain": {"attribute": "wind", "children": {"weak": {"label": "yes"}, "strong": {"label": "no"}}},
                 "sunny": {"label": "no"}},
}  # fmt: skip
ROC = {"roc": {"false_positive": [0.0, 0.2, 1.0], "true_positive": [0.0, 0.7, 1.0]}}


def learned(model: Model, **more: Any) -> Learned:
    metrics = {"accuracy": 0.75, "on": "the training records"}
    return Learned({"name": "method"}, model, {"class": "play"}, ("north", "south"), 1234, metrics, **more)


def test_it_says_from_whom_and_how_good() -> None:
    page = render_model(learned(TreeModel(GOLF)))
    assert "1,234 records" in page
    assert "<bdi>north</bdi>, <bdi>south</bdi>" in page
    assert "75.0\u202f%" in page
    assert "the training records" in page


def texts(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ET.fromstring(svg).iter("text")]


def test_a_tree_shows_every_question_and_every_answer() -> None:
    svg = decision_tree_chart(GOLF, title="golf")
    shown = " ".join(texts(svg))
    for node in ("outlook?", "rain → wind?", "weak → yes", "strong → no", "sunny → no"):
        assert node in shown
    assert "outlook rain, wind weak: yes" in svg  # for screen readers


def test_a_large_tree_is_cut_where_it_would_not_be_read() -> None:
    many = {str(value): {"label": "yes"} for value in range(60)}
    deep = {str(value): {"attribute": "town", "children": many} for value in range(3)}
    shown = texts(decision_tree_chart({"attribute": "job", "children": deep}, title="large"))
    assert len(shown) == 4
    assert any("town? …" in each for each in shown)


def test_a_net_has_an_arrow_for_each_parent() -> None:
    parents = {"rain": (), "wind": (), "grass": ("rain", "wind"), "shoes": ("grass",)}
    svg = net_chart(parents, title="net")
    assert svg.count('class="arrow"') == 3
    assert "grass depends on rain and wind" in svg


def test_a_linear_model_shows_coefficients_and_its_curve() -> None:
    model = LogisticModel({"age": 0.25, "town": {"A": 0.0, "B": -1.5}}, 0.5, "no", "yes")
    page = render_model(learned(model, curves=ROC))
    assert "town = B" in page
    assert "bar negative" in page
    assert "ROC curve" in page


def test_a_survival_model_shows_coefficients_and_its_curve() -> None:
    model = CoxSurvival({"age": 0.25}, {"age": 0.1}, 15.0, ((1.0, 0.2), (2.0, 0.5)))
    curves = concordance_metrics((3, 4), model.baseline)[1]
    page = render_model(learned(model, curves=curves))
    assert "hazard ratios" in page
    assert "Survival curves" in page


ERRORS = {"age": 0.1, "town": {"A": 0.0, "B": 0.5}}


def cells(page: str) -> list[list[str]]:
    """The rows of the table of coefficients."""
    found = re.search(r'as numbers">\s*(<table>.*?</table>)', page, re.DOTALL)
    return [] if found is None else [list(row.itertext()) for row in ET.fromstring(found[1]).iter("tr")]


def test_standard_errors_are_a_table() -> None:
    coefficients: dict[str, Any] = {"age": 0.25, "town": {"A": 0.0, "B": -1.5}}
    model = LogisticModel(coefficients, 0.5, "no", "yes", ERRORS, 0.2, "ridge = 2")
    page = render_model(learned(model))
    rows = {row[0]: row[1:] for row in cells(page)}
    assert rows["age"] == ["0.25", "0.1", "2.50", "0.0124", "0.054", "0.446"]
    assert rows["intercept"][:4] == ["0.5", "0.2", "2.50", "0.0124"]
    assert rows["town = A"][0] == "reference"
    assert rows["town = B"][2:4] == ["-3.00", "0.0027"]
    assert "conditional on the penalty (ridge = 2)" in page
    survival = CoxSurvival(coefficients, ERRORS, 15.0, ((1.0, 0.2), (2.0, 0.5)))
    assert {row[0] for row in cells(render_model(learned(survival)))} >= {"age", "town = B"}
    older = LogisticModel(coefficients, 0.5, "no", "yes")
    assert not cells(render_model(learned(older)))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_stay_texts(text: str) -> None:
    tree = TreeModel({"attribute": text, "children": {text: {"label": text}}})
    line = LogisticModel({text: {text: 1.0}}, 0.5, text, text, {text: {text: 1.0}}, 1.0, text)
    for model in (tree, line, NetModel({text: (), "b": (text,)})):
        page = render_model(learned(model))
        assert "<script" not in page
        assert "onerror='alert" not in page


def test_who_dropped_out_is_named() -> None:
    whole = learned(TreeModel(GOLF))
    assert "dropped out" not in render_model(whole)
    page = render_model(replace(whole, dropped_out=("carla",)))
    assert "Finished without <bdi>carla</bdi>, which dropped out." in page
