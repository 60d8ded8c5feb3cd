"""The doctor's checks of peers: whether they answer over mutual TLS, their clocks, and their protocol version.

A party knows only its coordinator's address. It compares the other parties' certificates with those that the
coordinator knows; only a session shows whether they can be reached from here and whether they trust us.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from masquerade import __version__
from masquerade.errors import MasqueradeError, PeerError, one_line
from masquerade.library.doctor_certificates import trusting
from masquerade.library.doctor_check import Check, error, fine, unreachable, warning, words_of
from masquerade.net.channel import PROTOCOL_VERSION, Node
from masquerade.net.identity import Identity
from masquerade.net.probe import Finding, explain, probe
from masquerade.net.trust import TrustStore
from masquerade.service.control import Health, Parties
from masquerade.service.peer_http import PeerHttp

TIMEOUT = 5.0  # seconds for one answer
DIFFERS, TOO_MUCH = 5.0, 60.0  # seconds between two clocks

# Findings on which the probe says more than HTTP; any other means that TLS is not the problem.
_TELLING = (Finding.NO_TLS, Finding.STRANGER, Finding.OUT_OF_DATE, Finding.REFUSES_US, Finding.NOBODY)


async def peer_checks(addresses: Mapping[str, str], identity: Identity, trust: TrustStore) -> list[Check]:
    """Check each peer at its address, all concurrently."""
    known = {name: address for name, address in addresses.items() if name in trust.names}
    found = await asyncio.gather(*(_peer(name, address, identity, trust) for name, address in known.items()))
    return [check for checks in found for check in checks]


async def _peer(name: str, address: str, identity: Identity, trust: TrustStore) -> list[Check]:
    try:
        async with PeerHttp(name, address, identity, trust, timeout=TIMEOUT) as peer:
            before = time.time()
            health: Health = await peer.call("GET", "/v1/health", answer=Health)
            return [*_heard(name, address, health, before, time.time())]
    except PeerError as caught:
        node = Node(name, address)
        diagnosis = await probe(node, identity, trust)
        told = explain(node, diagnosis, identity, trust) if diagnosis.finding in _TELLING else caught
        return [unreachable(f"peer {name}", words_of(told))]
    except MasqueradeError as caught:  # it answers, but refuses
        return [unreachable(f"peer {name}", f"at {address}: {words_of(caught)}", "its log says why")]


async def other_parties(
    coordinator: str, address: str, identity: Identity, trust: TrustStore, folder: Path
) -> list[Check]:
    """Check that our trust store has the peers of our sessions, with the certificates that contracts will name.

    The coordinator is asked for the fingerprints it knows. They are only compared; none is adopted.
    """
    try:
        async with PeerHttp(coordinator, address, identity, trust, timeout=TIMEOUT) as line:
            told: Parties = await line.call("GET", "/v1/parties", answer=Parties)
    except MasqueradeError as caught:  # an older version does not have this call
        return [
            warning(
                "peers",
                f"{coordinator} does not tell whom it knows: {words_of(caught)}",
                "compare your trust store with the other parties' stewards by hand",
            )
        ]
    others = {name: each for name, each in sorted(told.fingerprints.items()) if name != identity.name}
    checks = [_compared(name, known, coordinator, trust, folder) for name, known in others.items()]
    return checks or [warning("peers", f"{coordinator} has no other party", "a session needs two at least")]


def _compared(name: str, known: str, coordinator: str, trust: TrustStore, folder: Path) -> Check:
    name, known = one_line(name), one_line(known)  # sent by another machine
    file = folder / f"{name}.pem"
    if name not in trust.names:
        return warning(
            f"peer {name}",
            f"is not in {folder}: no session together with it",
            f"to compute with it, {trusting('FILE', folder, name)} ({coordinator} knows {known})",
        )
    ours = trust.fingerprint(name)
    if ours != known:
        return error(
            f"peer {name}",
            f"its certificate in {file} has the fingerprint {ours}, and {coordinator} knows {known}: no contract with "
            "it can be signed here",
            f"ask the steward of {name} which of the two is right; replace it by `masquerade identity trust add "
            f"FILE --store {folder} --replace`, or tell the operator of {coordinator}",
        )
    return fine(f"peer {name}", f"has the certificate here that {coordinator} knows, too")


def _heard(name: str, address: str, health: Health, before: float, after: float) -> list[Check]:
    checks = []
    if health.name != name:
        told = f"at {address}: calls itself {health.name}"
        return [unreachable(f"peer {name}", told, "correct its address or its name")]
    checks.append(fine(f"peer {name}", f"answers at {address}, and accepts our certificate"))
    checks.append(clock_check(name, health.now, before, after))
    if health.protocol != PROTOCOL_VERSION:
        older = "we" if health.protocol > PROTOCOL_VERSION else name
        told = f"{name} speaks protocol {health.protocol}, we speak {PROTOCOL_VERSION}"
        advice = (
            "update Masquerade here" if older == "we" else f"ask the steward of {name} to update Masquerade"
        )
        checks.append(error(f"version {name}", told, advice))
    elif health.version != __version__:
        told = f"{name} has Masquerade {health.version}, we have {__version__}, with the same protocol"
        checks.append(warning(f"version {name}", told, "update the older one when you can"))
    else:
        checks.append(fine(f"version {name}", f"Masquerade {health.version}, protocol {health.protocol}"))
    return checks


def clock_check(name: str, now: float, before: float, after: float, grain: float = 0.0) -> Check:
    """Check how far a clock is off, at least: it was read between `before` and `after`, with resolution `grain`."""
    ahead = now - after
    behind = before - now - grain
    difference = max(ahead, behind, 0.0)
    side = "ahead of" if ahead > behind else "behind"
    if difference < DIFFERS:
        return fine(f"clock {name}", "agrees with ours")
    told = f"{difference:.0f} s {side} ours"
    advice = "let both machines take their time from the network (NTP)"
    if difference < TOO_MUCH:
        return warning(f"clock {name}", told, advice)
    return error(f"clock {name}", f"{told}; tokens and certificates are judged by the clock", advice)
