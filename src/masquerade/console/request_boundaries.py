"""Boundaries and weights of the chosen columns in the request form."""

from __future__ import annotations

from collections.abc import Callable

from masquerade.console.draft import Draft
from masquerade.console.elements import Place, tag, text_field

_FIELDS = {
    "coarsest": ("never coarser than", "Values of its taxonomy, separated by commas, or for numbers a width"),
    "finest": ("never finer than", "The same"),
    "weight": ("weight", "What it matters to you; 1 where empty. Mondrian's priority counts it"),
}


class Boundaries:
    """A folded list with the fields of each chosen column; `changed` is called after each change."""

    def __init__(self, draft: Draft, changed: Callable[[], None]) -> None:
        self._draft, self._changed, self._place = draft, changed, Place()

    def refresh(self) -> None:
        """Show the columns that are chosen now."""
        self._place.show(self._draft.limitable, self._draw)

    def _draw(self) -> None:
        if not self._draft.limitable:
            return
        with tag("details"):
            tag("summary", "Boundaries and weights")
            for name in self._draft.limitable:
                with tag("fieldset"):
                    tag("legend", name)
                    with tag("div", look="cols"):
                        for key, (label, hint) in _FIELDS.items():
                            value = self._draft.limits.get(name, {}).get(key, "")
                            text_field(
                                label.capitalize(),
                                value,
                                self._setter(name, key),
                                hint=hint,
                                aria_label=f"{name}: {label}",
                            )

    def _setter(self, name: str, key: str) -> Callable[[str], None]:
        def change(text: str) -> None:
            self._draft.limits.setdefault(name, {})[key] = text
            self._changed()

        return change
