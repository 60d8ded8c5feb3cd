"""A release: the published table, and the evidence that it may be published."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from masquerade.anonymize.shared_people import SharedPeople
from masquerade.data import FLAT, NUMBER, Choice, Coded, Generalised, Step, Taxonomy, count_formulas
from masquerade.engine import Counts, Ints, occurring
from masquerade.privacy import Verdict
from masquerade.utility import (
    AttributeLoss,
    Comparison,
    CountsBefore,
    certainty_losses,
    information_kept,
    losses_of,
    measure,
)

if TYPE_CHECKING:
    from masquerade.utility import QueryError

# --- cautions -----------------------------------------------------------------------------------------------
# What the reader of a release should know before using it: columns that lost nearly everything, weak
# requirements.

_NEARLY_ALL = 0.9  # the loss of a column that is hardly worth releasing
_MANY_LEFT_OUT = 0.1  # the share of records that is left out from which on it says something who is missing
_NAMED = 5  # of such columns; more are counted
_MANY_LEAVES = 20  # a flat taxonomy of more numbers than these was probably meant as a scale
_NUMBER = re.compile(NUMBER)


FollowedBy = Literal["anything", "coarser", "nothing"]  # what may be made of the same table after a release


@dataclass(frozen=True)
class Advice:
    """What would help; `coarser` where that only makes the groups of a release larger.

    Where parties have a release in their ledgers, they let nothing else follow it
    (service/agree/further_releases.py). So what they would refuse is not advised.
    """

    text: str
    coarser: bool = False

    def given(self, release: VerifiedRelease, before: str = "; ") -> str:
        """Return it, with what stands before it, or nothing where it could not be followed."""
        possible = release.followed_by == "anything" or (self.coarser and release.followed_by == "coarser")
        return f"{before}{self.text}" if possible else ""


HELP = Advice("another method, some suppression, a smaller QID or a finer taxonomy would keep more")
LARGER_K = Advice("use a k of 2 or more", coarser=True)
READ_AGAIN = Advice("is the table read rightly? missing_values says what counts as missing")
ONE_PROVIDER = Advice("leave all but one record of each out")
AS_NUMBERS = Advice('type = "continuous" would make intervals of them')
OVER_ALL = Advice("one requirement over all of them would prevent that", coarser=True)
IN_A_QID = Advice("what somebody could know of a person belongs in a QID")
PROTECT = Advice("ℓ-diversity or t-closeness would prevent that", coarser=True)
PROTECT_CLASS = Advice("name it as sensitive and add ℓ-diversity or confidence bounding; a classifier then learns less")
ADVICE = (HELP, LARGER_K, READ_AGAIN, ONE_PROVIDER, AS_NUMBERS, OVER_ALL, IN_A_QID, PROTECT, PROTECT_CLASS)


def cautions(release: VerifiedRelease) -> tuple[str, ...]:
    """Return the cautions about a release, each one sentence with what would help."""
    return (*_losses(release, nearly_lost(release)), *other_cautions(release))


def _losses(release: VerifiedRelease, lost: Mapping[str, float]) -> Iterator[str]:
    named = list(lost)[: _NAMED if len(lost) > _NAMED + 1 else None]
    for name in named:
        yield said_of_loss(name, lost[name], release.attribute_information.get(name)) + HELP.given(release)
    if len(named) < len(lost):
        yield f"{len(lost) - len(named)} more columns lost {_NEARLY_ALL:.0%} of their detail or more"


def said_of_loss(name: str, loss: float, kept: float | None = None) -> str:
    """Say that a column is hardly worth releasing, and how much of its information it keeps."""
    information = "" if kept is None else f" and keeps {kept:.0%} of its information"
    return f"{name} lost {loss:.0%} of its detail{information}"


def nearly_lost(release: VerifiedRelease) -> dict[str, float]:
    """Return the columns that are hardly worth releasing, with their losses."""
    return {name: loss for name, loss in release.attribute_losses.items() if loss > _NEARLY_ALL}


def other_cautions(release: VerifiedRelease) -> Iterator[str]:
    """Yield what is not about the losses of columns."""
    for verdict in release.verdicts:
        if verdict.requirement.parameters().get("k") == 1:
            yield f"{verdict.requirement}: a group of one record hides nobody{LARGER_K.given(release)}"
    if release.dropped_rows is not None and 2 * release.dropped_rows >= release.rows > 0:
        dropped = f"{release.dropped_rows} of {release.rows} rows were dropped for missing cells"
        yield dropped + READ_AGAIN.given(release)
    sensitive = sorted({name for each in release.verdicts for name in each.requirement.sensitive_attributes})
    if sensitive and release.suppressed > _MANY_LEFT_OUT * release.rows:
        yield (
            f"{release.suppressed} of {release.rows} records are left out, because their groups violate: of somebody "
            f"who is known to be in the table and is not in the release, this says something about "
            f"{', '.join(sensitive)}"
        )
    if release.shared is not None and (people := release.shared.people):
        who = "1 person" if people == 1 else f"{people} people"
        yield (
            f"{who} (by {release.shared.identifier}) {'is' if people == 1 else 'are'} at two or more providers; "
            "m-privacy takes the records of different providers for those of different people"
            f"{ONE_PROVIDER.given(release, ': ')}"
        )
    target = release.settings.get("class")
    if target is not None and any(target in each.requirement.sensitive_attributes for each in release.verdicts):
        yield class_is_sensitive(target)
    for name, count in count_formulas(release.table).items():
        yield (
            f"{count:,} cells of {name} begin with =, +, - or @, and a spreadsheet may run them as formulas; "
            "escape_formulas of [output], or --escape-formulas of download, writes them so that none does"
        )
    for column in release.columns:
        if _is_scale(column):
            yield f"{column.name} has a flat taxonomy of numbers{AS_NUMBERS.given(release)}"


def class_is_sensitive(target: str) -> str:
    """Say what is contradictory about a class that is also sensitive."""
    return (
        f"{target} is the class and sensitive: groups of one class serve a classifier, and tell the sensitive value; "
        "what the requirement hides, no classifier can learn"
    )


def _is_scale(column: Generalised) -> bool:
    domain = column.domain
    if not isinstance(domain, Taxonomy) or domain.height > 1 or len(domain.leaves) <= _MANY_LEAVES:
        return False
    return all(_NUMBER.fullmatch(leaf) for leaf in domain.leaves)


# --- release ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class VerifiedRelease:
    """A table that satisfies its requirement, and the evidence: verdicts, steps, cuts, metrics, timings."""

    table: pa.Table
    verdicts: tuple[Verdict, ...]
    columns: tuple[Generalised, ...]  # the generalised columns with their cut, in the order of the input
    steps: tuple[Step, ...]
    group_sizes: Counts
    rows: int
    dropped_rows: int | None  # for missing cells; None where only the readers of the tables know it
    dropped: tuple[str, ...]
    metrics: Mapping[str, float | None]
    attribute_losses: Mapping[str, float]  # what each generalised attribute lost: 0 nothing, 1 everything
    settings: Mapping[str, Any]  # all that is needed to repeat the run
    seconds: dict[str, float] = field(default_factory=dict)  # the writer adds the time that writing took
    attribute_information: Mapping[str, float] = field(
        default_factory=dict
    )  # the share of its information that each generalised attribute keeps, where it is known
    # How many providers feed each group, where the requirement names them; groups are those of `group_sizes`.
    group_providers: Counts | None = None
    query_error: QueryError | None = None  # where groups are cut for the sake of queries, or the holders told it
    error: float | None = None  # of classifying by the release alone, where somebody measured it
    suppressed: int = 0  # kept rows that are not in the release
    followed_by: FollowedBy = "anything"  # where parties' ledgers have it: what they let follow
    boundaries: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # how far values may go, of taxonomies that are given
    sensitive: tuple[str, ...] = ()  # the sensitive columns
    sensitive_before: CountsBefore = field(default_factory=dict)  # where rows were suppressed, and it may be told
    shared: SharedPeople | None = None  # where identifiers tell who is at several providers
    choice: Choice | None = None  # where it is the best of several methods' releases
    purpose: Mapping[str, float | None] = field(default_factory=dict)  # figures of weights and workload, if any
    # Of a release in chunks, `table` holds some of the rows, and these are all of them.
    released_rows: int | None = None
    values_after: CountsBefore = field(default_factory=dict)  # of its sensitive columns
    # Of the same, and of the provider if it is released: the values, and how often each group has each.
    group_values: Mapping[str, tuple[tuple[str, ...], Counts]] = field(default_factory=dict)
    group_codes: tuple[Ints, ...] = ()  # and the code that each group has, by column
    made: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def measured(
        cls,
        cells: pa.Table,
        verdicts: tuple[Verdict, ...],
        comparison: Comparison,
        losses: Mapping[str, AttributeLoss] | None = None,
        *,
        providers: Coded | None = None,
        sensitive: Sequence[str] = (),
        **known: Any,
    ) -> Self:
        """Make a release of verified cells, with the figures that follow from comparing them with the original.

        `losses` are counted by the holders of the attributes, where no one has all originals. `providers` has that
        of every kept input row. `sensitive` are columns that no requirement looks at and that are sensitive
        nevertheless. `known` are the fields that do not follow from all these.
        """
        if losses is None:
            losses = losses_of(comparison)
        return cls(
            table=cells,
            verdicts=verdicts,
            columns=comparison.released,
            group_sizes=comparison.group_sizes,
            metrics=measure(comparison, losses),
            attribute_losses=certainty_losses(losses),
            attribute_information=information_kept(losses),
            group_providers=comparison.providers_of_groups(providers) if providers is not None else None,
            suppressed=comparison.suppressed,
            boundaries=_boundaries(comparison),
            sensitive=_sensitive(cells, verdicts, sensitive),
            **known,
        )

    @property
    def released(self) -> int:
        """The number of released rows."""
        return int(self.table.num_rows) if self.released_rows is None else self.released_rows

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.released} rows in {self.group_sizes.size} groups>"

    def __str__(self) -> str:
        """Return five lines for a person: rows, requirements, groups, columns, their losses. No cell is in them."""
        sizes = self.group_sizes
        lost = sorted(self.attribute_losses.items(), key=lambda each: -each[1])
        loss = ", ".join(f"{name} {share:.0%}" for name, share in lost) or "none"
        kept = [(name, self.attribute_information[name]) for name, _ in lost if name in self.attribute_information]
        information = ", ".join(f"{name} {share:.0%}" for name, share in kept)
        lines = {
            "rows": f"{self.released} released, {self.dropped_rows or 0} dropped, {self.suppressed} suppressed",
            "requirements": "; ".join(
                f"{verdict.requirement} {'holds' if verdict.holds else 'is violated'}" for verdict in self.verdicts
            ),
            "groups": f"{sizes.size} of {sizes.min(initial=self.rows)} to {sizes.max(initial=0)} records",
            "columns": ", ".join(self.table.column_names),
            "loss": f"{loss}; information kept: {information}" if information else loss,
        }
        return "\n".join(f"{name + ':':14}{text}" for name, text in lines.items())

    @property
    def unique(self) -> int:
        """The number of records that are the only ones with their values of all QIDs' attributes together."""
        return int(np.count_nonzero(self.group_sizes == 1))

    @property
    def summary(self) -> dict[str, Any]:
        """Return the JSON summary of DESIGN's public surface."""
        return {
            "rows": self.rows,
            "dropped_rows": self.dropped_rows,
            "released": self.released,
            "suppressed": self.suppressed,
            "dropped": list(self.dropped),
            "groups": int(self.group_sizes.size),
            "unique": self.unique,
            **self._providers(),
            "requirements": [verdict.summary() for verdict in self.verdicts],
            "steps": [step.summary() for step in self.steps],
            "metrics": dict(self.metrics),
            "attribute_losses": dict(self.attribute_losses),
            "attribute_information": dict(self.attribute_information),
            **({"purpose": dict(self.purpose)} if self.purpose else {}),
            **({"choice": self.choice.summary()} if self.choice is not None else {}),
            "warnings": list(cautions(self)),
            **({"query_error": self.query_error.summary()} if self.query_error is not None else {}),
            "seconds": dict(self.seconds),
        }

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The released columns that are published as they were."""
        generalised = {column.name for column in self.columns}
        return tuple(name for name in self.table.column_names if name not in generalised)

    def _providers(self) -> dict[str, dict[str, int] | int]:
        """Count the groups fed by one provider, by two, …; and the people whom several have."""
        if self.group_providers is None:
            return {}
        found, groups = occurring(self.group_providers, int(self.group_providers.max(initial=0)) + 1)
        shared = {} if self.shared is None else {"people_at_several_providers": self.shared.people}
        return {"groups_by_providers": dict(zip(map(str, found.tolist()), groups.tolist(), strict=True)), **shared}


@dataclass(frozen=True)
class Provenance:
    """What the readers of the tables know about a release, and the session that makes it does not."""

    dropped: tuple[str, ...] | None = None  # columns that are left out; None for those of the given table
    dropped_rows: int | None = None  # for missing cells, where the table is made of others that had them
    settings: Mapping[str, Any] = field(default_factory=dict)  # beside those of the method
    read_seconds: float = 0.0


def _boundaries(comparison: Comparison) -> dict[str, tuple[str, ...]]:
    """Return each attribute's MAGSet; not where it is made of the data, which would tell raw values."""
    return {
        column.name: column.boundary.values
        for column in comparison.originals
        if column.boundary is not None and isinstance(column.domain, Taxonomy) and column.domain.source != FLAT
    }


def _sensitive(cells: pa.Table, verdicts: Sequence[Verdict], more: Sequence[str]) -> tuple[str, ...]:
    """Return the released columns that a requirement protects, and `more` of them."""
    found = [*more]
    for verdict in verdicts:
        providers = verdict.requirement.provider_columns
        found += [name for name in verdict.requirement.special_columns if name not in providers]
    return tuple(name for name in dict.fromkeys(found) if name in cells.column_names)


def shuffled(cells: pa.Table) -> pa.Table:
    """Shuffle the rows with the system's randomness: the input's order would point at people."""
    keys = np.frombuffer(os.urandom(8 * cells.num_rows), np.uint64)
    return cells.take(pa.array(np.argsort(keys)))
