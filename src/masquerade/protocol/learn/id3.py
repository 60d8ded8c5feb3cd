"""ID3 between parties: a decision tree of their joint records, of which they learn the tree alone.

Lindell and Pinkas, "Privacy Preserving Data Mining" (CRYPTO 2000), a level of the tree at a time. For each open node
the parties have shares of how often each class occurs among its records, and ask one circuit whether one class is left,
or fewer than `min_records` people are: either is a leaf, and nobody learns which. The leaf of few people takes their
parent's most common class, so that they have no part in it. For the others they have shares of how often each value of
each attribute that is left occurs with each class, take x · ln x of all of them in one batch, and add up what an
attribute leaves uncertain:

    Σ_j |T(a_j)| · ln |T(a_j)|  −  Σ_j Σ_i |T(a_j, c_i)| · ln |T(a_j, c_i)|

The attribute with the least is opened. All is computed in whole numbers, so the tree is the one that the pooled
records give by the same rule; ties go to the earlier attribute or class.

Rounds grow with the depth of the tree, not with its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from masquerade.arrangement import Arrangement
from masquerade.crypto import TRUE, Builder, Circuit, Elements, Precision, words
from masquerade.engine import pair_counts, value_counts
from masquerade.forms import optional, parameter, whole
from masquerade.net import Script
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn import counting
from masquerade.protocol.learn.counting import Calculator, Codes, CountQuery, SharedCounts
from masquerade.protocol.learn.frame import COUNTS, as_counts
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.models import Cells, Classifier, Model, NotAModel, Texts, Unseen
from masquerade.protocol.learn.shared_numbers import SIDES, numbers_of, plain_weighted_logarithms
from masquerade.protocol.learn.site import Site
from masquerade.protocol.method import way_to_align


@dataclass
class DecisionNode:
    """A node of the tree: where it stands; then the attribute it asks for and what follows, or a label."""

    path: tuple[tuple[str, int], ...] = ()
    attribute: str | None = None
    children: list[DecisionNode] = field(default_factory=list)
    label: int | None = None

    def as_tree(self, values: Mapping[str, Sequence[str]], classes: Sequence[str]) -> dict[str, Any]:
        """Return it with what is below, in the values' own words."""
        if self.attribute is None:
            assert self.label is not None
            return {"label": classes[self.label]}
        children = zip(values[self.attribute], self.children, strict=True)
        return {
            "attribute": self.attribute,
            "children": {value: child.as_tree(values, classes) for value, child in children},
        }


def decision_tree(
    calculator: Calculator,
    counts: SharedCounts,
    attributes: Sequence[str],
    target: str,
    precision: Precision,
    min_records: int,
) -> Script[DecisionNode]:
    """Return the tree for the class `target` by these attributes, the earlier first where two are equally good.

    Raise RequirementUnreachable if there are fewer than `min_records` records in all, which all parties learn.
    """
    root = DecisionNode()
    level = [root]
    above: dict[int, Elements] = {}  # the class counts of each node's parent
    for depth in range(len(attributes) + 1):
        if not level:
            break
        questions = [CountQuery((target,), node.path) for node in level]
        shares = yield from counts.answers(calculator, questions)
        parents = [above.get(id(node), np.zeros_like(own)) for node, own in zip(level, shares, strict=True)]
        last = depth == len(attributes)
        yield from _label(calculator, level, shares, parents, counts.bits, min_records, always=last)
        opened = [(node, own) for node, own in zip(level, shares, strict=True) if node.label is None]
        level = []
        if opened:
            yield from _choose(calculator, [node for node, _ in opened], counts, attributes, target, precision)
        for node, own in opened:
            assert node.attribute is not None
            node.children = [
                DecisionNode((*node.path, (node.attribute, value))) for value in range(counts.sizes[node.attribute])
            ]
            above |= {id(child): own for child in node.children}
            level += node.children
    return root


