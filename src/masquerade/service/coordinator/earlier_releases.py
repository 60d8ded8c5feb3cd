"""A further release made from an earlier one: the parties sign it, and no protocol runs.

The parties' ledgers allow nothing else of a table that was released, because groups of two releases can be intersected.
What is published here follows from the earlier release alone (anonymize/rollup.py), so it shows nothing new to whoever
has that. The coordinator has it until it expires; then it can be made again from the same terms, and rolled up after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from masquerade.anonymize import CertainRecords, Provenance, VerifiedRelease, roll_up, with_marks
from masquerade.arrangement import ARRANGEMENTS
from masquerade.data import Attribute, Branch, Origin, Schema, Table, Taxonomy
from masquerade.errors import MasqueradeError, NotAllowed, Problem, RequirementUnreachable
from masquerade.methods import plain_method
from masquerade.privacy import Conjunction, GroupRequirement, KAnonymity, Requirement
from masquerade.service.agree.arrangements import THE_REQUEST
from masquerade.service.agree.signing import SignedContract
from masquerade.service.agree.terms import Terms
from masquerade.service.cards import ColumnCard
from masquerade.service.coordinator.context import Context
from masquerade.service.coordinator.publish import Assembled
from masquerade.service.coordinator.session_moves import contract_of, move
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord, StoredRelease


@dataclass(frozen=True)
class EarlierReleases:
    """The releases that are kept, and what can be made from them."""

    context: Context

    def lacking(self, source: str) -> str | None:
        """Say why the release of these terms cannot be rolled up; None when it is here and whole."""
        return None if self._kept(source) is not None else _gone(source)

    def rolled_up(self, contract: SignedContract) -> VerifiedRelease:
        """Make the release of a contract whose terms name a source; NotAllowed when that is gone."""
        terms = contract.deal.terms
        source = terms.source or ""
        release = self._kept(source)
        if release is None:
            raise NotAllowed(Problem(_gone(source), source=THE_REQUEST))
        earlier = contract_of(self.context.store.sessions.get(release.session)).deal.terms
        table = pq.read_table(self.context.files.table(release.table_path, "parquet"))
        requirement: Requirement = contract.contract.requirement
        # The requirements that the earlier release is not known to satisfy.
        covers = ARRANGEMENTS[terms.arrangement].covers
        stricter = [part for part in terms.parts if not any(covers(old, part) for old in earlier.parts)]
        if terms.m and stricter:
            known = _known_size(earlier, terms.m, stricter)
            table = with_marks(table, known.qid, known.k)
            requirement = Conjunction(
                [requirement, *(CertainRecords(part.qid, part.implied_size) for part in stricter)]
            )
        class_name = terms.class_name
        names = [column.name for column in terms.columns]
        summary = self.context.files.summary(release.table_path)
        cards = self._cards(earlier)
        return roll_up(
            Table(table, _schema(cards, summary), origin=Origin("the earlier release")),
            requirement,
            columns=names if class_name is None else list(dict.fromkeys([*names, class_name])),
            target=class_name,
            roots={card.name: card.taxonomy.root for card in cards if card.taxonomy and card.taxonomy.root},
            provenance=Provenance(
                settings={
                    "source": " and ".join(terms.parties),
                    "parties": list(terms.parties),
                    "contract": contract.hash.hex(),
                    "rolled_up_from": source,
                    "algorithm": plain_method(earlier.method),
                }
            ),
        )

    def _kept(self, source: str) -> StoredRelease | None:
        """Return the release of these terms, if its files are there."""
        release = self.context.store.releases.of_terms(source)
        try:
            if release is not None:
                self.context.files.table(release.table_path, "parquet")
                self.context.files.summary(release.table_path)
        except (MasqueradeError, OSError, ValueError):
            return None
        return release

    def _cards(self, earlier: Terms) -> list[ColumnCard]:
        """Return what the parties publish about the attributes of an earlier release."""
        found: dict[str, ColumnCard] = {}
        for provision in earlier.provisions:
            published = self.context.directory.published(provision.party)
            for each in published.datasets if published is not None else ():
                if each.card.dataset == provision.dataset:
                    found |= {card.name: card for card in each.card.columns if card.name not in found}
        return [found[each.name] for each in earlier.columns if each.role == "attribute" and each.name in found]


@dataclass
class RollUp:
    """One attempt of a session that is answered from an earlier release; see `run.Attempt`."""

    context: Context
    session: SessionRecord

    async def run(self) -> Assembled:
        """The verified release."""
        contract = contract_of(self.session)
        release = await asyncio.to_thread(EarlierReleases(self.context).rolled_up, contract)
        self.session = await move(self.context.store.sessions.advance, self.session, Status.ASSEMBLING)
        return Assembled(self.session, contract, release, {})


def _gone(source: str) -> str:
    return (
        f"could be rolled up from the earlier release ({source[:12]}…), but that is not kept here any more, or was "
        "never published; ask for its columns and its requirement once more, and then for this"
    )


def _known_size(earlier: Terms, m: int, stricter: Sequence[GroupRequirement]) -> KAnonymity:
    """Return what the earlier groups keep against colluding providers, from which larger groups' sizes follow.

    RequirementUnreachable where sizes are not all that is asked for, or are asked for over other columns: the release
    does not tell who provided which record, so nobody could check it.
    """
    wanted = {name for part in stricter for name in part.qid}
    sizes = [part for part in earlier.parts if isinstance(part, KAnonymity) and wanted <= {*part.qid}]
    if not sizes or not all(part.only_sizes for part in stricter):
        against = "any provider" if m == 1 else f"any {m} colluding providers"
        raise RequirementUnreachable(
            *(
                f"{part} against {against} cannot be shown by merging groups: the earlier release does not tell who "
                "provided which record"
                for part in stricter
            ),
            violated=tuple(map(str, stricter)),
        )
    return max(sizes, key=lambda part: part.k)


def _schema(cards: Iterable[ColumnCard], summary: Mapping[str, Any]) -> Schema:
    """Return what is known of the attributes: their kinds, and the trees that the specializations tell."""
    steps = summary.get("steps") or ()
    trees = {card.name: _tree(steps, card.name) for card in cards if card.kind == "categorical"}
    return Schema(Attribute(card.name, card.kind, trees.get(card.name)) for card in cards)


def _tree(steps: Iterable[Mapping[str, Any]], name: str) -> Taxonomy | None:
    """Return the part of a taxonomy above the released values, which are all below the value that was split first."""
    children = {step["value"]: step["children"] for step in steps if step["attribute"] == name}
    if not children:
        return None

    def grown(value: str) -> Branch:
        return Branch(value, tuple(grown(child) for child in children.pop(value, ())))

    return Taxonomy(grown(next(iter(children))), "the specializations")
