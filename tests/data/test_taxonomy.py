"""Taxonomies: ranks, ranges, labels, chains."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from examples import examples
from masquerade.data import Branch, Taxonomy
from masquerade.errors import TaxonomyError
from strategies import branches, taxonomies

JOBS = Taxonomy(
    Branch(
        "Any",
        (
            Branch("Blue", (Branch("Baker"), Branch("Technical", (Branch("Welder"), Branch("Fitter"))))),
            Branch("White", (Branch("Lawyer"), Branch("Clerk"))),
            Branch("None"),
        ),
    ),
    "jobs",
)


def test_leaves_are_numbered_from_left_to_right() -> None:
    assert JOBS.leaves == ("Baker", "Welder", "Fitter", "Lawyer", "Clerk", "None")
    assert JOBS.rank["Clerk"] == 4
    assert JOBS.size == 6
    assert JOBS.height == 3
    assert JOBS.leaf_depths == (2, 3, 3, 2, 2, 1)


def test_nodes_stand_in_preorder_with_their_ranges() -> None:
    assert [(node.name, node.lo, node.hi, node.depth, node.height) for node in JOBS] == [
        ("Any", 0, 6, 0, 3),
        ("Blue", 0, 3, 1, 2),
        ("Baker", 0, 1, 2, 0),
        ("Technical", 1, 3, 2, 1),
        ("Welder", 1, 2, 3, 0),
        ("Fitter", 2, 3, 3, 0),
        ("White", 3, 5, 1, 1),
        ("Lawyer", 3, 4, 2, 0),
        ("Clerk", 4, 5, 2, 0),
        ("None", 5, 6, 1, 0),
    ]
    assert [JOBS.nodes[child].name for child in JOBS.nodes[0].children] == ["Blue", "White", "None"]
    assert JOBS.nodes[0].parent == -1
    assert JOBS.nodes[JOBS.find("Fitter").parent].name == "Technical"


def test_labels_and_ranges_are_inverse() -> None:
    assert JOBS.label(1, 3) == "Technical"
    assert JOBS.range_of("Technical") == (1, 3)
    assert JOBS.range_of("Tech") is None
    assert JOBS.node(3, 5).name == "White"
    assert JOBS.range_of("White") is not None
    assert JOBS.range_of("white") is None


def test_cuts_are_the_starts_of_the_children_and_the_end() -> None:
    assert JOBS.cuts(0, 6) == (0, 3, 5, 6)
    assert JOBS.cuts(1, 3) == (1, 2, 3)
    assert JOBS.cuts(5, 6) == ()


def test_an_unknown_node_is_named_with_its_likely_meaning() -> None:
    with pytest.raises(TaxonomyError, match=r'^jobs: no node "Tehnical" \(did you mean "Technical"\?\)$'):
        JOBS.find("Tehnical")


def test_a_chain_is_one_node_shown_by_its_lowest_name() -> None:
    chain = Branch("*", (Branch("All", (Branch("A", (Branch("B", (Branch("b"),)),)), Branch("c"))),))
    taxonomy = Taxonomy(chain)
    assert [(node.name, node.lo, node.hi, node.depth) for node in taxonomy] == [
        ("All", 0, 2, 0),
        ("b", 0, 1, 1),
        ("c", 1, 2, 1),
    ]
    assert taxonomy.range_of("*") is None
    assert taxonomy.range_of("A") is None


def test_flat_has_one_root_over_the_values() -> None:
    flat = Taxonomy.flat(["b", "a"])
    assert flat.leaves == ("b", "a")
    assert flat.label(0, 2) == "*"
    assert flat.height == 1
    assert Taxonomy.flat(["only"]).label(0, 1) == "only"
    assert Taxonomy.flat(["*"]).leaves == ("*",)


def test_flat_refuses_a_value_that_is_its_root() -> None:
    with pytest.raises(TaxonomyError, match=r'the value "\*" would be its own parent'):
        Taxonomy.flat(["*", "a"])


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(TaxonomyError, match=r'^jobs: two nodes are named "a"$'):
        Taxonomy(Branch("*", (Branch("a"), Branch("b", (Branch("a"), Branch("c"))))), "jobs")


def test_a_tree_deeper_than_the_stack_is_no_problem() -> None:
    tree = Branch("bottom")
    for level in range(20_000):
        tree = Branch(f"n{level}", (tree, Branch(f"v{level}")))
    taxonomy = Taxonomy(tree)
    assert taxonomy.size == 20_001
    assert taxonomy.height == 20_000
    assert taxonomy.leaves[0] == "bottom"
    assert taxonomy.nodes[0].name == "n19999"


@settings(max_examples=examples(60), deadline=None)
@given(taxonomies(chains=True))
def test_children_cut_their_parent(taxonomy: Taxonomy) -> None:
    assert taxonomy.leaves == tuple(f"v{at}" for at in range(taxonomy.size))
    assert (taxonomy.nodes[0].lo, taxonomy.nodes[0].hi) == (0, taxonomy.size)
    for at, node in enumerate(taxonomy.nodes):
        below = [taxonomy.nodes[child] for child in node.children]
        assert len(below) != 1
        assert node.hi - node.lo == (sum(child.hi - child.lo for child in below) if below else 1)
        assert node.height == max((child.height + 1 for child in below), default=0)
        for child in below:
            assert child.parent == at
            assert child.depth == node.depth + 1
        if below:
            assert taxonomy.cuts(node.lo, node.hi) == (*(child.lo for child in below), node.hi)
        assert taxonomy.range_of(taxonomy.label(node.lo, node.hi)) == (node.lo, node.hi)


@settings(max_examples=examples(30), deadline=None)
@given(branches(min_leaves=2))
def test_without_chains_every_name_is_a_node(root: Branch) -> None:
    def names(branch: Branch) -> list[str]:
        return [branch.name, *(name for child in branch.children for name in names(child))]

    assert [node.name for node in Taxonomy(root)] == names(root)
