"""What would come of a request, in words: beside the form before it is sent, and after a refusal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from masquerade.arrangement import Arrangement
from masquerade.console.draft import RequestDraft, Wish, columns_of
from masquerade.console.elements import bullets, button, facts, folded, link, table, tag
from masquerade.console.guard import PREFIX
from masquerade.console.words import KINDS
from masquerade.jobs import ANOTHER_CLASS, DEFAULT_K, DIVERSITY, DescribedColumn, RoleProposal, propose_by_name
from masquerade.privacy import KAnonymity, LDiversity
from masquerade.service import ANY, ColumnCard, Provider, RequestPreview, SchemaCard, said_of_expected

Money = Callable[[int], str]

NOTHING_LIKE_IT = "Nothing like it was found that all of them would accept."

BINDS = (
    "The first release of these tables binds later ones: until a table changes, the parties release the same people"
    " again only in the same groups or in coarser ones. A release that you decline does not bind."
)


def draw_preview(
    shown: RequestPreview,
    problems: list[str],
    draft: RequestDraft,
    money: Money,
    reduce: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Draw what is to be fixed, what will be refused, and what happens if nobody objects.

    `reduce` changes the form to what would be accepted.
    """
    doubts = foreseen_refusals(shown, money)
    if problems:
        tag("h3", "Still to fix")
        with tag("div", look="problems"):
            bullets(problems)
    elif doubts:
        tag("p", "This can be sent, but as things stand it will not succeed:", "asked")
        bullets(doubts)
        if shown.changes:
            tag("h3", "What would be accepted")
            bullets(map(sentence, shown.changes))
            if reduce is not None:
                button("Change it to what is possible", reduce)
        elif shown.refusals:
            tag("p", NOTHING_LIKE_IT, "quiet")
    else:
        tag("p", "This can be sent.", "told")
    if shown.requirement:
        tag("h3", "Requirement")
        bullets(shown.requirement)
    if shown.expected is not None:
        limit = draft.content().get("most_ncp")
        most_ncp = float(limit) if isinstance(limit, int | float) else None
        tag("h3", "What to expect")
        bullets(said_of_expected(shown.expected, most_ncp))
    heading, lines = draft.view.contributors(shown)
    if lines:
        tag("h3", heading)
        bullets(lines)
    if shown.parties:
        tag("h3", "What will happen")
        if draft.has_groups and not shown.released_before:
            tag("p", BINDS, "asked")
        facts(
            [
                ("Purpose", draft.purpose.strip() or "–"),
                ("Price at most", f"{money(shown.price)}, of a budget of {money(shown.budget)}"),
                ("Not reachable now", ", ".join(shown.unreachable) or "nobody"),
                ("In the ledgers", _ledger(shown, draft)),
            ]
        )


def sentence(text: str) -> str:
    """Write what a party would say as a sentence of its own."""
    return f"{text[0].upper()}{text[1:]}."


def foreseen_refusals(shown: RequestPreview, money: Money) -> list[str]:
    """Say why a request that is complete would still come to nothing."""
    doubts: list[str] = []
    doubts += map(sentence, shown.refusals)
    if shown.refused_by and not shown.refusals:
        doubts.append(f"{', '.join(shown.refused_by)} will not allow this purpose. {_purposes(shown)}")
    if shown.price > shown.budget:
        doubts.append(f"It may cost {money(shown.price)}, and the budget is {money(shown.budget)}.")
    if shown.unreachable:
        whom = ", ".join(shown.unreachable)
        doubts.append(f"{whom} cannot be reached: the session waits for a while, then fails.")
    return doubts


def acceptable(shown: RequestPreview, money: Money) -> list[str]:
    """Say how a request that was refused would have to change, as far as the parties have published it."""
    lines = [str(each.at(source="")) for each in shown.errors]
    if shown.refused_by:
        lines.append(_purposes(shown))
    if shown.price > shown.budget:
        lines.append(f"A budget of {money(shown.price)} or more.")
    if shown.unreachable:
        lines.append(f"The same, once {', '.join(shown.unreachable)} can be reached again.")
    lines += map(sentence, shown.changes)
    if shown.released_before:
        lines.append(
            "What you were given of these tables before, or part of it: fewer columns, a larger k, a stricter"
            " requirement."
        )
    return lines


def _purposes(shown: RequestPreview) -> str:
    named = [each for each in shown.purposes if each != ANY]
    if named:
        return f"Purposes that all of them allow: {', '.join(named)}."
    return "They have no purpose in common: ask for the columns of fewer parties."


