"""The processes of a mashup's parties, found among those of the machine."""

from __future__ import annotations

from pathlib import Path

_PARTY = [b"-m", b"masquerade.library.party_process"]


def parties_of(launcher: int) -> list[int]:
    """The parties' processes, by their command lines; each is a child of the launcher's fork server."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[1:3] == _PARTY and _parent(_parent(int(entry.name))) == launcher:
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):  # it has ended meanwhile
            continue
    return sorted(found)


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