def _label(
    calculator: Calculator,
    nodes: Sequence[DecisionNode],
    shares: list[Elements],
    parents: list[Elements],
    bits: int,
    min_records: int,
    *,
    always: bool,
) -> Script[None]:
    """Give a label to each node with one class or few records, or to all of them; refuse a root of few records."""
    first = not nodes[0].path
    circuit = _label_circuit(len(shares[0]), bits, min_records, first, always)
    table = np.stack([np.concatenate(both) for both in zip(shares, parents, strict=True)], axis=1)
    found = yield from calculator.read(circuit, table, bits)
    if first and found["few"][0, 0]:
        raise counting.too_few(min_records)
    for node, is_leaf, label in zip(nodes, found["leaf"][0], numbers_of(found["label"]), strict=True):
        node.label = int(label) if is_leaf else None


def _choose(
    calculator: Calculator,
    nodes: Sequence[DecisionNode],
    counts: SharedCounts,
    attributes: Sequence[str],
    target: str,
    precision: Precision,
) -> Script[None]:
    """Give each node the attribute that leaves least uncertain; all of them have equally many left."""
    left = [[name for name in attributes if name not in dict(node.path)] for node in nodes]
    questions = [
        CountQuery((name, target), node.path) for node, names in zip(nodes, left, strict=True) for name in names
    ]
    tables = [each.reshape(-1, counts.sizes[target]) for each in (yield from counts.answers(calculator, questions))]
    scores = yield from calculator.uncertainties(tables, precision)
    chosen = yield from calculator.lowest(np.array(scores, np.uint64).reshape(len(nodes), -1).T)
    for node, names, index in zip(nodes, left, chosen, strict=True):
        node.attribute = names[index]


@cache
def _label_circuit(n_classes: int, bits: int, min_records: int, first: bool, always: bool) -> Circuit:
    """Return the circuit that says whether a node is a leaf, and only then, which class it has.

    It is one if at most one class occurs, if it has fewer than `min_records` records, or `always`. Its inputs are
    shares of the class counts, then of the parent's, of which the commonest is the class of few records. Of the `first`
    node alone, which has no parent, it says whether its records are few.
    """
    build = Builder()
    one, other = (build.input(name, 2 * n_classes * bits) for name in SIDES)
    counts = [
        words.add(build, one[at : at + bits], other[at : at + bits]) for at in range(0, 2 * n_classes * bits, bits)
    ]
    own, parents = counts[:n_classes], counts[n_classes:]
    missing = [words.is_zero(build, word) for word in own]
    several = build.any_of([build.both(missing[a] ^ 1, missing[b] ^ 1) for a in range(n_classes) for b in range(a)])
    few = counting.are_fewer(build, words.total(build, own), min_records)
    common, _ = words.arg_max(
        build, [words.multiplex(build, few, mine, theirs) for mine, theirs in zip(own, parents, strict=True)]
    )
    leaf = TRUE if always else build.either(several ^ 1, few)
    if first:
        build.output("few", [few])
    build.output("leaf", [leaf])
    build.output("label", [build.both(bit, leaf) for bit in common])
    return build.build()


# --- tree ---------------------------------------------------------------------------------------------------
# A decision tree of categories, as ID3 grows it: {"attribute", "children" by value} or {"label"}.

TreePath = tuple[tuple[str, str], ...]  # attributes and their values, from the root on


