"""PP-SVM and PP-Cox as methods (`protocol/learn/projection.py`): the collector builds the model of mapped records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np

from masquerade.arrangement import Arrangement
from masquerade.crypto import Elements, random_bytes
from masquerade.errors import ParameterError, Problem
from masquerade.forms import choice, number, optional, parameter, whole
from masquerade.net import Script
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.cox import (
    concordance_metrics,
    read_baseline,
    survival_curves,
    survival_of,
    written_baseline,
)
from masquerade.protocol.learn.frame import as_counts
from masquerade.protocol.learn.linear import binary_metrics, binned_counts, design, is_number, outcomes
from masquerade.protocol.learn.method import SURVIVAL, LearningMethod
from masquerade.protocol.learn.models import Model, NotAModel, Numbers, concordant_pairs
from masquerade.protocol.learn.projection import (
    Kernel,
    Mapped,
    MappedModel,
    Projection,
    ProjectionTerms,
    SiteKey,
    Weighting,
    agree_on_projection,
    build_mapped,
    fitted,
    hand_over,
    random_matrix,
    too_many_rows,
)
from masquerade.protocol.learn.site import Site
from masquerade.protocol.learn.sums import prepare_aggregation
from masquerade.protocol.method import ASSEMBLER, Assembly, Proposal
from masquerade.protocol.providers import shared_counts

# --- projected ----------------------------------------------------------------------------------------------
# Models of mapped records (PP-SVM, PP-Cox): what the builder tells all, in the mapped space.
#
# The matrix that maps records is not part of them. Only a site that has it can apply the model to new
# records: prediction goes through the sites.


@dataclass(frozen=True)
class MappedSpaceModel(Model):
    """Coefficients of the mapped dimensions; the kernel; each site's weight, in the contract's order."""

    coefficients: tuple[float, ...]
    kernel: str
    weights: tuple[float, ...]
    projection: Projection | None = field(default=None, compare=False, repr=False)  # a site's secret; never written

    def _written(self) -> dict[str, Any]:
        return {
            "coefficients": list(self.coefficients),
            "dimensions": len(self.coefficients),
            "kernel": self.kernel,
            "weights": list(self.weights),
        }

    def mapped_sum(self, x: Numbers) -> Numbers:
        """Return each record's weighted sum, at a site; x is record × column."""
        if self.projection is None:
            raise ParameterError("prediction goes through the sites: only they have the matrix that maps records")
        return np.asarray(self.projection(x) @ np.array(self.coefficients))


@dataclass(frozen=True)
class MappedSvm(MappedSpaceModel):
    """PP-SVM: the positive class is where the sum is above `threshold`."""

    threshold: float = 0.0
    classes: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read what `as_json` writes."""
        classes = written.get("classes")
        if not isinstance(classes, list) or len(classes) != 2 or not all(isinstance(each, str) for each in classes):
            raise NotAModel("its classes are not two texts")
        if not is_number(written.get("threshold")):
            raise NotAModel("its threshold is no number")
        return cls(*_common(written), threshold=float(written["threshold"]), classes=tuple(classes))

    def as_json(self) -> dict[str, Any]:
        """Return the coefficients in the mapped space, the threshold and both classes."""
        return {**self._written(), "threshold": self.threshold, "classes": list(self.classes)}

    def chances(self, x: Numbers) -> Numbers:
        """Return a number from 0 to 1 that grows with the sum, at a site; above ½ is the positive class."""
        return np.asarray(1 / (1 + np.exp(-np.clip(self.mapped_sum(x) - self.threshold, -700, 700))))


@dataclass(frozen=True)
class MappedCox(MappedSpaceModel):
    """PP-Cox: the baseline is of a record whose sum is `center`."""

    center: float = 0.0
    baseline: tuple[tuple[float, float], ...] = ()

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read what `as_json` writes."""
        if not is_number(written.get("center")):
            raise NotAModel("its center is no number")
        baseline = read_baseline(written.get("baseline"))
        return cls(*_common(written), center=float(written["center"]), baseline=baseline)

    def as_json(self) -> dict[str, Any]:
        """Return the coefficients in the mapped space, and the baseline."""
        return {**self._written(), "center": self.center, "baseline": written_baseline(self.baseline)}

    def risks(self, x: Numbers) -> Numbers:
        """Return the logarithm of each record's hazard relative to an average one, at a site."""
        return self.mapped_sum(x) - self.center

    def survival(self, x: Numbers, times: Sequence[float]) -> Numbers:
        """Return each record's chance to live longer than each time, at a site, [records, times]."""
        return survival_curves(self.baseline, self.risks(x), times)


