"""The verdict on a release in plain language: what holds, what was lost, what to do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from masquerade.anonymize import (
    HELP,
    IN_A_QID,
    OVER_ALL,
    PROTECT,
    PROTECT_CLASS,
    VerifiedRelease,
    nearly_lost,
    other_cautions,
)
from masquerade.risk import HOMOGENEITY, SKEWNESS, Finding

# --- wording ------------------------------------------------------------------------------------------------
# Number formats and names of things in the report.

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


# --- verdict ------------------------------------------------------------------------------------------------

_NAMED = 6  # columns whose losses are told one by one
_ALL = 0.9995  # a share that is shown as all


def headline(release: VerifiedRelease, attacks: Sequence[Finding]) -> dict[str, Any]:
    """Return the verdict, the sentences below it, and the figures of the top of the page."""
    bad = [verdict for verdict in release.verdicts if not verdict.holds]
    says, state = _says(len(release.verdicts), len(bad))
    return {
        "source": _source(release.settings),
        "verdict": says,
        "state": state,
        "failing": [str(verdict.requirement) for verdict in bad],
        "sentences": [*_sentences(release), *_learned(attacks)],
        "advice": list(_advice(release, _pure(attacks))),
        "figures": list(_figures(release)),
    }


def _says(n: int, bad: int) -> tuple[str, str]:
    if not n:
        return "No requirement was checked", "unknown"
    if not bad:
        return {1: "The requirement holds", 2: "Both requirements hold"}.get(n, f"All {n} requirements hold"), "good"
    if n == 1:
        return "The requirement does not hold", "bad"
    return f"{bad} of {n} requirements {'does' if bad == 1 else 'do'} not hold", "bad"


def _sentences(release: VerifiedRelease) -> Iterator[str]:
    for verdict in release.verdicts:
        asked = verdict.requirement
        if verdict.holds and asked.only_sizes and verdict.value is not None:
            least = counted(int(verdict.value), "record")
            yield (
                f"Whoever knows {_some(asked.qid)} of a person has at least {least} to choose from; "
                f"{figure(asked.required_size)} {'was' if asked.required_size == 1 else 'were'} required."
            )
    rows = release.released
    left_out = [
        f"{counted(n, 'row')} {'was' if n == 1 else 'were'} {why}"
        for n, why in ((release.dropped_rows, "dropped for missing cells"), (release.suppressed, "suppressed"))
        if n
    ]
    yield (
        f"{count(rows)} of {counted(release.rows, 'record')} are released; {' and '.join(left_out)}."
        if left_out
        else f"All {counted(release.rows, 'record')} are released."
    )
    yield from _losses(release.attribute_losses)
    yield from _information(release)


def _losses(losses: Mapping[str, float]) -> Iterator[str]:
    whole = [name for name, lost in losses.items() if lost == 0]
    gone = [name for name, lost in losses.items() if lost >= _ALL]
    part = sorted(((lost, name) for name, lost in losses.items() if 0 < lost < _ALL), reverse=True)
    if whole:
        yield f"{_some(whole)} kept all {'its' if len(whole) == 1 else 'their'} detail."
    if part:
        named = [f"{name} lost {percent(lost)}" for lost, name in part[:_NAMED]]
        more = part[_NAMED:]
        if len(more) == 1:
            named.append(f"{more[0][1]} lost {percent(more[0][0])}")
        elif more:
            named.append(f"{len(more)} others lost {percent(more[-1][0])} to {percent(more[0][0])}")
        yield f"{listed(named)} of its detail." if len(part) == 1 else f"{listed(named)} of their detail."
    if gone:
        yield f"{_some(gone)} lost everything: all records have the same value there."


def _information(release: VerifiedRelease) -> Iterator[str]:
    kept, told = release.metrics.get("information_kept"), release.attribute_information
    if kept is None:
        return
    least = min(told, key=lambda name: told[name])
    named = f", least of {least}: {percent(told[least])}" if len(told) > 1 and told[least] < 1 else ""
    whose = "the columns' information" if len(told) > 1 else f"{least}'s information"
    yield f"{percent(kept)} of {whose} (entropy) is kept{named}."


def _learned(attacks: Sequence[Finding]) -> Iterator[str]:
    """Yield what a group tells of its members' sensitive values, and of their class."""
    rises = {each.attribute: each.value for each in attacks if each.name == SKEWNESS}
    for name, share in _pure(attacks).items():
        whose = f"{percent(share)} of the records are" if share else "No record is"
        rise = f"{100 * rises[name]:.1f} points more frequent than in the whole release"
        yield f"{whose} in a group with a single {name}; in the worst group one {name} value is {rise}."


