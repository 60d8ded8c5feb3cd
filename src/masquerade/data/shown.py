"""How a cell or a name that somebody wrote is shown in an error."""

from __future__ import annotations

_LONGEST = 80


def shown(text: str) -> str:
    """The text in quotes, on one line (line breaks and other invisible signs as escapes), and not endless."""
    cut = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return '"' + "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in cut) + '"'
