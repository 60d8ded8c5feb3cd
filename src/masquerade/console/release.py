"""A published release: figures, the requirements and whether they hold, cost, downloads, the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from masquerade.arrangement import MODEL, Product, product_in, product_of
from masquerade.console.elements import bullets, copied, drawing, facts, link, table, tag
from masquerade.console.frame import View, page
from masquerade.console.guard import PREFIX
from masquerade.console.session_parts import draw_warnings
from masquerade.console.words import moment, number, share, short
from masquerade.methods import learning_methods
from masquerade.privacy import REQUIREMENTS
from masquerade.protocol import LearningMethod
from masquerade.report import LEADS, METRICS, MODEL_METRICS, attack_title, curves_of, drawings, ratio_chart
from masquerade.service import QUALITY_TERMS, StoredRelease, missed_levels

# --- joint keys ---------------------------------------------------------------------------------------------
# Published ratios of joint keys: each with its meaning in one sentence, on the page of a release.


def draw_ratios(summary: Mapping[str, Any]) -> None:
    """Draw the ratios of a summary."""
    answers = summary.get("ratios") or []
    with tag("section"):
        tag("h2", "Ratios")
        tag("p", LEADS.get(summary.get("measure", "distinct"), ""), "quiet")
        drawing(ratio_chart(answers))
        table(
            "Each set of columns, its ratio and what it means",
            ["Columns", "Ratio", "Meaning"],
            [[", ".join(each["key"]), number(each["ratio"]), each["meaning"]] for each in answers],
            numbers=(1,),
        )


# --- model --------------------------------------------------------------------------------------------------
# A published model: how good it is, and the model drawn, on the page of a release.


def method_of_model(summary: Mapping[str, Any]) -> type[LearningMethod] | None:
    """Return the method by which the model of a summary was learned; None if only another version has it."""
    return learning_methods().get(str((summary.get("algorithm") or {}).get("name")))


def draw_model(summary: Mapping[str, Any]) -> None:
    """Draw the model of a summary, and its figures; a table's summary has none."""
    metrics = summary.get("metrics") or {}
    rows = [
        [name, number(value), MODEL_METRICS.get(name, "")]
        for name, value in metrics.items()
        if isinstance(value, int | float)
    ]
    lead = f"Measured on {metrics.get('on')}: on others it may do worse."
    _draw_figures("How good it is", lead, "Figures of the model", ["Figure", "Value", "Meaning"], rows)
    method = method_of_model(summary)
    if method is None:  # learned by another version
        return
    model = method.learns.read(summary["model"])
    for section in (*drawings(model), *curves_of(summary.get("curves") or {})):
        with tag("section"):
            tag("h2", section.name)
            tag("p", section.lead, "quiet")
            drawing(section.chart)
            if section.rows:
                numbers = tuple(range(1, len(section.head)))
                table(section.name, list(section.head), [list(row) for row in section.rows], numbers=numbers)


# --- release risks ------------------------------------------------------------------------------------------
# What could still go wrong with a published release: what somebody gets who has it and nothing else.


def draw_risks(summary: Mapping[str, Any]) -> None:
    """Draw the attacks that were played on the release when it was published; releases of before have none."""
    attacks = summary.get("attacks") or []
    lead = (
        "What somebody gets who has this table and nothing else. The report shows it by what is known of a person; "
        "masquerade attack goes on with an outside table, or an earlier release."
    )
    rows = [[attack_title(each["name"]), number(each["value"]), each["meaning"]] for each in attacks]
    _draw_figures("What could still go wrong", lead, "Attacks on the release", ["Attack", "Figure", "Meaning"], rows)


# --- release ------------------------------------------------------------------------------------------------


@page("/sessions/{session_id}/release", "Release")
async def release_page(view: View) -> None:
    """Draw the release page, for the client and the recipients."""
    session_id = view.parameters["session_id"]
    release = await view.ask(view.coordinator.release, session_id)
    summary = await view.ask(view.coordinator.summary, session_id)
    here = f"{PREFIX}/sessions/{session_id}"
    made = product_of(Path(release.table_path).name)
    if not made.has_groups:
        _draw_other_page(made, view, release, summary, here)
        return
    tag("h1", f"Release of session {short(session_id)}")
    requirements = summary.get("requirements") or []
    if all(each.get("holds") for each in requirements):
        tag("p", "Every requirement was checked again before the table was published, and holds.", "told")
    else:
        tag("p", "A requirement does not hold.", "problems")
    draw_warnings(summary.get("warnings") or ())
    if missed := missed_levels(summary.get("service_levels") or {}):
        tag("p", "Service levels of the contract that were not met:", "quiet")
        bullets(missed)
    cost = summary.get("cost") or {}
    facts(
        [
            ("Rows", number(release.rows)),
            ("Groups", number(summary.get("groups"))),
            ("Unique records", number(summary.get("unique"))),
            ("Suppressed rows", number(summary.get("suppressed") or 0)),
            *_quality(summary.get("quality") or {}),
            ("Cost", view.money(int(cost.get("total") or 0))),
        ],
        "figures",
    )
    with tag("div", look="row"):
        link("Download as CSV", f"{here}/table.csv", "act first", download="")
        link("Download as Parquet", f"{here}/table.parquet", "act", download="")
        link("Open the report", f"{here}/report.html", "act", target="_blank", rel="noopener")
        link("Download the report", f"{here}/report.html?keep=1", "act", download="")
    _draw_requirements(requirements)
    _draw_providers(summary)
    draw_risks(summary)
    _draw_metrics(summary)
    _draw_cost(cost, view.money)
    _draw_more(release, here, summary)


