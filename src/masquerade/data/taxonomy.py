"""A taxonomy: a tree whose leaves are numbered from left to right.

Every node is then a range `[lo, hi)` of leaf ranks and its children cut that range, so an ancestor test is two
comparisons and "which child?" is a search in a short sorted array. `data/taxonomy_files.py` reads taxonomies;
`data/continuum.py` is the twin for numbers and dates whose tree grows at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from masquerade.errors import TaxonomyError, hint


@dataclass(frozen=True)
class Branch:
    """A node and what hangs below it: the form in which a taxonomy is written down."""

    name: str
    children: tuple[Branch, ...] = ()


@dataclass(frozen=True)
class Node:
    """One value of a taxonomy: its name, its range of leaf ranks, and its place in the tree."""

    name: str
    lo: int
    hi: int
    depth: int  # edges from the root
    height: int  # edges to the deepest leaf below
    parent: int  # position in `Taxonomy.nodes`; -1 for the root
    children: tuple[int, ...]


@dataclass(frozen=True)
class Taxonomy:
    """A tree of named values over leaf ranks 0 … size−1.

    `edges`, for a taxonomy of fixed intervals, holds the size+1 ends of its leaves in order: leaf i is the interval
    `[edges[i], edges[i+1])`.
    """

    root: Branch
    source: str = "taxonomy"
    edges: tuple[float, ...] | None = None

    @classmethod
    def flat(cls, values: Sequence[str], top: str = "*") -> Taxonomy:
        """One root over all values: generalise to `top` or not at all."""
        if len(values) > 1 and top in values:
            raise TaxonomyError(f'flat taxonomy: the value "{top}" would be its own parent; give a taxonomy file')
        return cls(Branch(top, tuple(Branch(value) for value in values)), "flat")

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in preorder, left to right; the root is first. Chains of single children are one node."""
        nodes: list[Node | None] = []

        def place(branch: Branch, lo: int, depth: int, parent: int) -> Node:
            while len(branch.children) == 1:  # shown by its lowest name
                branch = branch.children[0]
            position = len(nodes)
            nodes.append(None)
            hi, height, children = lo, 0, []
            for child in branch.children:
                children.append(len(nodes))
                below = place(child, hi, depth + 1, position)
                hi, height = below.hi, max(height, below.height + 1)
            node = Node(branch.name, lo, hi if branch.children else lo + 1, depth, height, parent, tuple(children))
            nodes[position] = node
            return node

        place(self.root, 0, 0, -1)
        return tuple(node for node in nodes if node is not None)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The names of the leaves, by rank."""
        return tuple(node.name for node in self.nodes if not node.children)

    @cached_property
    def rank(self) -> Mapping[str, int]:
        """The rank of each leaf name."""
        return {name: rank for rank, name in enumerate(self.leaves)}

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return len(self.leaves)

    @property
    def height(self) -> int:
        """Edges from the root to the deepest leaf."""
        return self.nodes[0].height

    @cached_property
    def leaf_depths(self) -> tuple[int, ...]:
        """The depth of each leaf, by rank."""
        return tuple(node.depth for node in self.nodes if not node.children)

    @cached_property
    def _by_range(self) -> Mapping[tuple[int, int], Node]:
        return {(node.lo, node.hi): node for node in self.nodes}

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    def node(self, lo: int, hi: int) -> Node:
        """The node that covers exactly the ranks `[lo, hi)`."""
        return self._by_range[lo, hi]

    def find(self, name: str) -> Node:
        """The node of that name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise TaxonomyError(f'{self.source}: no node "{name}"{hint(name, self._by_name)}') from None

    def knows(self, name: str) -> bool:
        """Whether a node has that name."""
        return name in self._by_name

    def label(self, lo: int, hi: int) -> str:
        """How the value that covers the ranks `[lo, hi)` is written in a release."""
        return self._by_range[lo, hi].name

    def range_of(self, label: str) -> tuple[int, int] | None:
        """The ranks that a released value covers, or None when it is no value of this taxonomy."""
        node = self._by_name.get(label)
        return (node.lo, node.hi) if node is not None else None

    def cuts(self, lo: int, hi: int) -> tuple[int, ...]:
        """Where the children of `[lo, hi)` begin, and `hi`; empty for a leaf."""
        children = self._by_range[lo, hi].children
        return (*(self.nodes[child].lo for child in children), hi) if children else ()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)
