"""Number formats and names of things in the report."""

from __future__ import annotations

import math
import re
from pathlib import PurePosixPath, PureWindowsPath

NOTHING = "—"

METRICS = {
    "classification_error": "Share of records whose class a decision tree misjudges, or that are suppressed.",
    "naive_bayes_error": "Share of records whose class naive Bayes misjudges, or that are suppressed.",
    "query_error": "Mean relative error of random counting queries. 0 is exact.",
    "selection_precision": "Of the records that the workload's queries may mean, the share that they do mean.",
    "selection_recall": "Of the records that the workload's queries mean, the share that is certain.",
    "discernibility": "Ordered pairs of records that cannot be told apart. Lower keeps more.",
    "weighted_discernibility": "The same for each attribute alone, weighted. Lower keeps more.",
    "weighted_overlap": "Ordered pairs of records that an attribute may leave alike, weighted. Lower keeps more.",
    "average_group_size": "Released records a group, on average. Lower keeps more.",
    "loss": "LM: how many of its attribute’s other values a cell could mean, on average. 0 none, 1 all.",
    "majority": "Records without their group’s most frequent class, and suppressed ones. Lower is better.",
    "classification_metric": "The same as a share of all records. Lower suits classifiers better.",
    "precision": "How far below the top of their taxonomies cells stay. 1 untouched, 0 fully general.",
    "violations": "Cells beyond the boundary of their original value; none where there are no boundaries.",
    "ncp": "Normalised certainty penalty: the part of its attribute that a cell covers. 0 least, 1 all.",
    "information_kept": "Entropy of the released cells over that of the original, on average. 1 all, 0 none.",
    "information_loss": "IL: how high in their taxonomies the cells stand, summed. Lower keeps more.",
}

_ABSOLUTE = re.compile(r"(/|~|\.{1,2}[\\/]|[A-Za-z]:[\\/]|\\\\)")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def count(value: int) -> str:
    """Format an integer with thousands separators: 45,222."""
    return f"{value:,}"


def counted(value: int, thing: str, things: str = "") -> str:
    """Format a count with its noun: `1 record`, `2 records`."""
    return f"{count(value)} {thing if value == 1 else things or thing + 's'}"


def figure(value: float | int | None) -> str:
    """Format any number: integers in full, others to four figures, None as a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    if float(value).is_integer() and abs(value) < 1e15:
        return count(int(value))
    if abs(value) >= 1000:
        return f"{value:,.1f}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """Format a share of 1 as 12.3 %; nothing strictly between 0 and 100 is rounded to either."""
    if not math.isfinite(share):
        return NOTHING
    if share in (0, 1):
        return f"{100 * share:.0f}\u202f%"
    return f"{min(99.9, max(0.1, 100 * share)):.1f}\u202f%"


def duration(seconds: float) -> str:
    """Format a duration, given in seconds, in ms or s."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms" if seconds < 0.0995 else f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def bare_name(text: str) -> str:
    """Return a path's file name; for a database URL, only the kind of database."""
    if url := _URL.match(text.strip()):
        return f"{url[1]} database"
    return PureWindowsPath(PurePosixPath(text).name).name or text.strip("/\\") or "table"


def looks_like_place(text: str) -> bool:
    """Return whether a setting's text is a URL or an absolute path."""
    return bool(_URL.match(text.strip()) or _ABSOLUTE.match(text))