def _draw_other_page(made: Product, view: View, release: StoredRelease, summary: Mapping[str, Any], here: str) -> None:
    """Draw the model that a session has learned, or the ratios that it has answered with."""
    if made is MODEL:
        title, first, draw = "Model", "Download the model", draw_model
        method = method_of_model(summary)
        kept = f" {method.of_records}" if method is not None else ""
        lead = f"The parties learned this model together.{kept}"
        name = str((summary.get("algorithm") or {}).get("name"))
        told = [("Method", name), ("Records", number(summary.get("records")))]
    else:
        title, first, draw = "Joint keys", "Download the ratios", draw_ratios
        lead = "The parties counted together. No record and no column left its owner."
        told = [
            ("Measure", f"{summary.get('measure')} ratio"),
            ("Common records", number(summary.get("common_records"))),
            ("Compared", number(summary.get("sampled") or summary.get("common_records"))),
            ("Rounded down to", str(summary.get("precision") or "not rounded")),
        ]
    cost = summary.get("cost") or {}
    tag("h1", f"{title} of session {short(release.session)}")
    tag("p", lead, "told")
    facts([*told, ("Cost", view.money(int(cost.get("total") or 0)))], "figures")
    with tag("div", look="row"):
        link(first, f"{here}/table.json", "act first", download="")
        link("Open the report", f"{here}/report.html", "act", target="_blank", rel="noopener")
        link("Download the report", f"{here}/report.html?keep=1", "act", download="")
    draw(summary)
    _draw_cost(cost, view.money)
    _draw_more(release, here, summary)


def _quality(quality: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the figures that a request may limit, as far as they were measured."""
    return [
        (
            f"{term.name[0].upper()}{term.name[1:]}",
            share(quality[term.figure]) if term.is_share else number(quality[term.figure]),
        )
        for term in QUALITY_TERMS
        if quality.get(term.figure) is not None
    ]


def _draw_requirements(requirements: list[Mapping[str, Any]]) -> None:
    with tag("section"):
        tag("h2", "Requirements")
        table(
            "Requirements and the worst group of each",
            ["Model", "Over", "Parameters", "Worst group", "Holds"],
            [
                [
                    each.get("model", "?"),
                    ", ".join(each.get("qid") or ()),
                    _parameters(each),
                    partial(_worst, each),
                    "yes" if each.get("holds") else "no",
                ]
                for each in requirements
            ],
            numbers=(3,),
        )


def _worst(entry: Mapping[str, Any]) -> None:
    """Draw the worst group's figure and its unit: records, values, providers, …"""
    with tag("div"):
        tag("div", number(entry.get("value")))
        model = REQUIREMENTS.get(str(entry.get("model")))
        tag("div", model.figure_meaning if model is not None else "", "quiet small")


def _parameters(entry: Mapping[str, Any]) -> str:
    if "of" in entry:  # m-privacy wraps other requirements
        wrapped = "; ".join(f"{each.get('model')} ({_parameters(each)})" for each in entry["of"])
        return f"m = {entry.get('m')}, of {wrapped}"
    told = ("model", "qid", "holds", "value", "groups")
    return ", ".join(f"{key} = {value}" for key, value in entry.items() if key not in told and value is not None)


def _draw_providers(summary: Mapping[str, Any]) -> None:
    """Draw how many providers share each group, if there were several providers."""
    groups, m = summary.get("groups_by_providers") or {}, summary.get("m")
    who = "any provider takes its own" if m == 1 else f"any {m} providers together take their own"
    lead = f"In each group the records of the others still satisfy the requirements when {who} records out."
    rows = [
        [f"{fed} provider{'' if int(fed) == 1 else 's'}", number(count)]
        for fed, count in sorted(groups.items(), key=lambda entry: int(entry[0]))
    ]
    caption = "Groups by how many providers have records in them"
    _draw_figures("Groups and providers", lead if m else "", caption, ["With records of", "Groups"], rows)


def _draw_metrics(summary: Mapping[str, Any]) -> None:
    metrics = [
        (name, value) for name, value in (summary.get("metrics") or {}).items() if not isinstance(value, Mapping)
    ]
    rows = [[name.replace("_", " "), number(value), METRICS.get(name, "")] for name, value in metrics]
    _draw_figures("What was kept", "", "Metrics of the release", ["Metric", "Value", "Meaning"], rows)


def _draw_cost(cost: Mapping[str, Any], money: Callable[[int], str]) -> None:
    rows = [[party, money(int(cents))] for party, cents in sorted((cost.get("parties") or {}).items())]
    _draw_figures("Cost", "", "Cost by party", ["Party", "Charged"], rows)


def _draw_figures(title: str, lead: str, caption: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Draw a table whose second column is a number; nothing where there are none."""
    if rows:
        with tag("section"):
            tag("h2", title)
            if lead:
                tag("p", lead, "quiet")
            table(caption, columns, rows, numbers=(1,))


def _draw_more(release: StoredRelease, here: str, summary: Mapping[str, Any]) -> None:
    made, source = product_in(summary), summary.get("rolled_up_from")
    rolled_up = f"an earlier release of the same tables, rolled up ({short(str(source))})"
    with tag("section"):
        tag("h2", "This release" if made.has_groups else f"This {made.name}")
        facts(
            [
                ("Published", moment(release.published)),
                ("Kept until", moment(release.expires)),
                (
                    f"SHA-256 of the {made.name if not made.has_groups else 'CSV'} file",
                    lambda: copied(release.sha256, short(release.sha256), "the SHA-256"),
                ),
                ("Session", lambda: link(short(release.session), here)),
                *([("Made from", rolled_up)] if source is not None else []),
            ]
        )
