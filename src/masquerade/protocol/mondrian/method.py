"""Mondrian between parties that hold different columns of the same people: the method `mondrian` of a mashup.

What each role learns is in docs/leakage.md; `disclosure` says it for one contract.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masquerade.anonymize import (
    BY_CLASS,
    CHOICES,
    CLASS_FIRST,
    GAIN,
    INFORMATION_GAIN,
    MERGE_HELP,
    Choice,
    Merge,
    Mondrian,
    VerifiedRelease,
    by_priority,
    choice_named,
    insist,
    linked,
    priority,
    priority_problems,
    strict,
    weight_problems,
    without_class,
)
from masquerade.data import Schema
from masquerade.errors import Problem
from masquerade.forms import choice, optional, parameter
from masquerade.net import Script, kind_of
from masquerade.privacy import GroupRequirement, without_redundant
from masquerade.protocol.boundaries import untestable_within
from masquerade.protocol.contract import Contract
from masquerade.protocol.disclosure import Disclosure, disclosed_by_join
from masquerade.protocol.method import Assembly, Participant, Preference, Proposal, VerticalMethod
from masquerade.protocol.sensitive.checks import refuse_remote_sensitive, remote_parts, remote_qid

_WITHOUT_ACCOUNT = "many groups are bid for at once and scores stay hidden, so nobody can tell what each party gave"


def apart(parts: Sequence[GroupRequirement]) -> list[list[GroupRequirement]]:
    """Return the requirements that matter, those on QIDs with common attributes together; the others are cut apart."""
    return linked(without_redundant(parts))


@dataclass(frozen=True)
class JointMondrian(VerticalMethod):
    """Multidimensional cuts, each along the attribute of whichever party has the best one, with hidden scores."""

    name: ClassVar[str] = Mondrian.name
    summary: ClassVar[str] = Mondrian.summary
    boundaries = "records"
    activity: ClassVar[str] = "aligning and cutting"
    lacks: ClassVar[Mapping[str, str]] = {
        "adversary": _WITHOUT_ACCOUNT,
        "epsilon": _WITHOUT_ACCOUNT,
        "argmax": "its scores are always hidden",
        "workload": "a log is its requester's own, and where its queries cut is no term of a contract",
    }
    preferences: ClassVar[tuple[Preference, ...]] = (
        Preference(10, "cutting each group apart keeps most, and there is a class to cut for", {"choose": CLASS_FIRST}),
        Preference(20, "cutting each group apart keeps most"),
        # What was preferred before, so that parties can go on with a release that was made so.
        Preference(21, "a release was made so before, or no other is allowed", {"choose": INFORMATION_GAIN}),
    )

    choose: str = parameter(
        choice(*CHOICES),
        "certainty",
        help="which allowed cut is made: the one that lowers the certainty penalty most, the one along the widest "
        "attribute, the one that tells most about the class and then the one by certainty, or the one that tells most "
        "about the class throughout",
    )
    strict: bool = strict()
    priority: Mapping[str, float] | None = priority()
    merge: Merge | None = parameter(
        optional(choice("violating", "small")),
        None,
        help=f"{MERGE_HELP}; by default violating, or small where a requirement is on another party's sensitive values",
    )

    def fitted(self, parts: Sequence[GroupRequirement], m: int, class_name: str | None) -> Self:
        """Return the method as it is; raise where it needs a class that there is not."""
        insist(without_class(self.choose, class_name))
        if self.priority is not None:
            # The weights are known later, and judged by `refusals`.
            insist(priority_problems(self.priority, self.choose, class_name, (), None))
        return self

    def choice(
        self, contract: Contract, parts: Sequence[GroupRequirement], own: Sequence[str], n_classes: int, n_records: int
    ) -> Choice:
        """Return which cut along one of `own` is made, where cuts along all attributes of these QIDs compete."""
        if self.priority is None:
            return choice_named(self.choose, parts, n_records)
        names = {name for part in parts for name in part.qid}
        weights = {name: contract.weights.get(name, 1.0) for name in names}
        return by_priority(self.priority, [weights[name] for name in own], n_classes, max(weights.values()))

    @property
    def counts_classes(self) -> bool:
        """Whether cuts are chosen by the class."""
        return bool(self.priority.get(GAIN)) if self.priority is not None else self.choose in BY_CLASS

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Requirements on values elsewhere that cannot be tested, or whose QID shares attributes with another."""
        yield from super().refusals(proposal)
        yield from untestable_within(proposal)
        if self.priority is not None and proposal.schema is not None:
            qid = [name for part in proposal.parts for name in part.qid]
            yield from weight_problems(self.priority, qid, proposal.schema)
        if proposal.holder is None:
            return
        for at, text in refuse_remote_sensitive(proposal.parts, proposal.holder):
            yield Problem(text, key=("privacy", at))
        for parts in apart(proposal.parts):
            elsewhere = [part for part in parts if remote_qid(part, proposal.holder)]
            others = [part for part in parts if elsewhere and {*part.qid} != {*elsewhere[0].qid}]
            if others:
                text = (
                    f"{elsewhere[0].model} on {elsewhere[0].sensitive}, which "
                    f"{proposal.holder[str(elsewhere[0].sensitive)]} holds, is over {', '.join(elsewhere[0].qid)}; "
                    f"{others[0].model} over {', '.join(others[0].qid)} shares attributes with it: "
                    "make both QIDs the same, or use tds"
                )
                yield Problem(text, key=("name",))
        remote = [part for part in proposal.parts if remote_qid(part, proposal.holder)]
        if remote and self.merge == "violating" and not self.strict:
            part = remote[0]
            text = (
                f"which children violate {part.model} on {part.sensitive}, which "
                f"{proposal.holder[str(part.sensitive)]} holds, no other party may learn one by one; "
                'use merge = "small", or strict = true'
            )
            yield Problem(text, key=("merge",))

    def merging(self, contract: Contract) -> Merge:
        """Return which children stay together; the default depends on where sensitive values are."""
        return self.merge or ("small" if remote_parts(contract) else "violating")

    def off_engine(self, parts: Sequence[GroupRequirement]) -> str | None:
        """QIDs that share attributes, whose groups no chunk can hold whole."""
        if all(len({frozenset(part.qid) for part in each}) == 1 for each in apart(parts)):
            return None
        return "by mondrian each party cuts QIDs that share attributes in its own memory; tds counts them on an engine"

    def party(self, participant: Participant) -> Script[int]:
        """Align, share the class, cut, hand in."""
        from masquerade.protocol.mondrian.party import party

        return party(self, participant)

    def assembler(self, assembly: Assembly) -> Script[VerifiedRelease]:
        """Join the columns, verify, shuffle."""
        from masquerade.protocol.assembling import assemble

        return assemble(assembly, {"argmax": "secure"})

    def disclosure(self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool) -> Disclosure:
        """Who is common, who cut which group along which attribute, and the released columns."""
        others = ", ".join(name for name in contract.parties if name != party)
        learn = [f"{others}: of each group whether {party} has the best cut of it, not what its score is"]
        if remote_parts(contract) and any(column.holder == party for column in contract.qid_columns):
            learn.append(f"{others}: of each group whether a best cut of {party}'s was refused")
        if contract.qid_columns:
            learn.append(f"{others}: {party}'s cuts, as groups of the common records, and their attributes")
        if any(len({frozenset(part.qid) for part in parts}) > 1 for parts in apart(contract.parts)):
            learn.append(f"{others}: which groups have the same value of an attribute of {party}'s, not which value")
        chosen = {"choose": self.choose}
        if self.priority is not None:
            chosen = {"priority": ", ".join(f"{name} {share:g}" for name, share in self.priority.items())}
        return disclosed_by_join(
            contract,
            party,
            schema,
            learn,
            {**chosen, "strict": "yes" if self.strict else "no", "merge": self.merging(contract)},
            show_steps=show_steps,
            peers_see="which of the common records share a value (by number, without its name)",
        )

    def rounds(self, contract: Contract, sent: Sequence[str], steps: int) -> int:
        """Count the levels on which something was cut."""
        from masquerade.protocol.mondrian.levels import LevelCuts

        return sum(tag == kind_of(LevelCuts) for tag in sent)
