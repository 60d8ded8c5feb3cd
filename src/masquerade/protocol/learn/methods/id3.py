"""ID3 as a method: a decision tree of the parties' joint records (`protocol/learn/id3.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from masquerade.crypto.rings import Elements
from masquerade.forms.declared import parameter
from masquerade.forms.rules import optional, whole
from masquerade.net.script import Script
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.counting import Question
from masquerade.protocol.learn.handing_in import COUNTS, as_counts
from masquerade.protocol.learn.id3 import decision_tree
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.methods.counting_sites import (
    agreed_precision,
    calculator_of,
    precision_for,
    shared_counts,
)
from masquerade.protocol.learn.models.model import Model
from masquerade.protocol.learn.models.tree import TreeModel
from masquerade.protocol.learn.pooled_tree import pooled_tree
from masquerade.protocol.learn.site import Site
from masquerade.protocol.vertical_method import way_to_align


@dataclass(frozen=True)
class Id3(LearningMethod):
    """ID3 between parties, who have different records, or different columns of the same ones.

    The tree is that of the pooled records. A node stops at one class, or when no attribute is left; the attribute that
    leaves least uncertain is the next, the earlier of two equally good ones. Logarithms are those of the protocol, on
    one table as well, so that rounding decides nowhere otherwise.
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
        calculator = yield from calculator_of(site, "id3")
        target = site.contract.class_name
        assert target is not None
        counts = shared_counts(site, (*site.attributes, target))
        precision = yield from agreed_precision(site, calculator, self.terms)
        root = yield from decision_tree(calculator, counts, site.attributes, target, precision)
        return TreeModel(root.as_tree(site.values, site.classes))

    def alone(self, site: Site) -> Model:
        """Grow the tree of one table."""
        target = site.contract.class_name
        assert target is not None
        codes = {name: site.codes(name) for name in (*site.attributes, target)}
        precision = precision_for(site.count_bits, self.terms)
        sizes = {name: len(site.values[name]) for name in codes}
        root = pooled_tree(codes, sizes, site.attributes, target, precision)
        return TreeModel(root.as_tree(site.values, site.classes))

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Return this party's share of how many records have the class that the tree says."""
        assert isinstance(model, TreeModel)
        if site.arrangement == "horizontal":
            said = model.predict(site.cells())
            had = np.array(site.classes, object)[site.codes(str(site.contract.class_name))]
            return as_counts([np.count_nonzero(said == had)])
        target = str(site.contract.class_name)
        calculator = yield from calculator_of(site, "id3 accuracy")
        counted = shared_counts(site, (*site.attributes, target))
        place = {name: {value: at for at, value in enumerate(values)} for name, values in site.values.items()}
        questions = [
            Question((target,), tuple((name, place[name][value]) for name, value in path))
            for path, _ in model.leaves
        ]
        shares = yield from calculator.answers(counted, questions, precision_for(site.most_bits, None))
        right = [own[place[target][label]] for own, (_, label) in zip(shares, model.leaves, strict=True)]
        return COUNTS.total(np.array(right, np.uint64)).reshape(1)

    def metrics(
        self, model: Model, n_records: int, counts: Sequence[int]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the accuracy."""
        return {"accuracy": counts[0] / n_records}, {}

    def tells(self, contract: Contract, party: str) -> Iterator[str]:
        """Yield nothing more than the magnitude of the tables."""
        others = ", ".join(name for name in contract.parties if name != party)
        yield f"{others}: how many binary digits the number of {party}'s records has"
        if contract.arrangement == "horizontal":
            yield f"{others}: whether all parties have 131,072 records or more, where these digits leave it open"
