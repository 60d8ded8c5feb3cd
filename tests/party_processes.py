"""The processes of a mashup's parties, found among those of the machine."""

from __future__ import annotations

from pathlib import Path

from masquerade.jobs import party_process, processes as fork_server

_PARTY = [b"-m", party_process.__name__.encode()]
_SERVER = [b"-m", fork_server.__name__.encode()]


def parties_of(launcher: int) -> list[int]:
    """The parties' processes, by their command lines; each is a child of the fork server that knows its launcher."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            process = int(entry.name)
            if _words(process)[1:3] == _PARTY and _words(_parent(process))[1:4] == [*_SERVER, b"%d" % launcher]:
                found.append(process)
        except (OSError, ValueError, IndexError):  # it has ended meanwhile
            continue
    return sorted(found)


def _words(process: int) -> list[bytes]:
    return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
