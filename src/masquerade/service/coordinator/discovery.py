"""The parties that can meet a request: what vertical_discovery.py and horizontal_discovery.py find. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from masquerade.errors import hint
from masquerade.service.control import PublishedDataset

Offered = Mapping[str, Sequence[PublishedDataset]]  # by party: the datasets that a user may ask for


@dataclass(frozen=True)
class Found:
    """Who would contribute what, and in `problems` why the request cannot be met as it is."""

    contributors: Mapping[str, tuple[str, ...]]  # by column, the class among them: the parties that hold it
    datasets: Mapping[str, str]  # by party that takes part: the dataset that it is asked for
    problems: tuple[str, ...]

    @property
    def parties(self) -> tuple[str, ...]:
        """Who takes part, in the order of the contract."""
        return tuple(sorted(self.datasets))


def holders_of(name: str, offered: Offered) -> tuple[str, ...]:
    """The parties that have a column."""
    return tuple(
        sorted(
            party
            for party, datasets in offered.items()
            if any(each.card.column(name) is not None for each in datasets)
        )
    )


def not_offered(name: str, offered: Offered) -> str:
    """Say that no party offers a column, with the name that was probably meant."""
    known = sorted({column for each in offered.values() for one in each for column in one.card.names})
    return f'no party offers "{name}"{hint(name, known)}'