@dataclass(frozen=True)
class TreeModel(Classifier):
    """A tree, nested as it is written."""

    tree: dict[str, Any]

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> TreeModel:
        """Read `{"tree": …}`."""
        model = cls(written.get("tree"))  # type: ignore[arg-type] # checked now
        _check(model.tree)
        return model

    def as_json(self) -> dict[str, Any]:
        """Return `{"tree": …}`."""
        return {"tree": self.tree}

    @cached_property
    def leaves(self) -> tuple[tuple[TreePath, str], ...]:
        """Each leaf's path and label."""
        return tuple(_leaves(self.tree))

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of its leaves, in order."""
        return tuple(sorted({label for _, label in self.leaves}))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it asks for, in the order of their first question."""
        return tuple(dict.fromkeys(name for path, _ in self.leaves for name, _ in path))

    @cached_property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of each attribute that it asks for, as far as its nodes know them."""
        found: dict[str, dict[str, None]] = {}
        for path, _ in self.leaves:
            for name, value in path:
                found.setdefault(name, {})[value] = None
        return {name: tuple(values) for name, values in found.items()}

    def predict(self, cells: Cells) -> Texts:
        """Return each record's class; None where a node on its way does not know its value."""
        return self._followed(cells)[0]

    def unseen(self, cells: Cells) -> Unseen:
        """Mark the records that stop on their way, by the attribute whose value the node there does not know."""
        return self._followed(cells)[1]

    def _followed(self, cells: Cells) -> tuple[Texts, Unseen]:
        columns = {name: np.asarray(column, object) for name, column in cells.items()}
        size = len(next(iter(columns.values()))) if columns else 1
        found, unseen = np.empty(size, object), Unseen()
        waiting = [(self.tree, np.arange(size))]
        while waiting:
            node, rows = waiting.pop()
            if "label" in node:
                found[rows] = node["label"]
                continue
            column, children = columns[node["attribute"]][rows], node["children"]
            left = np.ones(rows.size, bool)
            for value, child in children.items():
                fits = column == value
                left &= ~fits
                waiting.append((child, rows[fits]))
            if left.any():
                unseen.setdefault(node["attribute"], np.zeros(size, bool))[rows[left]] = True
        return found, unseen


def _check(tree: Any) -> None:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            raise NotAModel("a node of the tree is no table")
        if isinstance(node.get("label"), str) and node.keys() == {"label"}:
            continue
        children = node.get("children")
        if node.keys() != {"attribute", "children"} or not isinstance(node["attribute"], str):
            raise NotAModel("a node of the tree has neither a label, nor an attribute and children")
        if not isinstance(children, dict) or not children:
            raise NotAModel("a node of the tree has no children")
        waiting += children.values()


def _leaves(tree: dict[str, Any]) -> Iterator[tuple[TreePath, str]]:
    """Yield the leaves from left to right; in a loop, since a tree may be deeper than Python's stack."""
    waiting: list[tuple[dict[str, Any], TreePath]] = [(tree, ())]
    while waiting:
        node, path = waiting.pop()
        if "label" in node:
            yield path, node["label"]
            continue
        below = [(child, (*path, (node["attribute"], value))) for value, child in node["children"].items()]
        waiting += reversed(below)


# --- pooled tree --------------------------------------------------------------------------------------------
# ID3 on one table: the tree that the parties grow together, from the same logarithms, with nothing hidden.


def pooled_tree(
    codes: Mapping[str, Codes],
    sizes: Mapping[str, int],
    attributes: Sequence[str],
    target: str,
    precision: Precision,
    min_records: int,
) -> DecisionNode:
    """Return the tree for the class `target` by these attributes, the earlier first where two are equally good.

    Raise RequirementUnreachable if there are fewer than `min_records` records in all.
    """
    root = DecisionNode()
    everybody = np.arange(codes[target].size)
    if everybody.size < min_records:
        raise counting.too_few(min_records)
    waiting = [(root, everybody, np.zeros(sizes[target], np.int64))]
    while waiting:
        node, rows, above = waiting.pop()
        classes = value_counts(codes[target][rows], sizes[target])
        left = [name for name in attributes if name not in dict(node.path)]
        few = rows.size < min_records
        if few or np.count_nonzero(classes) <= 1 or not left:
            node.label = int(np.argmax(above if few else classes))
            continue
        tables = {
            name: pair_counts(codes[name][rows], codes[target][rows], sizes[name], sizes[target]) for name in left
        }
        # What the values leave uncertain of the class, scaled as the protocol scales it.
        uncertain = {
            name: plain_weighted_logarithms(table.sum(axis=1), precision).sum()
            - plain_weighted_logarithms(table.ravel(), precision).sum()
            for name, table in tables.items()
        }
        node.attribute = min(left, key=uncertain.__getitem__)
        for value in range(sizes[node.attribute]):
            child = DecisionNode((*node.path, (node.attribute, value)))
            node.children.append(child)
            waiting.append((child, rows[codes[node.attribute][rows] == value], classes))
    return root


