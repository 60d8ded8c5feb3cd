"""Tell a person that a contract waits: a command of the steward's own is run, such as one that sends an e-mail.

Others wrote parts of the text (user, purpose, columns). It reaches the command on its standard input alone, never as an
argument, and no shell is involved.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from masquerade.errors import one_line
from masquerade.service.logs import log
from masquerade.service.signing import SignedContract

_LONGEST = 60.0  # seconds


def waits(party: str, deal: str, contract: SignedContract, conf: Path) -> str:
    """Say in a few lines what waits, and how to decide."""
    agreed = contract.deal
    columns = ", ".join(column.name for column in contract.contract.columns_of(party))
    lines = (
        f"A contract waits for approval at {party}: deal {deal[:12]}",
        f"{agreed.user}, for {agreed.purpose}: {columns or 'no column'} (parties {', '.join(contract.parties)})",
        "",
        f"Look at it:  masquerade party preview {conf} {deal[:12]}",
        f"Decide:      masquerade party approve {conf} {deal[:12]}",
        f"             masquerade party refuse {conf} {deal[:12]} --reason …",
        f"In a browser: masquerade party review {conf}",
    )
    return "".join(f"{one_line(line)}\n" for line in lines)


def notify(command: Sequence[str], text: str, deal: str, folder: Path) -> threading.Thread | None:
    """Run the command in the background, with the text as its input; its failure is logged and holds up nothing."""
    if not command:
        return None
    thread = threading.Thread(target=_run, args=(command, text, deal, folder), daemon=True, name="notify")
    thread.start()
    return thread


def _run(command: Sequence[str], text: str, deal: str, folder: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 # the steward's own command
            list(command),
            input=text.encode(),
            cwd=folder,
            env={**os.environ, "MASQUERADE_DEAL": deal},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log().error("nobody was told that a contract waits", command=command[0], error=type(error).__name__)
        return
    if done.returncode:
        log().error("nobody was told that a contract waits", command=command[0], exit_code=done.returncode)
