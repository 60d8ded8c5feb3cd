"""Parties of an experiment as processes over mutual TLS on loopback: each connects, runs its script, and tells JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from masquerade.net import (
    Agreement,
    Identity,
    PartyAddress,
    Script,
    TrustStore,
    listen,
    make_trial,
    run_async,
    run_script,
)

HERE = Path(__file__).parent


def run_parties(program: str, names: Sequence[str], *arguments: object) -> list[dict[str, Any]]:
    """Run a file of this folder once for each name; return what each told, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        make_trial(Path(folder) / "trial", names)
        command = [sys.executable, str(HERE / program), str(Path(folder) / "trial")]
        processes = {
            name: subprocess.Popen(
                [*command, name, ",".join(names), *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )
            for name in names
        }
        addresses = {name: process.stdout.readline().strip() for name, process in processes.items()}  # type: ignore[union-attr] # it has one
        for name, process in processes.items():
            book = [{"name": other, "address": at} for other, at in addresses.items() if other != name]
            process.stdin.write(json.dumps(book) + "\n")  # type: ignore[union-attr] # it has one
            process.stdin.flush()  # type: ignore[union-attr] # it has one
        return [json.loads(process.communicate()[0]) for process in processes.values()]


def main(script: Callable[..., Script[dict[str, Any]]]) -> None:
    """Be one party: `script` gets its number, all names and the other arguments."""
    folder, me, names = Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")

    async def connected() -> dict[str, Any]:
        identity, trust = Identity.load(folder / me), TrustStore.load(folder / me / "trust")
        async with listen(identity, trust) as listener:
            print(listener.address, flush=True)
            peers = [PartyAddress(**node) for node in json.loads(sys.stdin.readline())]
            async with listener.connect(peers, Agreement(bytes(32))) as channels:
                return await run_script(script(names.index(me), names, *sys.argv[4:]), channels)

    print(json.dumps(run_async(connected())), flush=True)
