"""The parts of a session's page, each drawn from data already loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, get_args

from masquerade.arrangement import chosen_lines
from masquerade.console.elements import bullets, drawing, facts, folded, table, tag
from masquerade.console.session_progress import STEPS, SessionProgress, step_tree
from masquerade.console.words import (
    STATUS,
    THIRD_PARTIES,
    asked_method,
    asked_product,
    kind_of,
    moment,
    number,
    requirement,
    short,
    size,
)
from masquerade.methods import described
from masquerade.protocol import RoleName
from masquerade.report import tree_chart
from masquerade.service import KEPT, LOSSES, QUALITY_TERMS, PartyOffer, SessionRecord, Status, against, why_waits


def draw_stepper(session: SessionRecord, progress: SessionProgress) -> None:
    """Draw the states on the way to a release; any other final state follows the last one reached."""
    steps = list(STEPS)
    now = session.status
    if now is Status.AWAITING_CLIENT:
        steps.insert(-1, now)
    elif now not in steps:
        passed = [steps.index(each) for each in progress.reached if each in steps]
        steps = [*steps[: max(passed, default=0) + 1], now]
    place = steps.index(now)
    with tag("ol", look="stepper", aria_label="Where the session stands"):
        for position, step in enumerate(steps):
            look = "past" if position < place or now is Status.PUBLISHED else ""
            if step is now and step.final and step is not Status.PUBLISHED:
                look = "ended"
            tag("li", STATUS[step], look, aria_current="step" if step is now else None)


def draw_progress(progress: SessionProgress, counted: str) -> None:
    """Draw each party's progress; `counted` says what its rounds count."""
    rows = [
        [
            party,
            str(each.get("doing") or "–"),
            number(each.get("round", 0)),
            size(float(each.get("bytes_sent") or 0)),
            number(each.get("messages", 0)),
            f"{float(each.get('seconds') or 0):.1f} s",
        ]
        for party, each in sorted(progress.by_party.items())
    ]
    table("Progress by party", ["Party", "Stage", counted, "Sent", "Messages", "Time"], rows, numbers=(2, 3, 4, 5))


def kind_facts(session: SessionRecord) -> list[tuple[str, object]]:
    """Return the kind of session, and what is agreed in sessions of this kind alone."""
    kind, terms = kind_of(session.request), _agreed(session.contract)
    told: list[tuple[str, object]] = [("Kind", kind.title)]
    if (method := terms.get("method")) is not None:
        told.append(("Agreed method", described(method)))
    if (choice := _deal(session.contract).get("choice")) is not None:
        told.append(("Chosen", "; ".join(chosen_lines(choice))))
    if (source := terms.get("source")) is not None:
        told.append(("Made from", f"an earlier release of the same tables, rolled up ({short(source)})"))
    return [*told, *kind.agreed(session.request, terms)]


def draw_warnings(warnings: Sequence[str]) -> None:
    """Draw what to know of a release before using it."""
    if warnings:
        tag("p", "Before using it:", "quiet")
        bullets(warnings)


def draw_who_sees(session: SessionRecord) -> None:
    """Draw who sees records, if a third party is involved."""
    third_party = str(asked_method(session.request).get("third_party"))
    if third_party in THIRD_PARTIES:
        tag("p", THIRD_PARTIES[third_party][1], "quiet")


