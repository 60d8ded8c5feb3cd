"""The quality terms of a request: for each figure of a release, the largest that its client takes unasked.

A release that misses one is held, uncharged, until the client decides. A figure that could not be measured meets no
limit.

| term | figure | who measures it |
|---|---|---|
| `most_error` | decision trees grown on the release, judged on rows that were held out | the coordinator |
| `most_ncp` | normalised certainty penalty: the mean share of its range that a cell covers | the parties, by column |
| `most_query_error` | mean relative error of random counting queries | each party of its own columns or records |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from masquerade.anonymize.cautions import nearly_lost, said_of_loss
from masquerade.anonymize.release import Release
from masquerade.service.request import Request
from masquerade.service.terms import Deal, Terms
from masquerade.utility.release_error import release_error

Figures = dict[str, float | None]
LOST = "lost"  # beside the figures: columns that lost nearly all detail
KEPT = "kept"  # and how much of their information these keep, where it is known


@dataclass(frozen=True)
class QualityTerm:
    """One limit of a request, and the figure that it is about."""

    key: str  # in a request, and in what is told of it
    figure: str  # in a release's `quality`, and beside the limit
    name: str  # for a person
    help: str
    is_share: bool = True  # of 1; otherwise a ratio without an end


QUALITY_TERMS = (
    QualityTerm(
        "most_error",
        "error",
        "classification error",
        "From 0 to 1; needs a class. When it is missed, you are asked",
    ),
    QualityTerm(
        "most_ncp",
        "ncp",
        "loss of detail (NCP)",
        "From 0, nothing lost, to 1, everything. When it is missed, you are asked",
    ),
    QualityTerm(
        "most_query_error",
        "query_error",
        "query error",
        "Such as 0.2: counts from the table are wrong by a fifth on average. When it is missed, you are asked",
        is_share=False,
    ),
)


def figures_of(release: Release, terms: Terms) -> Figures:
    """Measure a release; figures that do not apply are left out, and those that cannot be known are None.

    A roll-up is made from an earlier release alone, so nothing in it compares with the originals.
    """
    found: Figures = {}
    if terms.class_name is not None:
        told = release.error
        found["error"] = release_error(release.table, terms.class_name) if told is None else told
    compared = terms.source is None
    found["ncp"] = release.metrics.get("ncp") if compared else None
    found["information_kept"] = release.metrics.get("information_kept") if compared else None
    asked = release.query_error if compared else None
    found["query_error"] = asked.mean if asked is not None else None
    return found


def lost_columns(release: Release, terms: Terms) -> dict[str, dict[str, float]]:
    """Return the columns that lost nearly all detail, in hundredths, to be named beside the figures."""
    lost = nearly_lost(release) if terms.source is None else {}
    kept = {name: share for name, share in release.attribute_information.items() if name in lost}
    told = {LOST: lost, KEPT: kept}
    return {
        key: {name: round(each, 2) for name, each in shares.items()} for key, shares in told.items() if shares
    }


def said_of_lost(told: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each column that lost nearly all detail, with what would help, without a full stop."""
    kept = told.get(KEPT) or {}
    return [said_of_loss(name, float(loss), kept.get(name)) for name, loss in (told.get(LOST) or {}).items()]


def limits_of(wished: Mapping[str, Any] | Request | Deal) -> Figures:
    """Return the limits of a request or a deal, by their keys."""
    found = {
        term.key: wished.get(term.key) if isinstance(wished, Mapping) else getattr(wished, term.key)
        for term in QUALITY_TERMS
    }
    return {key: float(limit) for key, limit in found.items() if limit is not None}


def missed_terms(told: Mapping[str, Any]) -> Iterator[QualityTerm]:
    """Yield the terms whose limit is not met, given figures and limits together."""
    for term in QUALITY_TERMS:
        limit, figure = told.get(term.key), told.get(term.figure)
        if limit is not None and (figure is None or float(figure) > float(limit)):
            yield term


def said_of(term: QualityTerm, told: Mapping[str, Any]) -> str:
    """Return a figure and its limit in words, without a full stop."""
    figure, limit = told.get(term.figure), told.get(term.key)
    measured = "could not be measured" if figure is None else f"is {float(figure):.4g}"
    kept = told.get("information_kept") if term.figure == "ncp" else None
    if kept is not None:
        measured += f" ({float(kept):.0%} of the information is kept)"
    wished = "" if limit is None else f", and at most {float(limit):.4g} was wished"
    return f"{term.name} {measured}{wished}"
