"""A party's answer to a request: an offer with everything it insists on, or a refusal with every reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from masquerade.arrangement import Arrangement
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.contract import AttributeTerms, Contribution
from masquerade.service.agree.terms import Axis, Price, Provision, ServiceLevel, read_parts
from masquerade.service.canonical import MOST_WHOLE

LeastK = Annotated[int, msgspec.Meta(ge=0, le=MOST_WHOLE)]
Declines = Annotated[int, msgspec.Meta(ge=0, le=MOST_WHOLE)]


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="offer"):
    """What a party contributes, and what it insists on."""

    provision: Provision
    columns: tuple[Contribution, ...]  # excluding the class
    requirements: tuple[dict[str, object], ...]  # including those that were wished
    price: Price
    holds_class: bool = False
    shares_class: bool = False  # it lets the other parties know the class of the common records
    records: int | None = None
    needs_approval: bool = False
    show_progress: bool = False
    arrangement: Arrangement = msgspec.field(
        default="vertical", name="kind"
    )  # of the request that it answers
    m: int = 0  # in a horizontal session: the least number of colluding providers to withstand
    axes: tuple[Axis, ...] = ()  # in a horizontal session: how each of the columns is generalised
    attributes: tuple[AttributeTerms, ...] = ()  # how far its columns are generalised, and what they weigh
    joint_k: LeastK = 0  # over all attributes of all parties together; 0: over the QIDs asked for alone
    service: ServiceLevel = ServiceLevel()
    methods: tuple[
        dict[str, object], ...
    ] = ()  # where the request leaves it open: those that it takes; (): any
    declines: Declines | None = (
        None  # so many releases of this snapshot may still be declined; None: any number
    )

    @property
    def party(self) -> str:
        """The party that makes the offer."""
        return self.provision.party

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements."""
        return read_parts(self.requirements, f"the offer of {self.party}", self.arrangement)

    def joint_parts(self, columns: Iterable[Contribution]) -> tuple[GroupRequirement, ...]:
        """Return what it insists on over all attributes together, which only all offers name, or the finished deal."""
        qid = tuple({column.name: None for column in columns if column.role == "attribute"})
        return (KAnonymity(qid, self.joint_k),) if qid and self.joint_k else ()

    def axis(self, name: str) -> Axis | None:
        """Return how a column is generalised in a horizontal session, or None."""
        return next((axis for axis in self.axes if axis.name == name), None)


class Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="refusal"):
    """Why a party does not take part; `busy` when its load is the only reason, so that it may do so later.

    `earlier` when an earlier release is the only reason, and can be made coarser to answer the request
    (further_releases.py): the hash of its terms. `instead`: the keys of the request that are in the way of repeating
    that release or of columns that the method can take, with what they could be; nothing that the reasons do not tell.
    """

    party: str
    reasons: tuple[str, ...]
    busy: bool = False
    earlier: str | None = None
    instead: dict[str, Any] = {}


@dataclass(frozen=True)
class Load:
    """A party's running sessions, and the current time in seconds since 1970."""

    running: int
    now: int


def names_of(names: Iterable[str]) -> str:
    """List names for a person: each once, sorted."""
    return ", ".join(sorted(set(names)))
