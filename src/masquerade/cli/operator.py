"""Who says so: whoever decides something at the command line is named in the audit log."""

from __future__ import annotations

from typing import Annotated

import typer

By = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Who says so, for the audit log, which names the system's user in any case.",
        show_default=False,
    ),
]


def operator(by: str) -> dict[str, str | None]:
    """The user that the operating system knows, and the name that was given, if any."""
    import os
    import pwd

    from masquerade.errors import one_line

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container users often have no name
        user = str(os.getuid())
    return {"by": one_line(by) or None, "user": user}
