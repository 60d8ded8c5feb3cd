"""What a further release of a snapshot may be: an earlier one again, or one made of an earlier release alone.

Anyone who holds two releases of the same people can intersect their groups, and nearly everything that is agreed on can
make other groups: another table at any party, a stricter requirement, another method or parameter, another order of the
columns. So the hash of the terms decides; what differs is looked for only to name the reason.

During a negotiation a party knows its own table alone. It compares a **draft**: terms with its own provision only, in
which the holders of the others' columns are left empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from masquerade.arrangement import ARRANGEMENTS
from masquerade.privacy import GroupRequirement
from masquerade.protocol import AttributeTerms
from masquerade.service.agree.boundaries import written_terms
from masquerade.service.agree.terms import Terms


class TermsDifference(NamedTuple):
    """What makes terms another release than an earlier one: how the earlier one was made, and what is asked for."""

    aspect: str
    before: str
    now: str


def differences(earlier: Terms, asked: Terms) -> list[TermsDifference]:
    """Name what makes the terms (or a draft) another release than an earlier one; empty if they are the same."""
    if asked.hash == earlier.hash:
        return []
    before, now = _aspects(earlier, earlier), _aspects(asked, earlier)
    if before["method"] == now["method"]:
        for word in sorted({*earlier.method, *asked.method} - {"name"}):
            before[word], now[word] = (str(terms.method.get(word, "none")) for terms in (earlier, asked))
    found = [
        TermsDifference(name, f"with {name} = {before[name]}", f"with {name} = {each}")
        for name, each in now.items()
        if name in before and before[name] != each
    ]
    found = [*_other_columns(earlier, asked), *_other_parts(earlier, asked), *found]
    return found or ([] if _is_draft(asked) else [TermsDifference("terms", "on other terms", "on these terms")])


def against_second(earlier: Terms, asked: Terms) -> list[str]:
    """Say in one sentence why these terms may not be released after the earlier ones; nothing if they are the same."""
    found = differences(earlier, asked)
    if not found:
        return []
    before, now = (" and ".join(texts) for texts in ([d.before for d in found], [d.now for d in found]))
    if len(found) == 1:
        now = now.replace(f"with {found[0].aspect} = ", "with ", 1)
    return [f"already released {before}; a second release {now} could be combined with it to single people out"]


def as_released(earlier: Terms, asked: Terms) -> dict[str, Any]:
    """Return the keys of a request that make the terms another release, with values that follow it.

    They hold what `against_second` tells, of as much as a client decides. No column is added.
    """
    differing = {each.aspect for each in differences(earlier, asked)}
    found: dict[str, Any] = {}
    if differing & {"method", *earlier.method, *asked.method}:
        found["algorithm"] = dict(earlier.method)
    if "class" in differing and asked.class_name is not None:
        found["class"] = None
    if "normalize" in differing:
        found["normalize"] = earlier.normalize
    if "m" in differing:
        found["m"] = earlier.m
    if "columns" in differing:
        wanted = {column.name for column in asked.columns}
        found["attributes"] = [column.name for column in earlier.columns if column.name in wanted]
    return found


def agreed_before(earlier: Terms, wanted: Iterable[str]) -> list[GroupRequirement]:
    """Return the requirements of an earlier release over columns that are wanted again."""
    known = {*wanted, None}
    return [part for part in earlier.parts if {*part.qid, part.sensitive} <= known]


def rolls_up(earlier: Terms, asked: Terms) -> bool:
    """Return whether terms (or a draft) can be answered from an earlier release alone, by making it coarser.

    It must have the same tables behind it, all the columns and no stricter requirement, and less must be asked for:
    fewer columns or a stricter requirement. By which method it was made does not matter: groups are only merged.
    """
    wanted, had = _released(asked), _released(earlier)
    known = {column for column in asked.columns if column.holder}
    covers = ARRANGEMENTS[earlier.arrangement].covers
    return (
        (asked.arrangement, asked.normalize) == (earlier.arrangement, earlier.normalize)
        and {*asked.provisions} <= {*earlier.provisions}
        and (_is_draft(asked) or asked.parties == earlier.parties)
        and known <= {*earlier.columns}
        and wanted <= had
        and asked.class_name in (None, earlier.class_name)
        and asked.m <= earlier.m
        and can_be_rolled_up(asked)
        and can_be_rolled_up(earlier)
        and all(any(covers(new, old) for new in asked.parts) for old in agreed_before(earlier, wanted))
        and (wanted < had or asked.parts != earlier.parts)
    )


def can_be_rolled_up(terms: Terms) -> bool:
    """Return whether groups may be merged: that makes values more general, and a boundary may forbid it."""
    return not any(each.is_bounded for each in terms.attributes)


def against_roll_up(earlier: Terms | None, asked: Terms) -> list[str]:
    """Say why a roll-up may not be made of an earlier release, which is None if this party has no part in it."""
    if earlier is None:
        return ["the release that is to be rolled up was not made from this table"]
    if not rolls_up(earlier, asked):
        return ["what is asked for does not follow from the earlier release alone"]
    return []


def _is_draft(terms: Terms) -> bool:
    return len(terms.provisions) == 1


def _released(terms: Terms) -> set[str]:
    names = {column.name for column in terms.columns}
    return names if terms.class_name is None else {*names, terms.class_name}


def _other_columns(earlier: Terms, asked: Terms) -> Iterator[TermsDifference]:
    """Yield the columns that come or go, or that they are in another order."""
    raw = {column.name for column in earlier.columns if column.role == "sensitive"}  # they come last in terms
    before = [column.name for column in earlier.columns]
    now = sorted((column.name for column in asked.columns), key=lambda name: name in raw)
    gone = ", ".join(name for name in before if name not in now)
    new = ", ".join(name for name in now if name not in before)
    if gone:
        yield TermsDifference("columns", f"with {gone}", f"without {gone}")
    if new:
        yield TermsDifference("columns", f"without {new}", f"with {new}")
    if before != now and not gone and not new:
        yield TermsDifference(
            "columns", *(f"with the columns in the order {', '.join(each)}" for each in (before, now))
        )


def _other_parts(earlier: Terms, asked: Terms) -> Iterator[TermsDifference]:
    """Yield what only one of the requirements has."""
    before, now = [*map(str, earlier.parts)], [*map(str, asked.parts)]
    gone = " & ".join(part for part in before if part not in now)
    new = " & ".join(part for part in now if part not in before)
    if gone or new:
        yield TermsDifference(
            "requirement", f"with {gone}" if gone else f"without {new}", f"with {new}" if new else f"without {gone}"
        )
    elif before != now:
        yield TermsDifference("requirement", *(f"with {' & '.join(each)}" for each in (before, now)))


def _aspects(terms: Terms, earlier: Terms) -> dict[str, str]:
    """Describe what can make other groups, by name; a draft does not know who the parties are."""
    aspects = {
        "class": terms.class_name or "none",
        "kind": terms.arrangement,
        "m": str(terms.m),
        "normalize": terms.normalize,
        "method": str(terms.method.get("name")),
        "protocol version": str(terms.version),
    }
    known = {column.name for column in terms.columns if column.holder} or {c.name for c in terms.columns}
    for name in sorted(known & {c.name for c in earlier.columns}):
        told = next((each for each in terms.attributes if each.name == name), AttributeTerms(name))
        if told.says_something or any(each.name == name for each in earlier.attributes):
            aspects[f"boundary of {name}"] = str(written_terms(told) or "none")
    for each in terms.provisions:
        aspects[f"table of {each.party}"] = each.snapshot[:12]
        aspects[f"schema of {each.party}"] = each.schema[:12]
    return aspects if _is_draft(terms) else aspects | {"parties": ", ".join(terms.parties)}
