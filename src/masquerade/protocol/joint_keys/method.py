"""The question how far columns of several parties together identify their common records, as a contract has it.

It makes no release: what comes out is a ratio for each set of columns asked about, and no job for a table names it. All
sets are in the contract before anything runs, and there are few of them: every ratio tells something of the peers'
columns, and together they tell more than each alone (docs/leakage.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from masquerade.data.schema import Schema
from masquerade.errors import ParameterError, Problem
from masquerade.forms.declared import parameter
from masquerade.forms.rules import Rule, choice, number, optional, whole
from masquerade.net.script import Message, Script
from masquerade.protocol.contract import Contract
from masquerade.protocol.disclosure import Disclosure, disclosed_by_join
from masquerade.protocol.joint_keys.party import RatiosFound, collect_ratios, joint_keys_party
from masquerade.protocol.joint_keys.ratios import JointRatios
from masquerade.protocol.method import Assembly, Proposal, RoleName, Seat
from masquerade.protocol.product import ANSWER
from masquerade.protocol.vertical_method import VerticalMethod
from masquerade.risk.separation import MEASURES, Measure

MOST_SETS = 16
LEAST_RECORDS = 100  # so that no ratio is about a handful of people, unless all agree on it
FINEST = 1000  # steps of a precision, at most: each is a comparison on shares


def _column_sets() -> Rule:
    words = f"1 to {MOST_SETS} sets of column names, all different"

    def check(value: Any) -> tuple[tuple[str, ...], ...]:
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_SETS:
            raise ValueError
        sets = []
        for each in value:
            if not isinstance(each, list | tuple) or not each:
                raise ValueError
            if not all(isinstance(name, str) and name for name in each) or len({*each}) < len(each):
                raise ValueError
            sets.append(tuple(each))
        if len({frozenset(each) for each in sets}) < len(sets):
            raise ValueError
        return tuple(sets)

    names = {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}}
    return Rule(words, check, {"type": "array", "minItems": 1, "maxItems": MOST_SETS, "items": names})


@dataclass(frozen=True)
class JointKeys(VerticalMethod):
    """The ratios of sets of columns over the parties' common records."""

    name = "joint-keys"
    makes = ANSWER
    ends_with: ClassVar[tuple[type[Message], ...]] = (RatiosFound,)
    roles: ClassVar[Mapping[RoleName, bool]] = {}
    summary = "tells how far columns of several parties together identify their common records"
    activity = "comparing the common records"

    sets: tuple[tuple[str, ...], ...] | None = parameter(
        optional(_column_sets()),
        None,
        help="the sets of columns asked about, each of two parties or more; without it, all columns together",
    )
    measure: Measure = parameter(choice(*MEASURES), "distinct", help="the ratio that is wanted")
    precision: float | None = parameter(
        optional(number(1 / FINEST, 0.5)),
        None,
        help="ratios are opened as multiples of this, rounded down; without it as they are",
    )
    sample: int | None = parameter(
        optional(whole(2)), None, help="how many of the common records are compared, at most"
    )
    least_records: int = parameter(
        whole(), LEAST_RECORDS, help="where the parties have fewer records in common, nothing is opened"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision is not None and abs(1 / self.precision - round(1 / self.precision)) > 1e-9:
            raise ParameterError(
                f"precision must be 1 divided by a whole number of 2 to {FINEST}, such as 0.01; got {self.precision}"
            )

    @property
    def steps(self) -> int | None:
        """Into how many steps the precision cuts a ratio."""
        return None if self.precision is None else round(1 / self.precision)

    def asked(self, contract: Contract) -> tuple[tuple[str, ...], ...]:
        """Return the sets of columns that a contract asks about."""
        return self.sets or (tuple(each.name for each in contract.columns),)

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns of all sets, each once."""
        return tuple(dict.fromkeys(name for each in self.sets or () for name in each))

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Requirements, which say nothing of a ratio, and sets of columns that one party holds alone."""
        for at, part in enumerate(proposal.parts):
            text = f"{self.name} opens ratios alone, of which {part.model} says nothing"
            yield Problem(text, key=("privacy", at))
        if proposal.holder is None:
            return
        for columns in self.sets or (tuple(proposal.holder),):
            holders = {proposal.holder[name] for name in columns if name in proposal.holder}
            if len(holders) == 1:
                (one,) = holders
                text = (
                    f"{', '.join(columns)}: all are {one}'s; a joint key has columns of two parties or more"
                )
                yield Problem(text, key=("sets",))

    def party(self, seat: Seat) -> Script[int]:
        """Align, number the own groups of each set, sort under sharing, open the ratios."""
        return joint_keys_party(self, seat)

    def assembler(self, assembly: Assembly) -> Script[JointRatios]:
        """Hear the ratios of all parties, which must be the same."""
        return collect_ratios(self, assembly.contract)

    def disclosure(
        self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool
    ) -> Disclosure:
        """Who is common, and a ratio for each set; no column leaves."""
        joined = disclosed_by_join(contract, party, schema, [], {}, show_steps=False)
        others = ", ".join(name for name in contract.parties if name != party)
        exactness = "" if self.precision is None else f", to {self.precision}"
        learn = tuple(
            f"{others}, the coordinator and the recipients: the {self.measure} ratio of {', '.join(each)}{exactness}"
            for each in self.asked(contract)
        )
        return Disclosure((), None, (*joined.peers_learn, *learn), {}, joined.stays, joined.protocol)
