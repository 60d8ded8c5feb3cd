"""`masquerade doctor CONF`: check certificates, clocks, versions, data, database and peers, and say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from masquerade.cli.output import Json, answer, argument, progress


def doctor(
    conf: Annotated[Path, argument("CONF", "A party's, a coordinator's or a client's configuration.")],
    json: Json = False,
) -> None:
    """Look at a configuration and everything that it names: files, certificates, keys, data, database, disk, audit
    log, and every peer with its clock and version. One line a check, and what to do. Nothing is changed.

    Exit code 0 when nothing is wrong (warnings are not), 2 when the file is wrong, 3 when a peer cannot be reached, 1
    for all else.

    Example: masquerade doctor party.toml
    """
    from masquerade.doctor import examine

    with progress() as shown:
        found = examine(conf, shown.stage)
    answer(json, found.summary, *(f"{check.status:<8} {check.line}" for check in found.checks))
    found.insist()
