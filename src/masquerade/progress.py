"""Progress as data, rendered as text only where a person reads it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The current activity and how far it has got; `str` renders it."""

    name: str
    round: int = 0  # the current round, from 1
    tried: int = 0  # cuts so far
    percent: int | None = None
    detail: str = ""  # only for those who may see the data

    @property
    def count(self) -> int:
        """The number of rounds or cuts so far; 0 in a stage that counts neither."""
        return self.round or self.tried

    def public(self) -> Stage:
        """Return a copy without `detail`, for those who may not see the data."""
        return msgspec.structs.replace(self, detail="")

    def __str__(self) -> str:
        figures = (
            f"round {self.round}" if self.round else "",
            f"{self.tried} cuts tried" if self.tried else "",
            f"{self.percent} %" if self.percent is not None else "",
            self.detail,
        )
        told = ", ".join(filter(None, figures))
        return f"{self.name}: {told}" if told else self.name


OnStage = Callable[[Stage], None]


def silent(_: Stage) -> None:
    """Ignore progress."""
