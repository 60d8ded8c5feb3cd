"""Cox regression as a method (`protocol/learn/cox.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.rings import Elements
from masquerade.engine.numbering import distinct_values
from masquerade.forms.declared import parameter
from masquerade.forms.rules import number, optional
from masquerade.net.script import Script
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.aggregate import Openings, prepare_aggregation
from masquerade.protocol.learn.cox import CoxModel, Curve, cox_model
from masquerade.protocol.learn.handing_in import as_counts
from masquerade.protocol.learn.method import SURVIVAL, LearningMethod
from masquerade.protocol.learn.methods.linear import columns_of, design, given_ridge
from masquerade.protocol.learn.models.model import Model, Numbers
from masquerade.protocol.learn.models.survival import CoxSurvival
from masquerade.protocol.learn.outcomes import durations_of, events_of
from masquerade.protocol.learn.pooled_cox import pooled_cox
from masquerade.protocol.learn.ranking import concordant_pairs
from masquerade.protocol.learn.risk_sets import Survival
from masquerade.protocol.learn.shared_numbers import prepare_shared_numbers
from masquerade.protocol.learn.site import Site
from masquerade.protocol.learn.time_units import agreed_unit, in_steps, own_unit

_MOST_SHOWN = 200  # points of a curve that is drawn


@dataclass(frozen=True)
class CoxRegression(LearningMethod):
    """Cox regression of n sites with the same columns: that of the pooled records, ties as Efron counts them.

    Sums over those at risk stay shared among the sites, and so do the divisions by them; a step opens the gradient and
    the Hessian over all deaths. Coefficients are unpenalised and in the attributes' own units. How many die at
    which time, over all sites, is opened; times are counted in whole units, and durations rounded up to them.
    """

    name = "cox"
    summary = "fits Cox regression of survival; n sites learn the sums of each step, and when deaths occur, not whose"
    activity = "adding up over risk sets"
    arrangements: ClassVar[tuple[Arrangement, ...]] = ("horizontal",)
    roles = SURVIVAL
    takes = "numbers"
    learns = CoxSurvival
    drop_outs = ("stop", "start-over")
    must_stop = "each step needs everybody's shares, and the deaths of all sites are opened before the first"

    unit: float | None = parameter(
        optional(number(0, open_low=True)),
        None,
        help="durations are rounded up to multiples of this; a larger unit tells less of when somebody died. Unset: "
        "1, or as fine as the durations are, but so that the last death is fewer than 16,384 units away",
    )
    survival_error: float = parameter(
        number(0.0001, 0.1),
        0.005,
        help="how far the survival of any record may be from the pooled records' model; a smaller one shows sites and "
        "readers of the model more of who was still followed up. One table has no such error",
    )
    baseline_step: float | None = parameter(
        optional(number(0, open_low=True)),
        None,
        help="the baseline hazard is told at multiples of this, and is a straight line between them; a larger step "
        "shows readers of the model less of when somebody died. Unset: whenever somebody dies",
    )
    ridge: float = parameter(
        number(0),
        0.0,
        help="the weight of the squared coefficients of standardised attributes; 0: unpenalised",
    )

    def learn(self, site: Site) -> Script[Model]:
        """Take Newton's steps on shares."""
        purpose = site.purpose("cox sums")
        sums = yield from prepare_aggregation(site.me, site.parties, purpose, site.openings)
        shared = yield from prepare_shared_numbers(site.me, site.parties, site.purpose("cox"))
        unit = self.unit
        if unit is None:
            openings = site.openings or Openings()
            openings.under_way = True
            unit = yield from agreed_unit(shared.bits, *survival_of(site))
            openings.rounds, openings.under_way = openings.rounds + 1, False
        records = survival_records(site, unit)
        found = yield from cox_model(sums, shared, records, unit, self._curve, self.ridge, columns_of(site))
        return self._model(found)

    def alone(self, site: Site) -> Model:
        """Take the same steps on one table."""
        unit = self.unit or own_unit(*survival_of(site))
        records = survival_records(site, unit)
        return self._model(pooled_cox(records, unit, self._curve, self.ridge, columns_of(site)))

    @property
    def _curve(self) -> Curve:
        return Curve(self.survival_error, self.baseline_step)

    def _model(self, found: CoxModel) -> CoxSurvival:
        return CoxSurvival(
            found.determined.by_attribute(found.coefficients),
            found.determined.by_attribute(found.errors),
            found.center,
            found.baseline,
            found.unit,
            self._curve.between,
            given_ridge(self.ridge),
        )

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Count the pairs of this site's records that are ranked rightly, and all pairs."""
        yield from ()
        assert isinstance(model, CoxSurvival)
        durations, died = survival_of(site)
        return as_counts(concordant_pairs(model.risks(site.cells()), durations, died))

    def metrics(
        self, model: Model, n_records: int, counts: Sequence[int]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the concordance over pairs of records of the same site, and the survival of an average record."""
        assert isinstance(model, CoxSurvival)
        return concordance_metrics(counts, model.baseline)

    def tells(self, contract: Contract, party: str) -> Iterator[str]:
        """Yield the sums that are opened."""
        others = ", ".join(name for name in contract.parties if name != party)
        yield (
            f"{others}: over all parties: the number of records, each attribute's mean and the products of each two, "
            "how many die at each step of time, at every step of the fit gradient and Hessian, and whenever somebody "
            f"dies the survival curve, to {self.survival_error:g}"
        )
        often = "whenever somebody died" if self.baseline_step is None else f"every {self.baseline_step:g}"
        yield f"{others}, the coordinator and the recipients, in the model: that curve {often}"
        if len(contract.parties) == 2:
            yield f"{others}: as there are two parties, when {party}'s patients die, and its means and deviations"


def concordance_metrics(
    counts: Sequence[int], baseline: Sequence[tuple[float, float]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the concordance, and the curve of an average record's survival."""
    right, pairs = counts
    shown = distinct_values(np.linspace(0, len(baseline) - 1, _MOST_SHOWN).astype(int))[0].tolist()
    curve = {
        "times": [0.0, *(baseline[at][0] for at in shown)],
        "shares": [1.0, *(float(np.exp(-baseline[at][1])) for at in shown)],
    }
    figures = {
        "concordance": round(right / pairs, 6) if pairs else None,
        "pairs": "of records of the same site",
    }
    return figures, {"survival": {"an average record": curve}}


def survival_of(site: Site) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return this site's durations, and whose ended by the event."""
    named = {column.role: column.name for column in site.contract.columns}
    return durations_of(site.table, named["duration"]), events_of(site.table, named["event"])


def survival_records(site: Site, unit: float) -> Survival:
    """Return this site's records with durations in whole units of time."""
    durations, died = survival_of(site)
    return Survival(design(site), in_steps(durations, unit), died)