def _common(written: Mapping[str, Any]) -> tuple[tuple[float, ...], str, tuple[float, ...]]:
    coefficients, weights, kernel = (written.get(key) for key in ("coefficients", "weights", "kernel"))
    for each in (coefficients, weights):
        if not isinstance(each, list) or not all(map(is_number, each)):
            raise NotAModel("its coefficients and weights are no lists of numbers")
    if kernel not in ("linear", "gaussian"):
        raise NotAModel("its kernel is neither linear nor gaussian")
    return tuple(map(float, coefficients or ())), str(kernel), tuple(map(float, weights or ()))


# --- projected ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MappedMethod(LearningMethod):
    """A model of records that the sites map by a random matrix, which they keep from the collector that builds it."""

    arrangements: ClassVar[tuple[Arrangement, ...]] = ("horizontal",)
    takes = "numbers"
    activity = "mapping the records"
    of_records = (
        "Its builder, which is none of the parties, got every record mapped by their secret matrix, and in the clear "
        "what the model predicts."
    )
    n_outcomes: ClassVar[Literal[1, 2]]
    must_stop = "the builder would see the same records mapped by two matrices"

    dimensions: int | None = parameter(
        optional(whole(1)), None, help="rows of the matrix, fewer than attributes. Unset: one fewer"
    )
    kernel: Kernel = parameter(choice("linear", "gaussian"), "linear", help="how records are mapped by the matrix")
    candidates: int = parameter(
        whole(1, 100), 1, help="of how many matrices the best is taken, by sums of moments; linear kernels alone"
    )
    weighting: Weighting = parameter(
        choice("equal", "reliability"),
        "equal",
        help='how sites weigh: equally, or by how well the others\' model ranks their records ("reliability")',
    )

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Yield what it cannot do, as far as known."""
        yield from super().refusals(proposal)
        if self.candidates > 1 and self.kernel != "linear":
            yield Problem("the best of several matrices is known for the linear kernel alone", key=("candidates",))
        attributes = list(proposal.schema or ())
        # How many columns categories make, their values tell, in the session.
        is_known = bool(attributes) and not any(map(self.is_category, attributes))
        if is_known and (text := too_many_rows(self.dimensions, len(attributes))):
            yield Problem(text, key=("dimensions",))

    @property
    def cost(self) -> float:
        """The weight of records on the wrong side of a margin, where there is one."""
        return 1.0

    @abstractmethod
    def outcomes(self, site: Site) -> Numbers:
        """Return each record's outcome as the builder sees it."""

    @abstractmethod
    def model_of(self, site: Site, told: MappedModel, projection: Projection) -> MappedSpaceModel:
        """Return a site's model from what the builder sent."""

    def learn(self, site: Site) -> Script[Model]:
        """Agree on the matrix, hand over mapped records, receive the model."""
        sums = yield from prepare_aggregation(site.me, site.parties, site.purpose("mapping sums"))
        shared = yield from shared_counts.prepare(site.me, site.parties, site.purpose("mapping"))
        x, seen = design(site), self.outcomes(site)
        # A duration's logarithm is nearer to a linear function of attributes.
        target = seen[:, 0] if self.n_outcomes == 1 else np.log1p(seen[:, 0])
        projection = yield from agree_on_projection(
            site.me, site.parties, sums, shared, x, target, self._terms(), site.purpose("matrix")
        )
        told = yield from hand_over(ASSEMBLER, Mapped(projection(x), seen))
        return self.model_of(site, told, projection)

    def kept(self, site: Site, model: Model) -> bytes | None:
        """Return the common matrix, and how records become numbers."""
        assert isinstance(model, MappedSpaceModel)
        assert model.projection is not None
        session = site.contract.hash.hex()
        return SiteKey.of(session, site.attributes, site.values, model.projection).written()

    def build(self, assembly: Assembly) -> Script[Model | None]:
        """Fit the model to all sites' mapped records, and tell it to them; they hand it in."""
        yield from self.built_for(assembly.contract.parties)
        return None

    def built_for(self, sites: tuple[str, ...]) -> Script[MappedModel]:
        """Run the builder's part for these sites."""
        return build_mapped(sites, self.n_outcomes, self.cost, self.weighting)

    def alone(self, site: Site) -> Model:
        """Map one table by a matrix of its own, and fit the same model."""
        x, seen = design(site), self.outcomes(site)
        rows = self._terms().rows(x.shape[1])
        matrix = random_matrix(random_bytes(32), rows, x.shape[1])
        low, high = (getattr(x, end)(axis=0) for end in ("min", "max"))
        projection = Projection(matrix, x.mean(axis=0), low, high, self.kernel, 1 / x.shape[1])
        told = fitted({site.name: Mapped(projection(x), seen)}, self.cost, "equal")
        return self.model_of(site, told, projection)

    def tells(self, contract: Contract, party: str) -> Iterator[str]:
        """Yield what the builder and the sites see."""
        others = ", ".join(name for name in contract.parties if name != party)
        clear = "its class" if self.n_outcomes == 1 else "its duration and event"
        yield f"the coordinator: every record of {party}, mapped by the sites' secret matrix, and {clear} in the clear"
        yield f"{others}: each attribute's mean, smallest and largest value over all parties"
        yield f"the coordinator and any other party together: most of {party}'s records, where values are whole"

    def _terms(self) -> ProjectionTerms:
        return ProjectionTerms(self.dimensions, self.kernel, self.candidates)


