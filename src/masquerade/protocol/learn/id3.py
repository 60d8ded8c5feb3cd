"""ID3 between parties: a decision tree of their joint records, of which they learn the tree alone.

Lindell and Pinkas, "Privacy Preserving Data Mining" (CRYPTO 2000), a level of the tree at a time. For each open node
the parties have shares of how often each class occurs among its records, and ask one circuit whether one class is left
(then which; a node without records takes its parent's most common one). For the others they have shares of how often
each value of each attribute that is left occurs with each class, take x · ln x of all of them in one batch, and add
up what an attribute leaves uncertain:

    Σ_j |T(a_j)| · ln |T(a_j)|  −  Σ_j Σ_i |T(a_j, c_i)| · ln |T(a_j, c_i)|

The attribute with the least is opened. All is computed in whole numbers, so the tree is the one that the pooled
records give by the same rule; ties go to the earlier attribute or class.

Rounds grow with the depth of the tree, not with its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from masquerade.crypto import words
from masquerade.crypto.circuit import TRUE, Builder, Circuit
from masquerade.crypto.logarithm import Precision
from masquerade.crypto.rings import Elements
from masquerade.net.script import Script
from masquerade.protocol.learn.arithmetic import SIDES, numbers_of
from masquerade.protocol.learn.calculators import Calculator
from masquerade.protocol.learn.counting import Question, SharedCounts


@dataclass
class Node:
    """A node of the tree: where it stands; then the attribute it asks for and what follows, or a label."""

    path: tuple[tuple[str, int], ...] = ()
    attribute: str | None = None
    children: list[Node] = field(default_factory=list)
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
    calculator: Calculator, counts: SharedCounts, attributes: Sequence[str], target: str, precision: Precision
) -> Script[Node]:
    """Return the tree for the class `target` by these attributes, the earlier first where two are equally good."""
    root = Node()
    level = [root]
    above: dict[int, Elements] = {}  # the class counts of each node's parent
    for depth in range(len(attributes) + 1):
        if not level:
            break
        questions = [Question((target,), node.path) for node in level]
        shares = yield from calculator.answers(counts, questions, precision)
        parents = [above.get(id(node), own) for node, own in zip(level, shares, strict=True)]
        yield from _label(calculator, level, shares, parents, counts.bits, always=depth == len(attributes))
        opened = [(node, own) for node, own in zip(level, shares, strict=True) if node.label is None]
        level = []
        if opened:
            yield from _choose(
                calculator, [node for node, _ in opened], counts, attributes, target, precision
            )
        for node, own in opened:
            assert node.attribute is not None
            node.children = [
                Node((*node.path, (node.attribute, value))) for value in range(counts.sizes[node.attribute])
            ]
            above |= {id(child): own for child in node.children}
            level += node.children
    return root


def _label(
    calculator: Calculator,
    nodes: Sequence[Node],
    shares: list[Elements],
    parents: list[Elements],
    bits: int,
    *,
    always: bool,
) -> Script[None]:
    """Give a label to each node with one class, or to all of them."""
    circuit = _label_circuit(len(shares[0]), bits, always)
    table = np.stack([np.concatenate(both) for both in zip(shares, parents, strict=True)], axis=1)
    found = yield from calculator.read(circuit, table, bits)
    for node, is_leaf, label in zip(nodes, found["leaf"][0], numbers_of(found["label"]), strict=True):
        node.label = int(label) if is_leaf else None


def _choose(
    calculator: Calculator,
    nodes: Sequence[Node],
    counts: SharedCounts,
    attributes: Sequence[str],
    target: str,
    precision: Precision,
) -> Script[None]:
    """Give each node the attribute that leaves least uncertain; all of them have equally many left."""
    left = [[name for name in attributes if name not in dict(node.path)] for node in nodes]
    questions = [
        Question((name, target), node.path) for node, names in zip(nodes, left, strict=True) for name in names
    ]
    tables = [
        each.reshape(-1, counts.sizes[target])
        for each in (yield from calculator.answers(counts, questions, precision))
    ]
    scores = yield from calculator.uncertainties(tables, precision)
    chosen = yield from calculator.lowest(np.array(scores, np.uint64).reshape(len(nodes), -1).T)
    for node, names, index in zip(nodes, left, chosen, strict=True):
        node.attribute = names[index]


@cache
def _label_circuit(n_classes: int, bits: int, always: bool) -> Circuit:
    """Return the circuit that says whether at most one class occurs, and only then, or `always`, which is commonest.

    Its inputs are shares of the class counts, then of the parent's, which count where there are no records.
    """
    build = Builder()
    one, other = (build.input(name, 2 * n_classes * bits) for name in SIDES)
    counts = [
        words.add(build, one[at : at + bits], other[at : at + bits])
        for at in range(0, 2 * n_classes * bits, bits)
    ]
    own, parents = counts[:n_classes], counts[n_classes:]
    missing = [words.is_zero(build, word) for word in own]
    several = build.any_of(
        [build.both(missing[a] ^ 1, missing[b] ^ 1) for a in range(n_classes) for b in range(a)]
    )
    nobody = build.all_of(missing)
    common, _ = words.arg_max(
        build,
        [words.multiplex(build, nobody, mine, theirs) for mine, theirs in zip(own, parents, strict=True)],
    )
    leaf = TRUE if always else several ^ 1
    build.output("leaf", [leaf])
    build.output("label", [build.both(bit, leaf) for bit in common])
    return build.build()
