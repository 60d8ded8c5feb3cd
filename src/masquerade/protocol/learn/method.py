"""The base class of methods by which parties learn a model.

A method is one file in `protocol/learn/` and one line in `masquerade.methods`. It declares

    name, summary, activity       as every method
    arrangements                  how the parties may hold their data
    roles                         the columns that it takes apart from attributes; by default it needs a class
    takes                         "values": every column is counted by value; "numbers": categories become 0 and 1
    learns                        its class of models (`protocol/learn/`), which reads and writes the JSON
    of_records                    what became of the parties' records, if they left their owners in any form
    drop_outs                     what it can do when a site drops out besides to stop, and `must_stop`: why not more
    parameters                    declared fields, as in every method

and does

    learn       one party's script: from its `Site`, return the model, which all parties learn
    counts      one party's script: whole numbers whose sums over all parties tell how good the model is; they may be
                shares modulo 2^64
    metrics     from these sums: what is reported, and what charts are drawn from
    alone       the same model from one table, in the clear
    kept        only where a party keeps a secret, without which the model says nothing of a new record
    build       only where the collector builds the model from what the parties send it: its script
    tells       what the parties learn besides the model, in words, for whoever signs

What all have in common is here, in `party` and `assembler`. The latter is the collector, which is no party; it learns
the model and the sums.

A party aligns its records where the parties hold different columns, agrees on the columns' values, learns, and hands in
the model with its masked counts. The collector compares the models and adds up the counts. Where a method lets sites
drop out, those that are left go on, or start over (`frame.py`).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from masquerade.arrangement import ARRANGEMENTS, MODEL, Arrangement
from masquerade.crypto import Elements
from masquerade.data import Attribute, Missing, Schema, Table
from masquerade.errors import DataError, Problem
from masquerade.forms import choice, parameter, switch, whole
from masquerade.net import Message, Receive, Script, Send
from masquerade.privacy import GroupRequirement
from masquerade.progress import Stage
from masquerade.protocol.common_records import find_common_rows, insist_on_same_classes, refuse_nobody
from masquerade.protocol.contract import OUTCOMES, Contract
from masquerade.protocol.disclosure import Disclosure
from masquerade.protocol.hand_in import Received, shown_seconds
from masquerade.protocol.learn import frame
from masquerade.protocol.learn.frame import COUNTS, DropOut, LearnedModel, Survivors
from masquerade.protocol.learn.models import Learned, Model
from masquerade.protocol.learn.site import (
    READERS,
    Site,
    agree_on_values,
    attributes_of,
    cells_of,
    filled,
    own_codes,
    refuse_identifying,
)
from masquerade.protocol.learn.sums import Openings
from masquerade.protocol.method import ASSEMBLER, Assembly, Participant, Proposal, RoleName, SessionMethod

_LARGEST = 1e30  # of numbers, so that sums of squares have all their digits (`sums.py`)

Result = TypeVar("Result")

SURVIVAL: Mapping[RoleName, bool] = {"duration": True, "event": True}  # roles of methods that predict it


@dataclass(frozen=True)
class LearningProposal(Proposal):
    """What is known of a session before it is agreed on; None means not yet known."""

    parts: tuple[GroupRequirement, ...] = ()  # a model has none
    arrangement: Arrangement | None = None
    roles: Mapping[str, str] | None = None  # class, duration, event
    fills_means: bool = False  # whether missing numbers are filled in
    tries_again: bool = False  # whether a session that fails is tried again with all its parties


@dataclass(frozen=True)
class LearningMethod(SessionMethod):
    """A method by which parties learn one model of all their records."""

    makes = MODEL
    ends_with: ClassVar[tuple[type[Message], ...]] = (LearnedModel,)

    arrangements: ClassVar[tuple[Arrangement, ...]]
    roles: ClassVar[Mapping[RoleName, bool]] = {"class": True}
    takes: ClassVar[Literal["values", "numbers"]]
    learns: ClassVar[type[Model]]
    of_records: ClassVar[str] = "No record left its owner."  # what became of the records, for readers of the model
    drop_outs: ClassVar[tuple[DropOut, ...]] = ("stop",)
    must_stop: ClassVar[str]

    min_records: int = parameter(whole(1), 10, help="no node, row or step of a model rests on fewer people")
    evaluate: bool = parameter(
        switch(), True, help="measure the model on the training records; false: only the model is opened"
    )
    drop_out: DropOut = parameter(
        choice("stop", "start-over", "go-on"),
        "stop",
        help="when a site drops out: end; start over without it, if nothing was opened; or go on without it, if "
        "nothing of the round was opened",
        granted=("stop",),
    )

    @abstractmethod
    def learn(self, site: Site) -> Script[Model]:
        """Learn the model together with the other parties."""

    @abstractmethod
    def alone(self, site: Site) -> Model:
        """Return the model of one table that holds every column."""

    def build(self, assembly: Assembly) -> Script[Model | None]:
        """Run the collector's part before the models are handed in; by default it has none."""
        yield from ()
        return None

    def kept(self, site: Site, model: Model) -> bytes | None:
        """Return what this party must keep to itself to use the model; None where the model is all that is needed."""
        return None

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Return this party's summands of the counts by which the model is judged."""
        yield from ()
        return frame.as_counts([])

    def metrics(self, model: Model, n_records: int, counts: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the counts tell of the model: the metrics, and the data of charts."""
        return {}, {}

    def tells(self, contract: Contract, party: str) -> Iterator[str]:
        """Yield what the other parties learn from this one besides the model and their common records."""
        yield from ()

    def is_category(self, attribute: Attribute) -> bool:
        """Return whether an attribute has values that are counted, rather than numbers."""
        return attribute.kind == "categorical" or (self.takes == "values" and attribute.taxonomy is not None)

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Yield what it cannot do, as far as known. Keys are below `algorithm`, or `roles`, `attributes`, `privacy`."""
        for at, part in enumerate(proposal.parts):
            yield Problem(f"{self.name} learns a model, of which {part.model} says nothing", key=("privacy", at))
        if isinstance(proposal, LearningProposal):
            where = proposal.arrangement
            if where is not None and where not in self.arrangements:
                (possible,) = self.arrangements
                text = f"{self.name} needs parties that hold {ARRANGEMENTS[possible].columns}; these hold "
                yield Problem(text + ARRANGEMENTS[where].columns, key=("name",))
            if proposal.roles is not None:
                yield from self.refused_roles(proposal.roles)
            if proposal.fills_means and self.takes == "values":
                text = f'{self.name} counts values, which have no mean; use missing = "drop"'
                yield Problem(text, key=("missing",))
        yield from self._refused_drop_out(proposal, len(proposal.parties or ()))
        for attribute in proposal.schema or ():
            if self.takes == "values" and not self.is_category(attribute):
                text = f"{self.name} counts values: give a taxonomy of intervals"
                yield Problem(f'{text}, or "flat" for every number by itself', key=("attributes", attribute.name))

    def _refused_drop_out(self, proposal: Proposal, n_parties: int) -> Iterator[Problem]:
        """Yield what it has against going on when a site drops out; 0 parties: not yet known."""
        if self.drop_out == "stop":
            return
        if isinstance(proposal, LearningProposal) and proposal.tries_again:
            text = "a session that loses a party is tried again with all of them"
            yield Problem(f'{text}; use "stop"', key=("drop_out",))
        elif self.drop_out not in self.drop_outs:
            most = " or ".join(self.drop_outs)
            yield Problem(f"{self.name} can only {most}: {self.must_stop}", key=("drop_out",))
        elif 0 < n_parties <= frame.fewest(n_parties):
            text = f"of {n_parties} parties {frame.fewest(n_parties)} must be left, so that none may drop out"
            yield Problem(f'{text}; use "stop"', key=("drop_out",))

    def party(self, participant: Participant) -> Script[int]:
        """Align, agree on values, learn, hand in. Return how many records this party had in the session."""
        started = time.perf_counter()
        table = yield from _records(participant)
        aligned = time.perf_counter()
        participant.on_stage(Stage(self.activity))
        participant.before_showing()
        survivors = Survivors(participant.name, participant.contract.parties, self.drop_out)
        model, masked = yield from self._among_the_present(participant, table, survivors, self._counted)
        participant.before_showing()
        seconds = {"align": aligned - started, "protocol": time.perf_counter() - aligned}
        told = shown_seconds(seconds, exactly=participant.show_steps)
        message = LearnedModel(frame.written_model(model), COUNTS.encode(masked), told, survivors.lost)
        yield Send((ASSEMBLER,), message)
        yield Receive(ASSEMBLER, Received)
        return len(table)

    def among_parties(self, participant: Participant) -> Script[Model]:
        """Learn the model without a collector, for parties that need nobody to write it."""
        table = yield from _records(participant)
        participant.before_showing()
        survivors = Survivors(participant.name, participant.contract.parties, self.drop_out)
        return (yield from self._among_the_present(participant, table, survivors, self._kept))

    def _among_the_present(
        self, participant: Participant, table: Table, survivors: Survivors, learn: Callable[[Site], Script[Result]]
    ) -> Script[Result]:
        """Learn with all parties; or, where that is agreed, with those that are left when some drop out."""
        if not self.outlives_parties:
            return (yield from learn((yield from self._site(participant, table, participant.contract.parties, None))))
        agreed: Site | None = None

        def attempt(present: tuple[str, ...]) -> Script[Result]:
            nonlocal agreed
            if agreed is None or not survivors.openings.rounds:  # what a sum was opened by stays
                agreed = yield from self._site(participant, table, present, survivors.openings)
            return (yield from learn(replace(agreed, parties=present)))

        return (yield from survivors.run(attempt))

    def _kept(self, site: Site) -> Script[Model]:
        """Return the model; before anybody can have it, the site keeps what it needs to use it."""
        model = yield from self.learn(site)
        if (kept := self.kept(site, model)) is not None:
            site.keep(site.contract.hash.hex(), kept)
        return model

    def _counted(self, site: Site) -> Script[tuple[Model, Elements]]:
        """Return the model, and the masked counts by which it is judged."""
        model = yield from self._kept(site)
        if site.openings is not None:
            site.openings.under_way = True  # everything is open: nothing is made again
        site.on_stage(Stage("handing in"))
        return model, (yield from self._masked(site, model))

    def _site(
        self, participant: Participant, table: Table, parties: tuple[str, ...], openings: Openings | None
    ) -> Script[Site]:
        """Agree on the columns' values, and fill in missing numbers."""
        name, contract = participant.name, participant.contract
        me = parties.index(name)
        categories = [each for each in self.categories(contract, table.schema) if each in table.arrow.column_names]
        agreed = yield from agree_on_values(me, parties, table, categories, self.min_records)
        if agreed.has_gaps:
            numbers = [each for each in attributes_of(contract) if each in table.schema and each not in categories]
            purpose, pooled = b"means\0" + contract.hash, contract.arrangement == "horizontal"
            table = yield from filled(table, numbers, me, parties, purpose, pooled=pooled, openings=openings)
        keep, on_stage = participant.keep, participant.on_stage
        return Site(name, contract, table, agreed.values, agreed.most_bits, parties, on_stage, openings, keep)

    def _masked(self, site: Site, model: Model) -> Script[Elements]:
        """Return the number of records and the counts of the model, masked."""
        everybody = site.arrangement == "vertical" and site.me > 0  # whose records the first party has counted
        counts = frame.as_counts([0 if everybody else len(site.table)])
        if self.evaluate:
            counts = np.concatenate((counts, (yield from self.counts(site, model))))
        return (yield from frame.masked_counts(site.me, site.parties, counts, site.purpose("figures")))

    @property
    def outlives_parties(self) -> bool:
        """Whether the others may go on when a party is lost."""
        return self.drop_out != "stop"

    def assembler(self, assembly: Assembly) -> Script[Learned]:
        """Run the part of the collector, which is no party: compare the models, add up the counts."""
        contract = assembly.contract
        built = yield from self.build(assembly)
        handed = yield from (frame.handed_in_spite if self.outlives_parties else frame.handed_by)(contract.parties)
        if built is not None:
            ours = LearnedModel(frame.written_model(built), b"", {})
            frame.the_one_model(self.learns, {ASSEMBLER: ours, **handed})
        model = frame.the_one_model(self.learns, handed)
        learned = self._learned(contract, tuple(handed), model, frame.total_counts(handed))
        seconds = {
            part: max(message.seconds.get(part, 0.0) for message in handed.values()) for part in ("align", "protocol")
        }
        yield Send(tuple(handed), Received())
        return replace(learned, seconds=seconds, session=contract.hash.hex())

    def learned_alone(self, site: Site) -> Learned:
        """Return the model of one table, with its metrics."""
        model = self.alone(site)
        masked = frame.result_of(self._masked(site, model))
        return self._learned(site.contract, site.parties, model, [int(each) for each in masked])

    def _learned(self, contract: Contract, parties: tuple[str, ...], model: Model, counts: Sequence[int]) -> Learned:
        metrics, curves = self.metrics(model, counts[0], counts[1:]) if self.evaluate else ({}, {})
        roles: dict[str, str] = {each.role: each.name for each in contract.columns if each.role in SURVIVAL}
        if contract.class_name is not None:
            roles["class"] = contract.class_name
        if metrics:
            metrics = {**metrics, "on": "the training records"}
        lost = tuple(name for name in contract.parties if name not in parties)
        return Learned(self.settings(), model, roles, parties, counts[0], metrics, curves, dropped_out=lost)

    def disclosure(self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool) -> Disclosure:
        """Return what leaves a party: no column, the model, and what the method tells."""
        others = ", ".join(name for name in contract.parties if name != party)
        told = [f"{others}, the coordinator and the recipients: the model"]
        if contract.arrangement == "vertical":
            told.append(f"{others}: which of their own people all parties have, and how many records {party} has")
            if contract.class_name is not None and contract.class_from is None:
                told.append(f"{others}: whether {party}'s classes of the common records are the same as theirs")
        listed = [
            name for name in self.categories(contract, schema or Schema(())) if name in contract.columns_needed(party)
        ]
        if listed:
            told.append(f"{others}: the values that occur in {', '.join(listed)}, unless a taxonomy lists them")
        text = f"if {party} drops out: the others go on, and sums with and without it tell nearly what it had added"
        lost = [text] if self.drop_out == "go-on" else []
        judged = "the sums over all parties of how the model does on their records"
        return Disclosure(
            columns=(),
            class_column=None,
            peers_learn=(*told, *self.tells(contract, party), *lost),
            figures={
                "metrics": f"to the coordinator: {judged}" if self.evaluate else "none",
                "seconds": "to the coordinator: how long alignment and protocol took here",
                "bytes": "to the coordinator: how many bytes and messages were sent",
            },
            stays=(
                "every record, and every cell of it",
                "every other column, and its name",
                "counts and sums of this party alone, unless they are told above",
            ),
            protocol={"normalize": contract.normalize} if contract.arrangement == "vertical" else {},
        )

    def categories(self, contract: Contract, known: Schema) -> list[str]:
        """Return the columns with categories, the class last."""
        names = [name for name in attributes_of(contract) if name in known and self.is_category(known[name])]
        return names + ([contract.class_name] if contract.class_name is not None else [])


def _records(participant: Participant) -> Script[Table]:
    """Return this party's records: its own, or of those that all parties have, in the common order."""
    if participant.contract.arrangement == "horizontal":
        return participant.table
    rows = yield from find_common_rows(participant)
    refuse_nobody(participant.contract, rows)
    table = participant.table.take(rows)
    if (target := participant.contract.class_name) is not None and participant.contract.class_from is None:
        participant.before_showing()
        yield from insist_on_same_classes(participant.name, participant.contract, table.coded(target), len(table))
    return table


def alone_at(method: LearningMethod, contract: Contract, table: Table) -> Site:
    """Return the site that holds every column, and has nobody to agree with."""
    names = [each for each in method.categories(contract, table.schema) if each in table.arrow.column_names]
    agreed = frame.result_of(agree_on_values(0, contract.parties, table, names, method.min_records))
    if agreed.has_gaps:
        numbers = [each for each in table.schema.names if each not in names]
        table = frame.result_of(filled(table, numbers, 0, contract.parties, b"", pooled=True))
    return Site(contract.parties[0], contract, table, agreed.values, agreed.most_bits, contract.parties)


def complete_records(method: LearningMethod, contract: Contract, party: str, table: Table, missing: Missing) -> Table:
    """Return the records that a party learns from; DataError about cells that are wrong, or if no record is left.

    With "mean" the method fills in missing numbers of its attributes. What it predicts is never filled in.
    """
    if missing == "mean":
        attributes = attributes_of(contract)
        table = table.complete(name for name in table.arrow.column_names if name not in attributes)
    table = table.complete(table.arrow.column_names, missing)
    if not len(table):
        raise DataError.about(table.origin.name, "no complete row is left")
    held = contract.columns_needed(party)
    refuse_identifying(
        table, [name for name in method.categories(contract, table.schema) if name in held], method.min_records
    )
    roles = {column.name: column.role for column in contract.columns if column.role in OUTCOMES}
    for name in held:
        if name in roles:
            READERS[roles[name]](table, name)
            continue
        if name == contract.class_name or method.is_category(table.schema[name]):
            own_codes(table, name)
            continue
        largest = np.nanmax(np.abs(cells_of(table, name)), initial=0.0)
        if largest > _LARGEST or 0 < largest < 1 / _LARGEST:
            text = f"column {name} has numbers of size {largest:.0e}"
            allowed = f"between {1 / _LARGEST:.0e} and {_LARGEST:.0e}"
            raise DataError.about(table.origin.name, f"{text}; take a unit in which they are {allowed}")
    return table
