"""DkA-Datafly: two parties anonymise their join without a third, by the joint histogram of their groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from masquerade.anonymize.datafly import without_steps
from masquerade.anonymize.release import Release
from masquerade.data.schema import Schema
from masquerade.errors import Problem
from masquerade.net.script import Script, kind_of
from masquerade.privacy.requirement import without_redundant
from masquerade.protocol.contract import Contract
from masquerade.protocol.disclosure import Disclosure, disclosed_by_join
from masquerade.protocol.method import Arrangement, Assembly, Proposal, Seat, SessionMethod


@dataclass(frozen=True)
class DkaDatafly(SessionMethod):
    """The framework of Jiang and Clifton with Datafly at both parties."""

    name: ClassVar[str] = "dka-datafly"
    summary: ClassVar[str] = (
        "two parties generalise their own columns in turn until their joint groups are large enough, and show nothing "
        "but which records pass"
    )
    arrangement: ClassVar[Arrangement] = "vertical"
    most_parties: ClassVar[int | None] = 2
    activity: ClassVar[str] = "aligning and generalising"
    resumes: ClassVar[bool] = True

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Anything but two parties with one k over attributes of both, generalised step by step."""
        if proposal.parties is not None and len(proposal.parties) != 2:
            yield _refusal(f"takes exactly two parties; got {len(proposal.parties)}")
        parts = without_redundant(proposal.parts)
        if not parts:
            return
        if len(parts) > 1 or not parts[0].only_sizes:
            models = ", ".join(part.model for part in parts)
            yield _refusal(f"takes one k-anonymity requirement over one QID; got {models}")
        if proposal.parties is not None and proposal.holder is not None:
            holders = {proposal.holder.get(name) for part in parts for name in part.qid}
            for name in proposal.parties:
                if name not in holders:
                    yield _refusal(f"each party holds at least one attribute of the QID; {name} has none")
        if proposal.schema is not None:
            yield from without_steps(self.name, parts, proposal.schema)

    def party(self, seat: Seat) -> Script[int]:
        """Align, play the rounds, hand in."""
        from masquerade.protocol.dka.party import dka_party

        return dka_party(seat)

    def assembler(self, assembly: Assembly) -> Script[Release]:
        """Join the columns, verify, shuffle."""
        from masquerade.protocol.assemble import assemble

        return assemble(assembly)

    def disclosure(
        self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool
    ) -> Disclosure:
        """Who is common, which records pass in each round, and the released columns."""
        others = ", ".join(name for name in contract.parties if name != party)
        learn = [f"{others}: in each round which of the common records are in a joint group of k or more"]
        return disclosed_by_join(contract, party, schema, learn, {}, show_steps=False)

    def rounds(self, contract: Contract, sent: Sequence[str], steps: int) -> int:
        """Count how often the parties opened which records pass."""
        from masquerade.protocol.dka.datafly import ChiShare

        return list(sent).count(kind_of(ChiShare))


def _refusal(text: str) -> Problem:
    return Problem(f"{DkaDatafly.name}: {text}", key=("name",))
