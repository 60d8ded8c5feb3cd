"""Why a contract has the method that it has, where nobody named one: data that all parties sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class PassedOver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A method that would have been preferred, and why it was not taken."""

    method: dict[str, Any]  # as a contract has it
    refuses: tuple[str, ...] = ()  # what of the contract it cannot do
    not_allowed_by: tuple[str, ...] = ()  # the parties whose policy does not have it


class MethodChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reason for the method taken, and the methods preferred to it, in their order."""

    because: str
    passed_over: tuple[PassedOver, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Return the entry in the JSON summary."""
        written: dict[str, Any] = msgspec.to_builtins(self)
        return written


def chosen_lines(choice: Mapping[str, Any]) -> list[str]:
    """Say for a person why a method was taken, given a choice as JSON has it: a line for each reason."""
    lines = [str(choice.get("because"))]
    for each in choice.get("passed_over") or ():
        name = each["method"]["name"]
        lines += [f"not {name}: {reason}" for reason in each.get("refuses") or ()]
        if by := each.get("not_allowed_by"):
            lines.append(f"not {name}: not allowed by {', '.join(by)}")
    return list(dict.fromkeys(lines))  # a method may be passed over with several settings
