"""A first draft of a request, proposed from the parties' cards alone: what `masquerade init` does with a table.

A card has names, kinds and roles of columns and no value, so names decide (`job/draft/roles_by_name.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from masquerade.console.draft import Draft, Wish, columns_of
from masquerade.console.elements import folded, link, table, tag
from masquerade.console.guard import PREFIX
from masquerade.console.kinds import KINDS
from masquerade.console.shared_columns import by_name, pooling
from masquerade.job.draft.draft import DEFAULT_K, DIVERSITY
from masquerade.job.draft.roles_by_name import ANOTHER_CLASS, DescribedColumn, Proposal, propose_by_name
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.protocol.arrangement import Arrangement
from masquerade.service.card import ColumnCard
from masquerade.service.resources import Provider


@dataclass(frozen=True)
class Proposed:
    """A column, who holds it, and the role proposed for it."""

    name: str
    holders: tuple[str, ...]
    proposal: Proposal

    @property
    def is_asked_for(self) -> bool:
        """Whether the proposed request has it."""
        return self.proposal.role in ("quasi-identifier", "sensitive")


def proposed_columns(found: Sequence[Provider], kind: Arrangement) -> list[Proposed]:
    """Propose a role for each column that can be asked for; one of several parties is proposed once, of the first.

    Where every party must hold all columns, those that two parties or more hold and describe alike.
    """
    if KINDS[kind].every_party_holds_all:
        least = KINDS[kind].least_holders
        shared = [each for each in by_name(pooling(found)) if len(each.holders) >= least and each.is_alike]
    else:
        shared = by_name(found)
    proposals = propose_by_name([_described(each.cards[0]) for each in shared])
    proposed = [
        Proposed(each.name, each.holders, proposal) for each, proposal in zip(shared, proposals, strict=True)
    ]
    chosen = proposed_class(proposed)
    return [
        replace(each, proposal=Proposal("class", ANOTHER_CLASS))
        if each.proposal.role == "class" and each.name != chosen
        else each
        for each in proposed
    ]


def proposed_class(columns: Sequence[Proposed]) -> str:
    """Return the column to fill in as the class: the one that most parties know, since nobody has to share it then."""
    offered = [each for each in columns if each.proposal.role == "class"]
    return max(offered, key=lambda each: len(each.holders)).name if offered else ""


def proposed_draft(found: Sequence[Provider], kind: Arrangement) -> Draft:
    """Return a draft that asks for the columns proposed, k-anonymous and diverse, and for a class if there is one."""
    draft = Draft(columns_of(found), kind=kind)
    columns = proposed_columns(found, kind)
    wanted = [each for each in columns if each.is_asked_for]
    for each in wanted:
        if KINDS[kind].every_party_holds_all:
            draft.choose_by_name(each.name, True)
        else:
            draft.choose(next(one for one in draft.offered if one.name == each.name), True)
    draft.name_role("class", proposed_class(columns))
    qid = [each.name for each in wanted if each.proposal.role == "quasi-identifier"]
    draft.wishes = [Wish(KAnonymity.model, list(qid), {"k": str(DEFAULT_K)})]
    if LDiversity.model in draft.models:
        draft.wishes += [
            Wish(LDiversity.model, list(qid), {"l": str(DIVERSITY)}, each.name)
            for each in wanted
            if each.proposal.role == "sensitive"
        ]
    return draft


def draw_proposals(found: Sequence[Provider], filled_in: Arrangement | None) -> None:
    """Draw what is proposed of each kind, and why, with a link that fills it in; folded until it is filled in."""
    if filled_in is not None:
        with tag("section"):
            tag("h2", "Proposed, and why")
            tag("p", "The form below is filled in like this. Change what does not fit.", "quiet")
            _draw_columns(proposed_columns(found, filled_in))
        return
    offered = {
        kind: columns
        for kind in (view.name for view in KINDS.values())
        if _is_enough(columns := proposed_columns(found, kind), kind)
    }
    if offered:
        with tag("section"):
            for kind, columns in offered.items():
                title = KINDS[kind].title
                summary = f"A proposal to begin with: {title[0].lower()}{title[1:]}"
                folded(summary, partial(_draw_offer, kind, columns))


def _is_enough(columns: Sequence[Proposed], kind: Arrangement) -> bool:
    """Return whether the columns that would be asked for come from two parties or more."""
    asked_for = [each for each in columns if each.is_asked_for]
    if KINDS[kind].every_party_holds_all:
        return bool(asked_for)
    return len({each.holders[0] for each in asked_for}) > 1


def _draw_offer(kind: Arrangement, columns: Sequence[Proposed]) -> None:
    _draw_columns(columns)
    with tag("div", look="row"):
        link("Fill in this proposal", f"{PREFIX}/request?proposed={kind}", "act")


def _draw_columns(columns: Sequence[Proposed]) -> None:
    tag(
        "p",
        f"By what the columns are called and what their parties say of them; k = {DEFAULT_K} over all "
        f"quasi-identifiers, and {DIVERSITY} different values of what is sensitive in each group. Nobody has looked "
        "at a value.",
        "quiet",
    )
    table(
        "Proposed roles of the columns",
        ["Column", "Held by", "Proposed as", "Why"],
        [[each.name, ", ".join(each.holders), each.proposal.role, each.proposal.reason] for each in columns],
    )


def _described(card: ColumnCard) -> DescribedColumn:
    return DescribedColumn(card.name, card.kind, card.role)
