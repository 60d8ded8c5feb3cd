"""The parts of a session's page, each drawn from what is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from masquerade.console.course import STEPS, Course, step_tree
from masquerade.console.elements import bullets, drawing, facts, folded, table, tag
from masquerade.console.wording import STATUS, moment, money, number, requirement, short, size
from masquerade.report.charts import tree_chart
from masquerade.service.store import Offer, Session
from masquerade.service.store.states import Status


def draw_stepper(session: Session, course: Course) -> None:
    """The states on the way to a release; where another state is the end, it stands after the last one reached."""
    steps = list(STEPS)
    now = session.status
    if now is Status.AWAITING_CLIENT:
        steps.insert(-1, now)
    elif now not in steps:
        passed = [steps.index(each) for each in course.reached if each in steps]
        steps = [*steps[: max(passed, default=0) + 1], now]
    place = steps.index(now)
    with tag("ol", look="stepper", aria_label="Where the session stands"):
        for position, step in enumerate(steps):
            look = "past" if position < place or now is Status.PUBLISHED else ""
            if step is now and step.final and step is not Status.PUBLISHED:
                look = "ended"
            tag("li", STATUS[step], look, aria_current="step" if step is now else None)


def draw_progress(course: Course) -> None:
    """How far each party is."""
    rows = [
        [
            party,
            str(each.get("stage") or "–"),
            number(each.get("round", 0)),
            size(float(each.get("bytes_sent") or 0)),
            number(each.get("messages", 0)),
            f"{float(each.get('seconds') or 0):.1f} s",
        ]
        for party, each in sorted(course.progress.items())
    ]
    table(
        "Progress by party",
        ["Party", "Stage", "Rounds", "Sent", "Messages", "Time"],
        rows,
        numbers=(2, 3, 4, 5),
    )


def draw_trees(course: Course) -> None:
    """The taxonomies as far as the steps told them, with the cut where it is now."""
    tag(
        "p",
        "What was split so far. The dashed line is the cut: values to its left are what a release shows.",
        "quiet",
    )
    for attribute, steps in course.steps.items():
        with tag("div", look="tree-card"):
            splits = f"{len(steps)} split{'' if len(steps) == 1 else 's'}"
            tag("h3", f"{attribute}, of {course.holders[attribute]}: {splits}")
            drawing(tree_chart(step_tree(steps), title=f"{attribute}: the cut after {splits}", total=0))


def draw_offers(offers: Sequence[Offer], course: Course) -> None:
    """Every party's answer, round by round, with the counter-offers between them."""
    if not offers:
        tag("p", "No party has answered yet.", "quiet")
    for turn, answers in groupby(offers, key=lambda offer: offer.round):
        with tag("div", look="round"):
            tag("h3", f"Round {turn}")
            table(
                f"Answers in round {turn}",
                ["Party", "Answer", "Price at most", "What it insists on, or why not"],
                [[each.party, _answer(each), _price(each), _why(each)] for each in answers],
                numbers=(2,),
            )
            counter = course.counters.get(turn)
            if counter is not None:
                tag("p", f"Counter-offer to all, at most {money(int(counter.get('price') or 0))}:", "quiet")
                bullets(_said(counter.get("requirements")))


def draw_contract(session: Session) -> None:
    """What all signed, folded."""
    if session.contract is None:
        return
    contract = session.contract

    def text() -> None:
        facts([("Terms", short(session.terms_hash)), ("Contract", short(session.contract_hash))])
        tag(
            "pre",
            json.dumps(contract, indent=2, ensure_ascii=False),
            tabindex="0",
            role="region",
            aria_label="Contract",
        )

    folded("The contract that all parties signed", text)


def draw_request(session: Session) -> None:
    """The request, in words."""
    asked = session.request
    pairs: list[tuple[str, object]] = [
        ("Columns", ", ".join(asked.get("attributes") or ())),
        ("Class", asked.get("class") or "none"),
        ("Budget", money(int(asked.get("budget") or 0))),
        ("Largest classification error", asked.get("most_error") or "any"),
        ("Protocol", f"{asked.get('adversary', 'semi-honest')}, {asked.get('argmax', 'secure')} comparison"),
        ("Steps", "shown, where all parties allow it" if asked.get("show_steps") else "not shown"),
    ]
    facts(pairs)
    wished = asked.get("privacy") or ()
    tag("h3", "Wished requirement")
    if wished:
        bullets([requirement(each) for each in wished])
    else:
        tag("p", "None beside the parties' own.", "quiet")


def draw_lines(course: Course) -> None:
    """What happened, the newest first."""
    with tag("ul", look="log"):
        for time, words in reversed(course.lines):
            with tag("li"):
                tag("span", f"{moment(time)} ", "quiet")
                tag("span", words)


def _answer(offer: Offer) -> str:
    return "refuses" if offer.reasons else "offers"


def _price(offer: Offer) -> str:
    return "–" if offer.reasons else money(offer.price_cents)


def _why(offer: Offer) -> Any:
    lines = list(offer.reasons) or _said(offer.terms.get("requirements"))
    return (lambda: bullets(lines)) if lines else "–"


def _said(requirements: Any) -> list[str]:
    """Requirements that are written out, or said already."""
    return [each if isinstance(each, str) else requirement(each) for each in requirements or ()]
