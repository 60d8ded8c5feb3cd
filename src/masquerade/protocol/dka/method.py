"""DkA as a method between parties: what it takes and shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from masquerade.anonymize import Datafly, Mondrian, VerifiedRelease, without_steps
from masquerade.data import Column, Schema
from masquerade.errors import Problem
from masquerade.forms import choice, parameter
from masquerade.net import Script, kind_of
from masquerade.privacy import GroupRequirement, without_redundant
from masquerade.protocol.contract import Contract
from masquerade.protocol.disclosure import Disclosure, disclosed_by_join
from masquerade.protocol.dka.anonymizers import ByMondrian, Descent, FullDomain
from masquerade.protocol.dka.checkpoint import Notebook
from masquerade.protocol.dka.side import BottomUpSide, DataflySide, Side, TopDownSide
from masquerade.protocol.method import Assembly, Participant, Proposal, VerticalMethod, proposal_of, refuse

# --- local algorithms ---------------------------------------------------------------------------------------
# The algorithms by which a party of DkA generalises its own columns: everything that `local` may say.


@dataclass(frozen=True)
class LocalAlgorithm:
    """How a side starts."""

    side: Callable[[Sequence[Column], int, int, bool], Side]  # of columns, records, k; and whether only sizes matter
    by_steps: bool = True  # whether attributes need taxonomies to climb along
    opens_chi: bool = False  # whether which records pass is opened, and not only whether all do


LOCAL_ALGORITHMS = {
    Datafly.name: LocalAlgorithm(
        lambda columns, n, k, only_sizes: DataflySide(columns, n, k, only_sizes=only_sizes), opens_chi=True
    ),
    "top-down": LocalAlgorithm(lambda columns, n, k, _: TopDownSide(Descent(columns, n, k), n, k)),
    "full-domain": LocalAlgorithm(lambda columns, n, k, _: BottomUpSide(FullDomain(columns, n, k), n, k)),
    Mondrian.name: LocalAlgorithm(
        lambda columns, n, k, _: BottomUpSide(ByMondrian(columns, n, k), n, k), by_steps=False
    ),
}


# --- method -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dka(VerticalMethod):
    """The framework of Jiang and Clifton, with one of several algorithms by which each party generalises its own."""

    name: ClassVar[str] = "dka"
    short_names: ClassVar[Mapping[str, Mapping[str, str]]] = {"dka-datafly": {"local": "datafly"}}
    summary: ClassVar[str] = (
        "the parties generalise their own columns in turn until their joint groups are large enough, and show nothing "
        "but which records pass, or only whether all do"
    )
    activity: ClassVar[str] = "aligning and generalising"
    resumes: ClassVar[bool] = True

    local: str = parameter(
        choice(*LOCAL_ALGORITHMS),
        "datafly",
        help="how each party generalises its own columns: datafly, record by record, opens which records pass in each "
        "round; full-domain (one level a column), mondrian (for numbers as they are) and top-down (from one group, "
        "step by step) open only whether all do",
    )

    join: str = parameter(
        choice("assembler", "parties"),
        "assembler",
        help="who joins the released columns: the assembler, which is no party, or the two parties under encryption, "
        "as in the paper; then both see the release, and nobody else sees the order of the records",
    )

    @property
    def algorithm(self) -> LocalAlgorithm:
        """The local algorithm."""
        return LOCAL_ALGORITHMS[self.local]

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Several QIDs, parties without an attribute in it; numbers that cannot climb; models without a circuit."""
        yield from super().refusals(proposal)
        parts = without_redundant(proposal.parts)
        if not parts:
            return
        if len({frozenset(part.qid) for part in parts}) > 1:
            yield _refusal("all requirements must be over the same QID")
        yield from _untestable(parts, proposal.holder)
        if self.join == "parties" and proposal.parties is not None and len(proposal.parties) > 2:
            yield Problem(
                f'{self.name}: join = "parties" takes two parties; got {len(proposal.parties)}', key=("join",)
            )
        if proposal.parties is not None and proposal.holder is not None:
            holders = {proposal.holder.get(name) for part in parts for name in part.qid}
            for name in proposal.parties:
                if name not in holders:
                    yield _refusal(f"each party holds at least one attribute of the QID; {name} has none")
        if proposal.schema is not None and self.algorithm.by_steps:
            yield from without_steps(f"{self.name} with local = {self.local}", parts, proposal.schema)

    def party(self, participant: Participant, notebook: Notebook | None = None) -> Script[int]:
        """Align, play the rounds, hand in."""
        from masquerade.protocol.dka.party import dka_party

        refuse(self.refusals(proposal_of(participant.contract)))
        among = self.join == "parties"
        return (yield from dka_party(participant, self.algorithm, join_among_parties=among, notebook=notebook))

    def assembler(self, assembly: Assembly) -> Script[VerifiedRelease]:
        """Join the columns unless the parties have, verify, shuffle."""
        from masquerade.protocol.assembling import already_joined, assemble, side_by_side

        return assemble(assembly, join=already_joined if self.join == "parties" else side_by_side)

    def disclosure(self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool) -> Disclosure:
        """Who is common, which records pass in each round or whether all do, and the released columns."""
        others = ", ".join(name for name in contract.parties if name != party)
        what = "which of the common records are" if self.algorithm.opens_chi else "whether all common records are"
        good = "of k or more" if all(part.only_sizes for part in contract.parts) else "that satisfies"
        learn = [f"{others}: in each round {what} in a joint group {good}"]
        among = self.join == "parties"
        return disclosed_by_join(contract, party, schema, learn, {}, show_steps=False, among_parties=among)

    def rounds(self, contract: Contract, sent: Sequence[str], steps: int) -> int:
        """Count how often the parties opened which records pass, or whether all do."""
        from masquerade.protocol.dka.side import ChiShare

        return list(sent).count(kind_of(ChiShare))


def _untestable(parts: Sequence[GroupRequirement], holder: Mapping[str, str] | None) -> Iterator[Problem]:
    """Refuse requirements that no circuit judges from the counts of one group, held by one party."""
    for part in parts:
        if part.only_sizes:
            continue
        if not part.has_circuit or part.compares_with_whole:
            yield _refusal(f"{part.model} cannot be tested on shared counts of one group alone")
        elif max(each.implied_size for each in parts) < 2:
            yield _refusal(f"{part.model} needs groups of at least two records; add k-anonymity over the same QID")
        elif holder is not None and part.sensitive not in holder:
            yield _refusal(f"{part.model} needs a sensitive column of one party; nobody contributes {part.sensitive}")


def _refusal(text: str) -> Problem:
    return Problem(f"{Dka.name}: {text}", key=("name",))
