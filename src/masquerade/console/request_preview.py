"""What would come of a request, in words: beside the form before it is sent, and after a refusal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from masquerade.console.draft import Draft
from masquerade.console.elements import bullets, button, facts, tag
from masquerade.service.expectation import said_of_expected
from masquerade.service.policy import ANY
from masquerade.service.resources import RequestPreview

Money = Callable[[int], str]

NOTHING_LIKE_IT = "Nothing like it was found that all of them would accept."

BINDS = (
    "The first release of these tables binds later ones: until a table changes, the parties release the same people"
    " again only in the same groups or in coarser ones. A release that you decline does not bind."
)


def draw_preview(
    shown: RequestPreview,
    problems: list[str],
    draft: Draft,
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


def _ledger(shown: RequestPreview, draft: Draft) -> str:
    if not draft.has_groups:
        made = draft.chosen_method.makes.name
        return f"Each party notes the columns, the method and who gets the {made}, before anything leaves."
    each = "Each party notes the columns, the requirement and who gets them, before anything leaves."
    if shown.released_before:
        return f"{each} You were given a release of these tables before: you get the same, or one made of it alone."
    return each