# --- the method ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Id3(LearningMethod):
    """ID3 between parties, who have different records, or different columns of the same ones.

    The tree is that of the pooled records. A node stops at one class, or when no attribute is left; the attribute that
    leaves least uncertain is the next, the earlier of two equally good ones. A node of fewer than `min_records` people
    is a leaf with its parent's most common class. Logarithms are those of the protocol, on one table as well, so that
    rounding decides nowhere otherwise.
    """

    name = "id3"
    summary = "grows a decision tree of categories; parties learn the tree alone"
    activity = "growing the tree"
    arrangements: ClassVar[tuple[Arrangement, ...]] = ("horizontal", "vertical")
    takes = "values"
    must_stop = "it computes on shares, of which nothing can be read without the lost one's"
    learns = TreeModel

    terms: int | None = parameter(
        optional(whole(2, 5)),
        None,
        help="terms of the logarithm's series; more are more exact, and slower. Unset: 3, or 2 for many records",
    )
    align: str = way_to_align()

    def learn(self, site: Site) -> Script[Model]:
        """Grow the tree."""
        calculator = yield from counting.calculator_of(site, "id3")
        target = site.contract.class_name
        assert target is not None
        counts = counting.shared_counts(site, (*site.attributes, target))
        precision = yield from counting.agreed_precision(site, calculator, self.terms)
        root = yield from decision_tree(calculator, counts, site.attributes, target, precision, self.min_records)
        return TreeModel(root.as_tree(site.values, site.classes))

    def alone(self, site: Site) -> Model:
        """Grow the tree of one table."""
        target = site.contract.class_name
        assert target is not None
        codes = {name: site.codes(name) for name in (*site.attributes, target)}
        precision = counting.precision_for(site.count_bits, self.terms)
        sizes = {name: len(site.values[name]) for name in codes}
        root = pooled_tree(codes, sizes, site.attributes, target, precision, self.min_records)
        return TreeModel(root.as_tree(site.values, site.classes))

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Return this party's share of how many records have the class that the tree says."""
        assert isinstance(model, TreeModel)
        if site.arrangement == "horizontal":
            said = model.predict(site.cells())
            had = np.array(site.classes, object)[site.codes(str(site.contract.class_name))]
            return as_counts([np.count_nonzero(said == had)])
        target = str(site.contract.class_name)
        calculator = yield from counting.calculator_of(site, "id3 accuracy")
        counted = counting.shared_counts(site, (*site.attributes, target))
        place = {name: {value: at for at, value in enumerate(values)} for name, values in site.values.items()}
        questions = [
            CountQuery((target,), tuple((name, place[name][value]) for name, value in path)) for path, _ in model.leaves
        ]
        shares = yield from counted.answers(calculator, questions)
        right = [own[place[target][label]] for own, (_, label) in zip(shares, model.leaves, strict=True)]
        return COUNTS.total(np.array(right, np.uint64)).reshape(1)

    def metrics(self, model: Model, n_records: int, counts: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the accuracy."""
        return {"accuracy": counts[0] / n_records}, {}

    def tells(self, contract: Contract, party: str) -> Iterator[str]:
        """Yield the magnitude of the tables, and what the root tells."""
        others = ", ".join(name for name in contract.parties if name != party)
        yield f"{others}: how many binary digits the number of {party}'s records has"
        if contract.arrangement == "horizontal":
            yield f"{others}: whether all parties together have fewer than {self.min_records:,} records"
            yield f"{others}: whether all parties have 131,072 records or more, where these digits leave it open"
