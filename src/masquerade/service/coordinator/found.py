"""What came of the search for parties that can meet a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from masquerade.errors import hint
from masquerade.service.control import PublishedDataset

Offered = Mapping[str, Sequence[PublishedDataset]]  # by party: the datasets that a user may ask for


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


def holders_of(name: str, offered: Offered) -> tuple[str, ...]:
    """The parties that have a column."""
    return tuple(
        sorted(
            party
            for party, datasets in offered.items()
            if any(each.card.column(name) is not None for each in datasets)
        )
    )


def nowhere(name: str, offered: Offered) -> str:
    """`no party offers …`, with what was probably meant."""
    known = sorted({column for each in offered.values() for one in each for column in one.card.names})
    return f'no party offers "{name}"{hint(name, known)}'