def _agreed(contract: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the agreed terms; empty before there is a contract."""
    return _deal(contract).get("terms") or {}


def _deal(contract: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (contract or {}).get("deal") or {}


def draw_trees(progress: SessionProgress) -> None:
    """Draw the part of each taxonomy that the steps revealed, with the current cut."""
    tag("p", "What was split so far. The dashed line is the cut: values to its left are what a release shows.", "quiet")
    for attribute, steps in progress.steps.items():
        with tag("div", look="tree-card"):
            splits = f"{len(steps)} split{'' if len(steps) == 1 else 's'}"
            tag("h3", f"{attribute}, of {progress.holders[attribute]}: {splits}")
            drawing(tree_chart(step_tree(steps), title=f"{attribute}: the cut after {splits}", total=0))


def draw_offers(offers: Sequence[PartyOffer], progress: SessionProgress, money: Callable[[int], str]) -> None:
    """Draw every party's answer, round by round, with the counter-offers in between."""
    if not offers:
        tag("p", "No party has answered yet.", "quiet")
    for turn, answers in groupby(offers, key=lambda offer: offer.round):
        with tag("div", look="round"):
            tag("h3", f"Round {turn}")
            table(
                f"Answers in round {turn}",
                ["Party", "Answer", "Price at most", "What it insists on, or why not"],
                [_answer(each, money) for each in answers],
                numbers=(2,),
            )
            counter = progress.counters.get(turn)
            if counter is not None:
                tag("p", f"Counter-offer to all, at most {money(int(counter.get('price') or 0))}:", "quiet")
                bullets(_said(counter.get("requirements")))


def draw_contract(session: SessionRecord) -> None:
    """Draw the signed contract, folded."""
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


def draw_request(session: SessionRecord, money: Callable[[int], str]) -> None:
    """Draw the request in words."""
    asked = session.request
    has_groups = asked_product(asked).has_groups
    terms = QUALITY_TERMS if has_groups else ()
    roles = [(role.capitalize(), asked[role]) for role in get_args(RoleName) if asked.get(role)]
    facts(
        [
            ("Columns", ", ".join(asked.get("attributes") or ())),
            *(roles or [("Class", "none")]),
            ("Budget", money(int(asked.get("budget") or 0))),
            *((f"Largest {term.name}", asked.get(term.key) or "any") for term in terms),
            *kind_of(asked).asked(asked),
            ("Method", described(asked_method(asked))),
        ]
    )
    if not has_groups:
        return
    wished = asked.get("privacy") or ()
    tag("h3", "Wished requirement")
    if wished:
        bullets([requirement(each) for each in wished])
    else:
        tag("p", "None beside the parties' own.", "quiet")


def draw_lines(progress: SessionProgress) -> None:
    """Draw the log of events, newest first."""
    with tag("ul", look="log"):
        for time, words in reversed(progress.lines):
            with tag("li"):
                tag("span", f"{moment(time)} ", "quiet")
                tag("span", words)


def _answer(offer: PartyOffer, money: Callable[[int], str]) -> list[object]:
    lines = list(offer.reasons) or [*_said(offer.terms.get("requirements")), *against(int(offer.terms.get("m") or 0))]
    answer, price = ("refuses", "–") if offer.reasons else ("offers", money(offer.price_cents))
    return [offer.party, answer, price, (lambda: bullets(lines)) if lines else "–"]


def _said(requirements: Any) -> list[str]:
    """Describe requirements in words; those that already are texts stay as they are."""
    return [each if isinstance(each, str) else requirement(each) for each in requirements or ()]


def draw_held(told: Mapping[str, Any], money: Callable[[int], str]) -> None:
    """Draw why a release waits for its client, what it has lost, and what it costs."""
    losses, kept = dict(told.get(LOSSES) or {}), dict(told.get(KEPT) or {})
    whole = (line if line.split()[0] in losses else f"{line[0].upper()}{line[1:]}" for line in why_waits(told))
    bullets([f"{line}." for line in whole])
    if losses:
        rows = [
            (name, f"{loss:.0%}", f"{kept[name]:.0%}" if name in kept else "–")
            for name, loss in sorted(losses.items(), key=lambda each: (-each[1], each[0]))
        ]
        columns = ["Column", "Detail lost", "Information kept"]
        table("What each column lost", columns, rows, numbers=(1, 2))
    figures = [
        ("Rows", number(told["rows"]) if told.get("rows") is not None else None),
        ("Cost", money(int(told["cost"])) if told.get("cost") is not None else None),
    ]
    facts([(name, text) for name, text in figures if text is not None])