def _ledger(shown: RequestPreview, draft: RequestDraft) -> str:
    if not draft.has_groups:
        made = draft.chosen_method.makes.name
        return f"Each party notes the columns, the method and who gets the {made}, before anything leaves."
    each = "Each party notes the columns, the requirement and who gets them, before anything leaves."
    if shown.released_before:
        return f"{each} You were given a release of these tables before: you get the same, or one made of it alone."
    return each


# --- shared columns -----------------------------------------------------------------------------------------
# Columns that several parties hold, and whether the parties describe them alike.


@dataclass(frozen=True)
class Shared:
    """A column name, with its description by each party that holds it."""

    name: str
    holders: tuple[str, ...]
    cards: tuple[ColumnCard, ...]

    @property
    def is_alike(self) -> bool:
        """Whether kind, role and taxonomy are the same everywhere."""
        return len(set(self.cards)) == 1


def pooling(found: Sequence[Provider]) -> list[Provider]:
    """Return the parties with only those datasets that may be published together with others'."""
    kept = [
        each.model_copy(update={"datasets": tuple(card for card in each.datasets if card.horizontal)}) for each in found
    ]
    return [each for each in kept if each.datasets]


def by_name(found: Sequence[Provider]) -> list[Shared]:
    """Return every column once, in the order of parties and datasets."""
    held: dict[str, list[tuple[str, ColumnCard]]] = {}
    for each in found:
        for card in each.datasets:
            for column in card.columns:
                held.setdefault(column.name, []).append((each.party, column))
    return [
        Shared(name, tuple(dict.fromkeys(party for party, _ in cards)), tuple(card for _, card in cards))
        for name, cards in held.items()
    ]


def same_elsewhere(card: SchemaCard, found: Sequence[Provider]) -> dict[str, tuple[str, ...]]:
    """Return, by party, the columns described exactly as in this dataset, which could be published together."""
    same: dict[str, tuple[str, ...]] = {}
    for each in pooling(found) if card.horizontal else ():
        columns = {column for other in each.datasets for column in other.columns}
        names = tuple(column.name for column in card.columns if column in columns)
        if names and each.party != card.party:
            same[each.party] = names
    return same


# --- request proposals --------------------------------------------------------------------------------------
# A first draft of a request, proposed from the parties' cards alone: what `masquerade init` does with a table.
#
# A card has names, kinds and roles of columns and no value, so names decide (`jobs/drafts/roles.py`).


@dataclass(frozen=True)
class Proposed:
    """A column, who holds it, and the role proposed for it."""

    name: str
    holders: tuple[str, ...]
    proposal: RoleProposal

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
    cards = [each.cards[0] for each in shared]
    proposals = propose_by_name([DescribedColumn(card.name, card.kind, card.role) for card in cards])
    proposed = [Proposed(each.name, each.holders, proposal) for each, proposal in zip(shared, proposals, strict=True)]
    chosen = proposed_class(proposed)
    return [
        replace(each, proposal=RoleProposal("class", ANOTHER_CLASS))
        if each.proposal.role == "class" and each.name != chosen
        else each
        for each in proposed
    ]


def proposed_class(columns: Sequence[Proposed]) -> str:
    """Return the column to fill in as the class: the one that most parties know, since nobody has to share it then."""
    offered = [each for each in columns if each.proposal.role == "class"]
    return max(offered, key=lambda each: len(each.holders)).name if offered else ""


def proposed_draft(found: Sequence[Provider], kind: Arrangement) -> RequestDraft:
    """Return a draft that asks for the columns proposed, k-anonymous and diverse, and for a class if there is one."""
    draft = RequestDraft(columns_of(found), kind=kind)
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
                folded(summary, partial(_draw_columns, columns, kind))


def _is_enough(columns: Sequence[Proposed], kind: Arrangement) -> bool:
    """Return whether the columns that would be asked for come from two parties or more."""
    asked_for = [each for each in columns if each.is_asked_for]
    if KINDS[kind].every_party_holds_all:
        return bool(asked_for)
    return len({each.holders[0] for each in asked_for}) > 1


def _draw_columns(columns: Sequence[Proposed], kind: Arrangement | None = None) -> None:
    """Draw what is proposed; with a link that fills it in, of a `kind` that is offered."""
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
    if kind is not None:
        with tag("div", look="row"):
            link("Fill in this proposal", f"{PREFIX}/request?proposed={kind}", "act")