def _pure(attacks: Sequence[Finding]) -> dict[str, float]:
    """Return the share of the records in groups of a single value, by column."""
    return {str(each.attribute): each.value for each in attacks if each.name == HOMOGENEITY}


def _advice(release: VerifiedRelease, pure: Mapping[str, float]) -> Iterator[str]:
    """Yield what to do before the release is used; each line begins with what it is about."""
    if any(not verdict.holds for verdict in release.verdicts):
        yield "Do not publish it. Make it again with the requirement, or verify it against the right job."
    lost = list(nearly_lost(release))
    if lost:
        which = f"{_some(lost)} {'is' if len(lost) == 1 else 'are'}"
        yield f"{which} hardly worth releasing like this{HELP.given(release, ': ')}."
    yield from (f"{caution}." for caution in other_cautions(release))
    if release.unique:
        yield (
            f"{counted(release.unique, 'record')} can be found by who knows all QIDs' attributes together"
            f"{OVER_ALL.given(release)}."
        )
    if release.settings.get("job", {}).get("output", {}).get("order") == "input":
        yield 'The rows are in the order of the input, for `evaluate`: publish one made without order = "input".'
    open_columns = [name for name in release.unchanged if name not in release.sensitive]
    if open_columns:
        yield (
            f"{_some(open_columns)} {'is' if len(open_columns) == 1 else 'are'} published as in the input"
            f"{IN_A_QID.given(release, ': ')}."
        )
    unprotected = [name for name in release.sensitive if name not in _protected(release)]
    if unprotected:
        yield (
            f"No requirement protects {_some(unprotected)}: a group whose records all have the same value gives it "
            f"away{PROTECT.given(release)}."
        )
    target = release.settings.get("class")
    if target is not None and pure.get(target) and target not in {*release.sensitive, *_protected(release)}:
        advice = PROTECT_CLASS.given(release, f": if nobody's {target} may be learned, ")
        yield f"{target} is the class, and no requirement protects it{advice}."


def _protected(release: VerifiedRelease) -> set[str]:
    return {name for verdict in release.verdicts for name in verdict.requirement.special_columns}


def _figures(release: VerifiedRelease) -> Iterator[tuple[str, str]]:
    yield "Rows read", count(release.rows)
    if release.dropped_rows is not None:
        yield "Dropped for missing cells", count(release.dropped_rows)
    yield "Suppressed", count(release.suppressed)
    yield "Released", count(release.released)
    yield "Groups", count(int(release.group_sizes.size))
    if release.seconds:
        yield "Time", duration(sum(release.seconds.values()))


def _source(settings: Mapping[str, Any]) -> str:
    """Return the records' origin: the parties, or a file name without its folder."""
    parties = [str(name) for name in settings.get("parties") or ()]
    return listed(parties) if parties else bare_name(str(settings.get("source") or "table"))


def _some(names: Sequence[str]) -> str:
    """Join the first few names, and say how many are left out."""
    more = len(names) - _NAMED
    return listed([*names[:_NAMED], f"{more} others"] if more > 1 else names)


def listed(names: Sequence[str]) -> str:
    """Join names: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