@dataclass(frozen=True)
class PpSvmMethod(MappedMethod):
    """Mangasarian and Wild's privacy-preserving support vector machine, of n sites with the same columns.

    Its builder sees records mapped by the sites' random matrix, and their classes. The model is in the mapped space, so
    that prediction goes through the sites. `svm` shows less, and is exact; this one is the paper's.
    """

    name = "pp-svm"
    summary = "a support vector machine of records that are mapped by the sites' random matrix; classes are public"
    learns = MappedSvm
    n_outcomes = 1

    nu: float = parameter(number(0, open_low=True), 1.0, help="the weight of records on the wrong side of the margin")

    @property
    def cost(self) -> float:
        """ν."""
        return self.nu

    def outcomes(self, site: Site) -> Numbers:
        """Return −1 or 1."""
        return np.where(outcomes(site, self.name), 1.0, -1.0)[:, None]

    def model_of(self, site: Site, told: MappedModel, projection: Projection) -> MappedSpaceModel:
        """Return the separating surface."""
        return MappedSvm(
            told.coefficients, self.kernel, told.weights, projection, threshold=told.threshold, classes=site.classes
        )

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Classify this site's records, and count their scores."""
        yield from ()
        assert isinstance(model, MappedSvm)
        return binned_counts(model.chances(design(site)), outcomes(site, self.name))

    def metrics(self, model: Model, n_records: int, counts: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return accuracy, AUC and the ROC curve."""
        return binary_metrics(n_records, counts)


@dataclass(frozen=True)
class PpCoxMethod(MappedMethod):
    """Cox regression of records mapped by the sites' random matrix, by lifelines, of n sites with the same columns.

    Its builder sees mapped records, durations and events. The model is in the mapped space, so that prediction goes
    through the sites. `cox` shows less, and is exact; this one is the paper's.
    """

    name = "pp-cox"
    summary = "fits Cox regression of records that are mapped by the sites' random matrix; survival is public"
    roles = SURVIVAL
    learns = MappedCox
    n_outcomes = 2

    def outcomes(self, site: Site) -> Numbers:
        """Return durations and deaths."""
        return np.column_stack(survival_of(site)).astype(np.float64)

    def model_of(self, site: Site, told: MappedModel, projection: Projection) -> MappedSpaceModel:
        """Return coefficients and baseline hazard."""
        baseline = tuple(zip(told.times, told.hazards, strict=True))
        return MappedCox(
            told.coefficients, self.kernel, told.weights, projection, center=told.threshold, baseline=baseline
        )

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Count the pairs of this site's records that are ranked rightly, and all pairs."""
        yield from ()
        assert isinstance(model, MappedCox)
        return as_counts(concordant_pairs(model.risks(design(site)), *survival_of(site)))

    def metrics(self, model: Model, n_records: int, counts: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the concordance over pairs of records of the same site, and the survival of an average record."""
        assert isinstance(model, MappedCox)
        return concordance_metrics(counts, model.baseline)
