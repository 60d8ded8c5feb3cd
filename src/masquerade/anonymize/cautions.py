"""What the reader of a release should know before using it: columns that lost nearly everything, weak requirements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from masquerade.data.column import Generalised
from masquerade.data.continuum import NUMBER
from masquerade.data.formulas import count_formulas
from masquerade.data.taxonomy import Taxonomy

if TYPE_CHECKING:
    from masquerade.anonymize.release import Release

_NEARLY_ALL = 0.9  # the loss of a column that is hardly worth releasing
_MANY_LEFT_OUT = 0.1  # the share of records that is left out from which on it says something who is missing
_NAMED = 5  # of such columns; more are counted
_MANY_LEAVES = 20  # a flat taxonomy of more numbers than these was probably meant as a scale
_NUMBER = re.compile(NUMBER)


FollowedBy = Literal["anything", "coarser", "nothing"]  # what may be made of the same table after a release


@dataclass(frozen=True)
class Advice:
    """What would help; `coarser` where that only makes the groups of a release larger.

    Where parties have a release in their ledgers, they let nothing else follow it (service/further_releases.py). So
    what they would refuse is not advised.
    """

    text: str
    coarser: bool = False

    def given(self, release: Release, before: str = "; ") -> str:
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
PROTECT_CLASS = Advice(
    "name it as sensitive and add ℓ-diversity or confidence bounding; a classifier then learns less"
)
ADVICE = (HELP, LARGER_K, READ_AGAIN, ONE_PROVIDER, AS_NUMBERS, OVER_ALL, IN_A_QID, PROTECT, PROTECT_CLASS)


def cautions(release: Release) -> tuple[str, ...]:
    """Return the cautions about a release, each one sentence with what would help."""
    return (*_losses(release, nearly_lost(release)), *other_cautions(release))


def _losses(release: Release, lost: Mapping[str, float]) -> Iterator[str]:
    named = list(lost)[: _NAMED if len(lost) > _NAMED + 1 else None]
    for name in named:
        yield said_of_loss(name, lost[name], release.attribute_information.get(name)) + HELP.given(release)
    if len(named) < len(lost):
        yield f"{len(lost) - len(named)} more columns lost {_NEARLY_ALL:.0%} of their detail or more"


def said_of_loss(name: str, loss: float, kept: float | None = None) -> str:
    """Say that a column is hardly worth releasing, and how much of its information it keeps."""
    information = "" if kept is None else f" and keeps {kept:.0%} of its information"
    return f"{name} lost {loss:.0%} of its detail{information}"


def nearly_lost(release: Release) -> dict[str, float]:
    """Return the columns that are hardly worth releasing, with their losses."""
    return {name: loss for name, loss in release.attribute_losses.items() if loss > _NEARLY_ALL}


def other_cautions(release: Release) -> Iterator[str]:
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
    if target is not None and any(
        target in each.requirement.sensitive_attributes for each in release.verdicts
    ):
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
