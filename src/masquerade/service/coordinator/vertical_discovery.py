"""Which parties can contribute the columns of a vertical request, by the schemas that they published. No I/O.

A party takes part when it contributes an attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from masquerade.service.control import PublishedDataset
from masquerade.service.coordinator.discovery import Found, Offered, holders_of, not_offered
from masquerade.service.coordinator.horizontal_discovery import find_horizontal
from masquerade.service.request import Request


def find_vertical(request: Request, offered: Offered) -> Found:
    """Match a vertical request with the datasets that its user may ask for."""
    holders = {name: holders_of(name, offered) for name in request.released}
    problems: list[str] = []
    wanted: dict[str, list[str]] = {}  # by party: what it contributes
    # Several who have all of it may hold different people.
    alike = not find_horizontal(request, offered).problems
    for name in request.attributes:
        chosen = _chosen(name, holders[name], request, problems, alike=alike)
        if chosen is not None:
            wanted.setdefault(chosen, []).append(name)
    datasets = {
        party: dataset
        for party, names in wanted.items()
        if (dataset := _dataset(party, names, request.class_name, offered[party], problems)) is not None
    }
    problems += _about_all(request, holders, wanted, offered)
    return Found(holders, datasets, tuple(dict.fromkeys(problems)))


def _chosen(
    name: str, holders: Sequence[str], request: Request, problems: list[str], *, alike: bool
) -> str | None:
    named = request.providers.get(name)
    if named is not None:
        if named not in holders:
            others = f"; it is held by {', '.join(holders)}" if holders else ""
            problems.append(f'providers.{name}: "{named}" does not offer "{name}"{others}')
            return None
        return named
    if len(holders) > 1:
        text = f'attributes: "{name}" is held by {" and ".join(holders)}; name one of them in providers'
        problems.append(f'{text}, or ask for the people of all with kind = "horizontal"' if alike else text)
        return None
    return holders[0] if holders else None


def _dataset(
    party: str,
    names: Sequence[str],
    class_name: str | None,
    datasets: Sequence[PublishedDataset],
    problems: list[str],
) -> str | None:
    """The one dataset of a party that has all of these columns; of several, one with the class."""
    able = [each.card for each in datasets if all(each.card.column(name) is not None for name in names)]
    if not able:
        held = ", ".join(sorted(each.card.dataset for each in datasets))
        problems.append(
            f"attributes: no dataset of {party} ({held}) has all of {', '.join(names)};"
            " a session takes one dataset of each party"
        )
        return None
    with_class = [card for card in able if class_name is not None and card.column(class_name) is not None]
    return (with_class or able)[0].dataset


def _about_all(
    request: Request,
    holders: Mapping[str, Sequence[str]],
    wanted: Mapping[str, Sequence[str]],
    offered: Offered,
) -> list[str]:
    problems = []
    for name in request.attributes:
        if not holders[name]:
            problems.append(f"attributes: {not_offered(name, offered)}")
    if request.class_name is not None:
        held = holders[request.class_name]
        if not held:
            problems.append(f"class: {not_offered(request.class_name, offered)}")
        elif wanted and not set(held) & set(wanted):
            problems.append(
                f'class: "{request.class_name}" is held by {", ".join(held)}, which contributes none of the attributes'
            )
    if not problems and len(wanted) == 1:
        problems.append(
            f"attributes: all are {next(iter(wanted))}'s; a mashup needs columns of at least two parties"
        )
    return problems
