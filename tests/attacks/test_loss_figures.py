"""The attack: solve the published losses for the largest and the smallest raw value.

A loss that divides widths by the range of the raw values is an equation with that range as its unknown, and the cells
give everything else in it. The attacker here has the release, its summary and what parties tell the assembler, and
tries every largest value that somebody might have: each fits as well as the true one.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.net.memory import Wire
from masquerade.net.script import decode
from masquerade.protocol import ASSEMBLER
from masquerade.protocol.hand_in import Columns
from papers.paper_tables import JOB, SEX, loan_records
from protocol.test_mashup import LOANS, bag, contract_of, run_mashup

QID = ["Sex", "Job", "Salary"]
REQUIREMENT = mq.KAnonymity(QID, 3)
TRUE = 100
GUESSES = (TRUE, 100.25, 103)


def salaries(largest: float, smallest: float = 10, **bounds: float) -> mq.Table:
    """The paper's loans, with one salary above and one below all others."""
    records = loan_records()
    paid = records["Salary"].to_pylist()
    paid[0], paid[-1] = smallest, largest
    schema = mq.Schema(
        [
            mq.Attribute("Sex", taxonomy=mq.Taxonomy(SEX)),
            mq.Attribute("Job", taxonomy=mq.Taxonomy(JOB)),
            mq.Attribute("Salary", "continuous", **bounds),
        ]
    )
    return mq.Table(records.set_column(2, "Salary", pa.array(paid)), schema)


def published(release: mq.Release) -> dict[str, Any]:
    """All that a summary and a report say, but for timings."""
    return release.summary | {"seconds": None, "attributes": dict(release.attribute_losses)}


def handed_in(table: mq.Table) -> dict[str, Any]:
    """What each party told the assembler, but for timings; its cells without their order, which is secret."""
    wire = Wire()
    run_mashup(table, contract_of(REQUIREMENT, LOANS, argmax="plain"), wire=wire)
    told: dict[str, Any] = {}
    for heard in wire.seen_by(ASSEMBLER):
        message = decode(heard.data, [Columns])
        assert isinstance(message, Columns)
        cells = bag(pa.ipc.open_stream(message.table).read_all())
        told[heard.sender] = msgspec.structs.asdict(message) | {"table": cells, "seconds": None}
    return told


ALGORITHMS = [
    mq.TopDownSpecialization("Class"),
    mq.TopDownSpecialization(score="discernibility"),
    mq.TopDownSpecialization(score="certainty"),  # is guided by widths, and shows none of them
    mq.Mondrian(),
    mq.Mondrian(choose="widest"),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda each: f"{each.name}-{each.settings()}")
def test_every_largest_and_smallest_value_fits_the_figures(algorithm: Any) -> None:
    release = mq.anonymize(salaries(TRUE), REQUIREMENT, algorithm)
    assert 0 < release.attribute_losses["Salary"] < 1
    for guess in GUESSES:
        for smallest in (10, 9.5):
            tried = mq.anonymize(salaries(guess, smallest), REQUIREMENT, algorithm)
            assert bag(tried.table) == bag(release.table)  # or the guides would have told them apart
            assert published(tried) == published(release)


def test_the_assembler_is_told_the_same_whatever_the_largest_value() -> None:
    told = handed_in(salaries(TRUE))
    assert told["bank"]["losses"]["Salary"].certainty > 0
    for guess in GUESSES[1:]:
        assert handed_in(salaries(guess)) == told


def test_nothing_finer_than_the_summary_leaves_a_party() -> None:
    for columns in handed_in(salaries(TRUE)).values():
        for loss in columns["losses"].values():
            figures = msgspec.to_builtins(loss)
            assert figures.pop("information") is None, "of few records not how their values are spread"
            assert all(isinstance(figure, int) for figure in figures.values())
            assert loss.fits()
    release = mq.anonymize(salaries(TRUE), REQUIREMENT, mq.Mondrian())
    assert release.query_error is not None
    figures = [release.metrics[name] for name in ("loss", "ncp", "precision")]
    assert all(share == round(share, 3) for share in release.attribute_information.values())
    figures += [*release.attribute_losses.values(), release.query_error.mean, release.query_error.median]
    assert all(figure == round(figure, 4) for figure in figures if figure is not None)


def test_with_bounds_the_loss_follows_from_the_cells_and_the_bounds() -> None:
    release = mq.anonymize(salaries(90, smallest=2, lower=0, upper=100), REQUIREMENT, mq.TopDownSpecialization("Class"))
    widths = []
    for cell in release.table["Salary"].to_pylist():
        lo, hi = cell.strip("[)").split(", ")
        widths.append((float(hi) - float(lo)) / 100)
    assert release.attribute_losses["Salary"] == pytest.approx(sum(widths) / len(widths), abs=1e-4)
