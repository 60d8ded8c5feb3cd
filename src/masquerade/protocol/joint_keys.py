"""How far columns of several parties together tell records apart: one ratio comes out, and nothing else.

Every party numbers the groups of its own columns. A record's key is the numbers of all parties, shared bit by bit.

    sort      equal keys stand side by side (`protocol/shared_sort.py`)
    count     distinct ratio: the places whose key is that of the place before, which are n − groups
              separation ratio: for each place the others of its run, c − 1: together twice the pairs of equal keys
    add up    a tree of additions on shares
    open      the sum; or only how many steps of an agreed precision the ratio reaches

A table of joint counts would need a bound on every party's number of groups, which is its own columns' distinct ratio.
Here numbers have ⌈log₂ n⌉ bits whatever they are, so that nobody shows how many groups it has.

Who learns what: all parties the ratio, or its steps, against any n − 1 curious parties that follow the protocol
(`crypto/gmw.py`). A party that gives other numbers than its columns' learns the ratio of those (docs/leakage.md).
Cost for n records and keys of w bits: about w·n·(log₂ n)²/2 ANDs to sort; separation adds 3·n·(log₂ n)².
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from masquerade.arrangement import ANSWER
from masquerade.crypto import FALSE, Bits, Builder, Circuit, words
from masquerade.data import Schema
from masquerade.engine import group_rows
from masquerade.errors import ParameterError, PeerBrokeProtocol, Problem, RequirementUnreachable
from masquerade.forms import Rule, choice, number, optional, parameter, whole
from masquerade.net import Message, Receive, Script, Send
from masquerade.progress import OnStage, Stage, silent
from masquerade.protocol.common_records import find_common_rows, refuse_nobody
from masquerade.protocol.contract import Contract, agreed_table
from masquerade.protocol.disclosure import Disclosure, disclosed_by_join
from masquerade.protocol.dka.checks import counts_in_runs
from masquerade.protocol.hand_in import Received, Seconds, shown_seconds
from masquerade.protocol.method import ASSEMBLER, Assembly, Participant, Proposal, RoleName, VerticalMethod
from masquerade.protocol.pairs import exchange_nonces
from masquerade.protocol.providers.shared_counts import SharedBits, prepare
from masquerade.protocol.shared_sort import linked_places, sort_shared
from masquerade.risk import MEASURES, Measure, cell_codes

# --- ratios -------------------------------------------------------------------------------------------------
# What comes of a question about joint keys: a ratio for each set of columns, and what it means in one sentence.


@dataclass(frozen=True)
class JointRatios:
    """The ratio of each set of columns, over the common records or a sample of them."""

    sets: tuple[tuple[str, ...], ...]
    ratios: tuple[float, ...]
    measure: Measure
    precision: float | None  # ratios are rounded down to its multiples; None: they are exact
    records: int  # that all parties have in common
    compared: int
    parties: tuple[str, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def sampled(self) -> int | None:
        """How many of the common records were compared; None if all were."""
        return self.compared if self.compared < self.records else None

    def answers(self) -> list[dict[str, Any]]:
        """Return each set with its ratio and its meaning."""
        return [
            {"key": list(columns), "ratio": ratio, "meaning": self.meaning(columns, ratio)}
            for columns, ratio in zip(self.sets, self.ratios, strict=True)
        ]

    def meaning(self, columns: tuple[str, ...], ratio: float) -> str:
        """Say what a ratio tells of the people whom all parties have."""
        least = "" if self.precision is None else "at least "
        share = f"{least}{100 * ratio:.4g} %"
        whom = f"{self.compared:,} of the common records" if self.sampled else "the common records"
        named = ", ".join(columns)
        if self.measure == "separation":
            return f"of all pairs of {whom}, {share} differ in one of {named} or more"
        if ratio == 1:
            return f"{named} are a key: every one of {whom} is alone with its values"
        return f"{share} of {whom} would be left, if of those alike in {named} only one were kept"

    def summary(self) -> dict[str, Any]:
        """Return it as the JSON summary has it."""
        return {
            "ratios": self.answers(),
            "measure": self.measure,
            "precision": self.precision,
            "sampled": self.sampled,
            "common_records": self.records,
            "seconds": {part: round(took, 3) for part, took in self.seconds.items()},
        }

    def file(self) -> str:
        """Return the text of the answer's file."""
        told = {key: value for key, value in self.summary().items() if key != "seconds"}
        return json.dumps({**told, "parties": list(self.parties)}, indent=2, ensure_ascii=False) + "\n"


# --- sorted ratios ------------------------------------------------------------------------------------------

Groups = NDArray[np.int64]  # of each record, the number of its group at one party


