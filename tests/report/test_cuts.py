"""The tree that is drawn for an attribute."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.data import Branch, Column, Continuum, Generalised, Step, Taxonomy
from masquerade.report import TreeNode, tree_chart
from masquerade.report.cuts import cut_tree

JOBS = Taxonomy(
    Branch(
        "Any",
        (
            Branch("Blue", (Branch("Skilled", (Branch("Smith"), Branch("Baker"))), Branch("Mover"))),
            Branch("White", (Branch("Clerk"), Branch("Judge"))),
        ),
    )
)


def generalised(taxonomy: Taxonomy, names: list[str], codes: list[int]) -> Generalised:
    lo, hi = np.array([taxonomy.range_of(name) for name in names], np.int64).T
    return Generalised("job", np.array(codes, np.int32), tuple(names), lo, hi, taxonomy)


def shape(nodes: list[TreeNode]) -> list[tuple[str, str | None, str, int | None]]:
    return [(n.label, nodes[n.parent].label if n.parent >= 0 else None, n.place, n.records) for n in nodes]


def test_above_on_and_below_the_cut():
    assert shape(cut_tree(generalised(JOBS, ["Blue", "Clerk", "Judge"], [0, 0, 0, 1]), ())) == [
        ("Any", None, "above", None),
        ("Blue", "Any", "cut", 3),
        ("+1 leaf", "Blue", "below", None),
        ("Skilled", "Blue", "below", None),
        ("+2 leaves", "Skilled", "below", None),
        ("White", "Any", "above", None),
        ("Clerk", "White", "cut", 1),
        ("Judge", "White", "cut", 0),
    ]


def test_a_value_may_stand_beside_values_below_it():
    assert shape(cut_tree(generalised(JOBS, ["White", "Clerk"], [0, 0, 1]), ())) == [
        ("Any", None, "above", None),
        ("White", "Any", "above", None),
        ("White itself", "White", "cut", 2),
        ("Clerk", "White", "cut", 1),
    ]


def test_values_that_are_no_nodes_stand_side_by_side():
    odd = dataclasses.replace(
        generalised(JOBS, ["Clerk", "Judge"], [0, 1, 1]), labels=("p", "q"), lo=np.array([0, 2]), hi=np.array([2, 5])
    )
    assert shape(cut_tree(odd, ())) == [("Any", None, "above", None), ("p", "Any", "cut", 1), ("q", "Any", "cut", 2)]


def test_splits_grow_the_tree_of_a_continuous_attribute():
    domain = Continuum(np.array([3, 5, 8, 9]))
    column = Column("age", np.array([0, 1, 2, 3, 3], np.int32), domain).generalise(np.array([0, 1, 3]))
    steps = [
        Step("age", "[-inf, inf)", ("[-inf, 9)", "[9, inf)"), 0.4),
        Step("other", "[-inf, 9)", ("a", "b"), 0.3),
        Step("age", "[-inf, 9)", ("[-inf, 5)", "[5, 9)"), 0.2),
    ]
    assert shape(cut_tree(column, steps)) == [
        ("[-inf, inf)", None, "above", None),
        ("[-inf, 9)", "[-inf, inf)", "above", None),
        ("[-inf, 5)", "[-inf, 9)", "cut", 1),
        ("[5, 9)", "[-inf, 9)", "cut", 2),
        ("[9, inf)", "[-inf, inf)", "cut", 2),
    ]


def test_without_splits_the_intervals_stand_side_by_side():
    domain = Continuum(np.array([3, 5, 8]), lower=0)
    column = Column("age", np.array([0, 1, 2], np.int32), domain).generalise(np.array([0, 1]))
    assert shape(cut_tree(column, ())) == [
        ("[0, inf)", None, "above", None),
        ("[0, 5)", "[0, inf)", "cut", 1),
        ("[5, inf)", "[0, inf)", "cut", 2),
    ]


def test_what_does_not_fit_is_counted():
    flat = Taxonomy.flat([f"v{i:02d}" for i in range(30)])
    column = generalised(flat, [f"v{i:02d}" for i in range(30)], [i for i in range(30) for _ in range(2)])
    nodes = cut_tree(column, (), rows=10)
    assert [node.label for node in nodes][:3] == ["*", "v00", "v01"]
    assert len(nodes) == 11
    assert nodes[-1].label == "… and 21 more values, 42 records"
    assert nodes[-1].note


@st.composite
def trees(draw: st.DrawFn) -> list[TreeNode]:
    """Preorder lists in which a cut has nothing but `below` under it and all else is above."""
    nodes = [TreeNode("root", -1, "above")]

    def grow(parent: int, depth: int) -> None:
        for _ in range(draw(st.integers(1, 3))):
            here = len(nodes)
            if depth < 3 and draw(st.booleans()):
                nodes.append(TreeNode(f"n{here}", parent, "above"))
                grow(here, depth + 1)
            else:
                nodes.append(TreeNode(f"n{here}", parent, "cut", draw(st.integers(0, 99))))
                if draw(st.booleans()):
                    nodes.append(TreeNode("+3 leaves", here, "below", note=True))

    grow(0, 0)
    return nodes


@given(trees())
@settings(max_examples=examples(50), deadline=None)
def test_boxes_do_not_overlap_and_the_cut_is_one_column(nodes):
    from xml.etree import ElementTree

    svg = ElementTree.fromstring(tree_chart(nodes, title="t", total=99))
    boxes = [
        (group.get("class").split()[1], *(float(rect.get(side)) for side in ("x", "y", "width", "height")))
        for group in svg.iter("g")
        for rect in group.iter("rect")
        if rect.get("class") == "box"
    ]
    assert len(boxes) == sum(not node.note for node in nodes)
    for i, (_, x, y, w, h) in enumerate(boxes):
        assert x + w <= float(svg.get("width"))
        assert y + h <= float(svg.get("height"))
        for _, x2, y2, w2, h2 in boxes[i + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    line = float(next(e for e in svg.iter("line") if e.get("class") == "cut-line").get("x1"))
    cut = [(x, w) for place, x, _, w, _ in boxes if place == "cut"]
    assert len(set(cut)) == 1
    assert cut[0][0] + cut[0][1] < line
    assert all(x + w < cut[0][0] for place, x, _, w, _ in boxes if place == "above")
