"""Which parties can contribute what was asked for, by the schemas that they published. No I/O here.

A party takes part when it contributes an attribute. What a user may not ask for looks as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from masquerade.errors import hint
from masquerade.service.control import Published, PublishedDataset
from masquerade.service.request import Request


@dataclass(frozen=True)
class Found:
    """Who would contribute what; `problems` say why a request cannot be met as it is."""

    contributors: Mapping[str, tuple[str, ...]]  # by column, the class among them: the parties that hold it
    datasets: Mapping[str, str]  # by party that takes part: the dataset that it is asked for
    problems: tuple[str, ...]

    @property
    def parties(self) -> tuple[str, ...]:
        """Who takes part, in the order of the contract."""
        return tuple(sorted(self.datasets))


def may_ask(dataset: PublishedDataset, user: str) -> bool:
    """Whether a user may ask for a dataset."""
    return dataset.public or user in dataset.users


def open_to(published: Published, user: str) -> tuple[PublishedDataset, ...]:
    """The datasets of a party that a user may ask for."""
    return tuple(each for each in published.datasets if may_ask(each, user))


def find(request: Request, offered: Mapping[str, Sequence[PublishedDataset]]) -> Found:
    """Match a request with the datasets that its user may ask for, by party."""
    holders = {name: _holders(name, offered) for name in request.released}
    problems: list[str] = []
    wanted: dict[str, list[str]] = {}  # by party: what it contributes
    for name in request.attributes:
        chosen = _chosen(name, holders[name], request, problems)
        if chosen is not None:
            wanted.setdefault(chosen, []).append(name)
    datasets = {
        party: dataset
        for party, names in wanted.items()
        if (dataset := _dataset(party, names, request.class_name, offered[party], problems)) is not None
    }
    problems += _about_all(request, holders, wanted, offered)
    return Found(holders, datasets, tuple(dict.fromkeys(problems)))


def _holders(name: str, offered: Mapping[str, Sequence[PublishedDataset]]) -> tuple[str, ...]:
    return tuple(
        sorted(
            party
            for party, datasets in offered.items()
            if any(each.card.column(name) is not None for each in datasets)
        )
    )


def _chosen(name: str, holders: Sequence[str], request: Request, problems: list[str]) -> str | None:
    named = request.providers.get(name)
    if named is not None:
        if named not in holders:
            others = f"; it is held by {', '.join(holders)}" if holders else ""
            problems.append(f'providers.{name}: "{named}" does not offer "{name}"{others}')
            return None
        return named
    if len(holders) > 1:
        problems.append(
            f'attributes: "{name}" is held by {" and ".join(holders)}; name one of them in providers'
        )
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
    offered: Mapping[str, Sequence[PublishedDataset]],
) -> list[str]:
    problems = []
    known = sorted({name for each in offered.values() for one in each for name in one.card.names})
    for name in request.attributes:
        if not holders[name]:
            problems.append(f'attributes: no party offers "{name}"{hint(name, known)}')
    if request.class_name is not None:
        held = holders[request.class_name]
        if not held:
            problems.append(f'class: no party offers "{request.class_name}"{hint(request.class_name, known)}')
        elif wanted and not set(held) & set(wanted):
            problems.append(
                f'class: "{request.class_name}" is held by {", ".join(held)}, which contributes none of the attributes'
            )
    if not problems and len(wanted) == 1:
        problems.append(
            f"attributes: all are {next(iter(wanted))}'s; a mashup needs columns of at least two parties"
        )
    return problems
