"""A taxonomy: a tree whose leaves are numbered from left to right.

Every node is then a range `[lo, hi)` of leaf ranks and its children cut that range, so an ancestor test is
two comparisons and "which child?" is a search in a short sorted array. `data/taxonomy_files.py` reads
taxonomies; `data/continuum.py` is the counterpart for numbers and dates whose tree grows at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from masquerade.errors import TaxonomyError, hint, shown

FLAT = "flat"  # the source of a taxonomy whose leaves are the values of the data


@dataclass(frozen=True)
class Branch:
    """A node with its subtree: the form in which a taxonomy is specified."""

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

    `edges`, for a taxonomy of fixed intervals, holds the size+1 ends of its leaves in order: leaf i is the
    interval `[edges[i], edges[i+1])`. Node names are unique: a released value must be unambiguous. `allowed` names the
    nodes that are maximal allowed generalisations (`data/boundary.py`), where the file marks any.
    """

    root: Branch
    source: str = "taxonomy"
    edges: tuple[float, ...] | None = None
    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for node in self.nodes:
            if node.name in seen:
                raise TaxonomyError.about(self.source, f"two nodes are named {shown(node.name)}")
            seen.add(node.name)

    @classmethod
    def flat(cls, values: Sequence[str], top: str = "*") -> Taxonomy:
        """Build one root over all values: generalise to `top` or not at all."""
        if len(values) > 1 and top in values:
            text = f'the value "{top}" would be its own parent; give a taxonomy file'
            raise TaxonomyError.about("flat taxonomy", text)
        return cls(Branch(top, tuple(Branch(value) for value in values)), FLAT)

    def with_missing(self, name: str) -> Taxonomy:
        """Return the taxonomy with one more leaf below its root, for cells that are missing.

        It is no taxonomy of intervals any more: the leaf is none.
        """
        if not self.nodes[0].children:
            return Taxonomy(Branch("*", (self.root, Branch(name))), self.source, allowed=self.allowed)
        root = Branch(self.root.name, (*self.root.children, Branch(name)))
        return Taxonomy(root, self.source, allowed=self.allowed)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in preorder, left to right; the root is first. Chains of single children are merged into one."""
        # Loops, not recursion: a tree may be deeper than Python's stack.
        names, parents, depths, ranks = list[str](), list[int](), list[int](), list[int]()
        children = list[list[int]]()
        leaf_rank = 0
        waiting = [(self.root, -1, 0)]
        while waiting:
            branch, parent, depth = waiting.pop()
            while len(branch.children) == 1:  # named after its lowest node
                branch = branch.children[0]
            position = len(names)
            if parent >= 0:
                children[parent].append(position)
            names.append(branch.name)
            parents.append(parent)
            depths.append(depth)
            ranks.append(leaf_rank)  # of the first leaf below
            children.append([])
            leaf_rank += not branch.children
            waiting.extend((child, position, depth + 1) for child in reversed(branch.children))
        nodes = dict[int, Node]()
        for at in reversed(range(len(names))):  # children before their parent
            below = [nodes[child] for child in children[at]]
            hi = below[-1].hi if below else ranks[at] + 1
            height = 1 + max(child.height for child in below) if below else 0
            nodes[at] = Node(names[at], ranks[at], hi, depths[at], height, parents[at], tuple(children[at]))
        return tuple(nodes[at] for at in range(len(names)))

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
        """The number of leaves."""
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

    @cached_property
    def _called(self) -> Mapping[str, Node]:
        """Each node by all its names: those of a chain of single children stand for the one node that it is."""
        found, waiting, nodes = dict[str, Node](), [self.root], iter(self.nodes)
        while waiting:  # in the order of `nodes`
            branch, node = waiting.pop(), next(nodes)
            found[branch.name] = node
            while len(branch.children) == 1:
                branch = branch.children[0]
                found[branch.name] = node
            waiting.extend(reversed(branch.children))
        return found

    @property
    def all_names(self) -> Iterable[str]:
        """The names of all nodes, those of collapsed chains among them."""
        return self._called.keys()

    def called(self, name: str) -> Node | None:
        """Return the node of which this is a name, be it one of a collapsed chain; None if there is none."""
        return self._called.get(name)

    def node(self, lo: int, hi: int) -> Node:
        """Return the node that covers exactly the ranks `[lo, hi)`."""
        return self._by_range[lo, hi]

    def find(self, name: str) -> Node:
        """Return the node of that name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise TaxonomyError.about(self.source, f'no node "{name}"{hint(name, self._by_name)}') from None

    def label(self, lo: int, hi: int) -> str:
        """Return the name, in a release, of the value that covers the ranks `[lo, hi)`."""
        return self._by_range[lo, hi].name

    def range_of(self, label: str) -> tuple[int, int] | None:
        """Return the ranks that a released value covers, or None if this taxonomy does not contain it."""
        node = self._by_name.get(label)
        return (node.lo, node.hi) if node is not None else None

    def cuts(self, lo: int, hi: int) -> tuple[int, ...]:
        """Return the starts of the children of `[lo, hi)`, followed by `hi`; empty for a leaf."""
        children = self._by_range[lo, hi].children
        return (*(self.nodes[child].lo for child in children), hi) if children else ()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)
