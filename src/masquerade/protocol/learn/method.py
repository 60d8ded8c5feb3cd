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

What all have in common, `party` and `collector`, is in frame.py. The collector is no party; it learns the model and the
sums.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from masquerade.arrangement import ARRANGEMENTS, MODEL, Arrangement
from masquerade.crypto import Elements
from masquerade.data import Attribute, Schema
from masquerade.errors import Problem
from masquerade.forms import choice, parameter, switch
from masquerade.net import Message, Script
from masquerade.privacy import GroupRequirement
from masquerade.progress import OnStage, silent
from masquerade.protocol.contract import Contract
from masquerade.protocol.disclosure import Disclosure
from masquerade.protocol.learn import frame
from masquerade.protocol.learn.frame import DropOut, LearnedModel, as_counts, fewest
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.learn.models import Model
from masquerade.protocol.learn.site import Site, attributes_of
from masquerade.protocol.method import Assembly, Participant, Proposal, RoleName, SessionMethod

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
class Collection:
    """The collector of a session: what it knows besides what the parties hand in."""

    contract: Contract
    on_stage: OnStage = silent


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

    def build(self, collection: Collection) -> Script[Model | None]:
        """Run the collector's part before the models are handed in; by default it has none."""
        yield from ()
        return None

    def kept(self, site: Site, model: Model) -> bytes | None:
        """Return what this party must keep to itself to use the model; None where the model is all that is needed."""
        return None

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Return this party's summands of the counts by which the model is judged."""
        yield from ()
        return as_counts([])

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
            yield from self._refused_arrangement(proposal)
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
        elif 0 < n_parties <= fewest(n_parties):
            text = f"of {n_parties} parties {fewest(n_parties)} must be left, so that none may drop out"
            yield Problem(f'{text}; use "stop"', key=("drop_out",))

    def _refused_arrangement(self, proposal: LearningProposal) -> Iterator[Problem]:
        """Yield what it has against who holds what."""
        where = proposal.arrangement
        if where is not None and where not in self.arrangements:
            (possible,) = self.arrangements
            text = f"{self.name} needs parties that hold {ARRANGEMENTS[possible].columns}; these hold "
            yield Problem(text + ARRANGEMENTS[where].columns, key=("name",))

    def party(self, participant: Participant) -> Script[int]:
        """Take part. Return how many records this party had in the session."""
        return frame.party(self, participant)

    def among_parties(self, participant: Participant) -> Script[Model]:
        """Learn the model without a collector, for parties that need nobody to write it."""
        return frame.among_parties(self, participant)

    @property
    def outlives_parties(self) -> bool:
        """Whether the others may go on when a party is lost."""
        return self.drop_out != "stop"

    def assembler(self, assembly: Assembly) -> Script[Learned]:
        """Collect the parties' models."""
        return self.collector(Collection(assembly.contract, assembly.on_stage))

    def collector(self, collection: Collection) -> Script[Learned]:
        """Run the part of the collector, which is no party."""
        return frame.collector(self, collection)

    def learned_alone(self, site: Site) -> Learned:
        """Return the model of one table, with its metrics."""
        return frame.learned_alone(self, site)

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
        judged = "the sums over all parties of how the model does on their records"
        return Disclosure(
            columns=(),
            class_column=None,
            peers_learn=(*told, *self.tells(contract, party), *self._tells_of_drop_out(party)),
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

    def _tells_of_drop_out(self, party: str) -> Iterator[str]:
        if self.drop_out == "go-on":
            yield f"if {party} drops out: the others go on, and sums with and without it tell nearly what it had added"

    def categories(self, contract: Contract, known: Schema) -> list[str]:
        """Return the columns with categories, the class last."""
        names = [name for name in attributes_of(contract) if name in known and self.is_category(known[name])]
        return names + ([contract.class_name] if contract.class_name is not None else [])