@dataclass(frozen=True)
class RatioScale:
    """Between which numbers a ratio lies, and how much of it is opened; public, and the same for all parties."""

    records: int
    measure: Measure
    steps: int | None = None  # the ratio is opened in steps of 1 / `steps`, rounded down; None: as it is

    @property
    def whole(self) -> int:
        """The records; or the pairs of records, each counted from both."""
        return self.records if self.measure == "distinct" else self.records * (self.records - 1)

    def ratio(self, opened: int) -> float:
        """Return the ratio that an opened number stands for; 1 where there is nothing to tell apart."""
        if self.steps is not None:
            return opened / self.steps
        return 1.0 if not self.whole else (self.whole - opened) / self.whole

    @property
    def most(self) -> int:
        """The highest number that can be opened."""
        return self.whole if self.steps is None else self.steps

    @property
    def limits(self) -> list[int]:
        """How many records, or pairs, may be alike so that the ratio still reaches each step; the last step first."""
        assert self.steps is not None
        return [self.whole * at // self.steps for at in range(self.steps)]


def joint_ratios(
    shared: SharedBits, own: Sequence[Groups], scale: RatioScale, on_stage: OnStage = silent
) -> Script[list[int]]:
    """Return, for each set, the number that says how far all parties' groups together tell the records apart.

    See `RatioScale`. `own` has this party's groups of each set; all sets are done beside each other.
    """
    n, n_sets = scale.records, len(own)
    if n < 2:  # there is nothing to tell apart
        return [0 if scale.steps is None else scale.steps] * n_sets
    mine = _bits(np.concatenate(own), (n - 1).bit_length())
    keys = np.concatenate([shared.share(number, mine) for number in range(len(shared.parties))])
    yield from sort_shared(shared, keys, n_sets, lambda done: on_stage(Stage("sorting", percent=done)))
    on_stage(Stage("counting"))
    alike = yield from linked_places(shared, keys, n_sets)
    if scale.measure == "separation":
        nobody = np.zeros((1, n * n_sets), np.uint8)
        sizes = yield from counts_in_runs(shared, alike, nobody, 1, n.bit_length())
        alike = yield from shared.evaluate_shares(_one_less(len(sizes)), {"size": sizes}, "others")
    totals = yield from sums_of_shares(shared, alike.reshape(len(alike), n_sets, n))
    if scale.steps is not None:
        totals = yield from _steps_reached(shared, totals, scale)
    on_stage(Stage("opening"))
    opened = yield from shared.open_from_shares(_as_it_is(len(totals)), {"word": totals}, "word")
    return [sum(int(bit) << place for place, bit in enumerate(word)) for word in opened.T]


def sums_of_shares(shared: SharedBits, numbers: Bits) -> Script[Bits]:
    """Return shares of the sums of lists of shared numbers, [bits, lists, numbers] to [more bits, lists]."""
    while numbers.shape[2] > 1:
        width, lists, length = numbers.shape
        if length % 2:
            numbers = np.concatenate((numbers, np.zeros((width, lists, 1), np.uint8)), axis=2)
        inputs = {"one": numbers[:, :, ::2], "other": numbers[:, :, 1::2]}
        flat = {name: bits.reshape(width, -1) for name, bits in inputs.items()}
        added = yield from shared.evaluate_shares(_added(width), flat, "sum")
        numbers = added.reshape(width + 1, lists, -1)
    return numbers[:, :, 0]


def _steps_reached(shared: SharedBits, totals: Bits, scale: RatioScale) -> Script[Bits]:
    """Return shares of how many limits each total stays within."""
    limits = np.array(scale.limits, np.uint64)
    width, lists = max(len(totals), int(limits.max()).bit_length()), totals.shape[1]
    padded = np.concatenate((totals, np.zeros((width - len(totals), lists), np.uint8)))
    public = np.tile(_bits(limits, width), lists)
    if shared.me != 0:  # what all know, one party shares
        public = np.zeros_like(public)
    inputs = {"limit": public, "number": np.repeat(padded, limits.size, axis=1)}
    within = yield from shared.evaluate_shares(_within(width), inputs, "within")
    return (yield from sums_of_shares(shared, within.reshape(1, lists, -1)))


def _bits(numbers: NDArray[np.int64] | NDArray[np.uint64], width: int) -> Bits:
    places = np.arange(width, dtype=np.uint64)[:, None]
    return ((numbers.astype(np.uint64) >> places) & np.uint64(1)).astype(np.uint8)


@lru_cache(maxsize=64)
def _added(width: int) -> Circuit:
    build = Builder()
    one, other = build.input("one", width), build.input("other", width)
    build.output("sum", words.add(build, [*one, FALSE], [*other, FALSE]))
    return build.build()


@lru_cache(maxsize=16)
def _one_less(width: int) -> Circuit:
    build = Builder()
    size = build.input("size", width)
    build.output("others", words.subtract(build, size, words.constant(1, width)))
    return build.build()


@lru_cache(maxsize=16)
def _within(width: int) -> Circuit:
    build = Builder()
    limit, number = build.input("limit", width), build.input("number", width)
    build.output("within", [words.at_least(build, limit, number)])
    return build.build()


@lru_cache(maxsize=16)
def _as_it_is(width: int) -> Circuit:
    build = Builder()
    build.output("word", build.input("word", width))
    return build.build()


# --- party --------------------------------------------------------------------------------------------------
# One party's part in finding joint ratios, and the assembler's.
#
#     align    the common records, in an order that nobody chose; a sample is the first of them; where they are fewer
#              than the contract says, all parties end here
#     number   each party the groups of its own columns of a set; one that has none of them numbers all records 0
#     open     the ratio of each set (`joint_keys.py`), to all parties
#     tell     the assembler, whom all parties must tell the same
#
# Who learns what: everybody which of its own people all have (`protocol/align/align.py`), and the ratio of
# each set; the assembler the ratios and the number of common records. No cell, no label and no number of
# groups of a party leaves it.


class RatiosFound(Message, tag="joint-ratios", frozen=True):
    """What a party has found: the opened number of each set, from this many common records."""

    records: int
    opened: Annotated[tuple[int, ...], Meta(max_length=64)]
    seconds: Seconds


# --- method -------------------------------------------------------------------------------------------------
# The question how far columns of several parties together identify their common records, as a contract has it.
#
# It makes no release: what comes out is a ratio for each set of columns asked about, and no job for a table
# names it. All sets are in the contract before anything runs, and there are few of them: every ratio tells
# something of the peers' columns, and together they tell more than each alone (docs/leakage.md).

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
                text = f"{', '.join(columns)}: all are {one}'s; a joint key has columns of two parties or more"
                yield Problem(text, key=("sets",))

    def party(self, participant: Participant) -> Script[int]:
        """Align, number the own groups of each set, sort under sharing, open the ratios."""
        name, contract = participant.name, participant.contract
        started = time.perf_counter()
        rows = yield from find_common_rows(participant)
        refuse_nobody(contract, rows)
        common = agreed_table(participant.table, contract.attributes).take(rows)
        aligned = time.perf_counter()
        participant.on_stage(Stage("numbering groups"))
        if len(common) < self.least_records:  # every party sees it, and in the same words
            text = f"the parties have fewer than {self.least_records:,} records in common; no ratio is opened"
            raise RequirementUnreachable(text, public=True)
        own = common
        if self.sample is not None:
            own = common.take(np.arange(min(self.sample, len(common))))
        sets = self.asked(contract)
        mine = [each.name for each in contract.columns_of(name)]
        groups = [
            group_rows([cell_codes(own, each) for each in mine if each in columns], len(own))[0] for columns in sets
        ]
        scale = RatioScale(len(own), self.measure, self.steps)
        participant.before_showing()
        participant.on_stage(Stage("preparing the transfers"))
        me = contract.parties.index(name)
        nonces = yield from exchange_nonces(me, contract.parties)
        shared = yield from prepare(me, contract.parties, b"joint-keys\0" + contract.hash + b"".join(nonces))
        opened = yield from joint_ratios(shared, groups, scale, participant.on_stage)
        seconds = {"align": aligned - started, "protocol": time.perf_counter() - aligned}
        told = shown_seconds(seconds, exactly=participant.show_steps)
        yield Send((ASSEMBLER,), RatiosFound(len(common), tuple(opened), told))
        yield Receive(ASSEMBLER, Received)
        return len(common)

    def assembler(self, assembly: Assembly) -> Script[JointRatios]:
        """Hear the ratios of all parties, which must be the same."""
        contract = assembly.contract
        heard: dict[str, RatiosFound] = {}
        sets = self.asked(contract)
        for party in contract.parties:
            found = heard[party] = yield Receive(party, RatiosFound)
            first = heard[contract.parties[0]]
            if (found.records, found.opened) != (first.records, first.opened):
                who = f"{party} reports other ratios than {contract.parties[0]}"
                raise PeerBrokeProtocol("", f"{who}: one of them does not follow the protocol")
            compared = found.records if self.sample is None else min(self.sample, found.records)
            scale = RatioScale(compared, self.measure, self.steps)
            possible = len(found.opened) == len(sets) and all(0 <= number <= scale.most for number in found.opened)
            if not max(1, self.least_records) <= found.records <= contract.most_records or not possible:
                raise PeerBrokeProtocol(party, "reports ratios that no records have")
        yield Send(contract.parties, Received())
        seconds = {part: max(each.seconds.get(part, 0.0) for each in heard.values()) for part in ("align", "protocol")}
        ratios = tuple(scale.ratio(number) for number in first.opened)
        return JointRatios(
            sets, ratios, self.measure, self.precision, first.records, compared, contract.parties, seconds
        )

    def disclosure(self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool) -> Disclosure:
        """Who is common, and a ratio for each set; no column leaves."""
        joined = disclosed_by_join(contract, party, schema, [], {}, show_steps=False)
        others = ", ".join(name for name in contract.parties if name != party)
        exactness = "" if self.precision is None else f", to {self.precision}"
        learn = tuple(
            f"{others}, the coordinator and the recipients: the {self.measure} ratio of {', '.join(each)}{exactness}"
            for each in self.asked(contract)
        )
        return Disclosure((), None, (*joined.peers_learn, *learn), {}, joined.stays, joined.protocol)
