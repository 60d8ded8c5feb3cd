"""Why a mashup failed, from how its parties ended: what somebody saw itself comes before what it was told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import PeerError
from masquerade.library.mashup import _Run

RELAYED = "one of the parties: broke the protocol, and nobody can tell which (party carla reports it)"


@pytest.mark.parametrize(
    ("ended", "peer", "text"),
    [
        (
            {
                "anna": (3, [RELAYED]),
                "berta": (3, [RELAYED]),
                "carla": (3, ["one of the parties: anna or berta made the comparison come out impossibly"]),
            },
            "",
            "one of the parties: anna or berta made the comparison come out impossibly",
        ),
        (
            {
                "anna": (3, ["party berta: broke off (party carla reports it)"]),
                "berta": (0, []),
                "carla": (3, ["party berta: sent a nonce of 3 bytes"]),
            },
            "berta",
            "party berta: sent a nonce of 3 bytes",
        ),
        ({"anna": (3, [RELAYED]), "berta": (0, [])}, "", RELAYED),
    ],
)
def test_who_saw_it_itself_is_heard_first(ended: dict[str, Any], peer: str, text: str) -> None:
    anything: Any = None
    run = _Run(anything, anything, Path(), anything, anything)

    async def ends() -> dict[str, Any]:
        return ended

    run._ends = ends  # type: ignore[method-assign] # no process is started
    error = asyncio.run(run._first_cause(PeerError("anna", "vanished")))
    assert isinstance(error, PeerError)
    assert (error.peer, str(error)) == (peer, text)
