"""Diagnose why a peer does not answer: asyncio says little about a failed TLS handshake, so we try one ourselves.

The probe trusts nothing and sends no data: it looks at the certificate presented and at whether ours is accepted.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    Bug,
    ClusterError,
    MasqueradeError,
    NoCommonRecords,
    PeerError,
    PeerRefused,
    PeerUnreachable,
    Problem,
    RequirementUnreachable,
)
from masquerade.net.channel import PartyAddress
from masquerade.net.identity import Identity, TrustStore, fingerprint, out_of_date
from masquerade.net.tls_stream import looking

# --- first cause --------------------------------------------------------------------------------------------
# Find why a session failed, from how each party ended and what we saw ourselves. No I/O here.
#
# In order of precedence: a party's own problem; our own problem; a party that is gone; a party that another
# one blames, first-hand reports before hearsay; a party that gave up.

_OWN = (BadInput, AnswerIsNo, ClusterError, Bug)
_OF_ALL_RECORDS = (RequirementUnreachable, NoCommonRecords)  # true of everybody, whoever was the first to find out
_SILENT = "gave up; its own log says why"


def first_cause(ended: Mapping[str, MasqueradeError | None], ours: MasqueradeError | None = None) -> MasqueradeError:
    """Return the error to end a session with.

    `ended` maps each party to the error it ended with, None if it did not fail, or a PeerUnreachable about itself if it
    cannot be asked. `ours` is why we gave up; it overrides what parties say of us.
    """
    told = {name: error for name, error in ended.items() if error is not None}
    for kind in _OWN:
        guilty = {name: error for name, error in told.items() if isinstance(error, kind)}
        if guilty:
            return _own_problem(guilty)
    if ours is not None and not isinstance(ours, PeerError):
        return ours
    for name, error in told.items():
        if isinstance(error, PeerUnreachable) and error.peer == name:
            return error
    blamed = _blamed(ended)
    if isinstance(ours, PeerError) and (
        blamed is None or (ours.peer == blamed.peer and _is_hearsay(ours) <= _is_hearsay(blamed))
    ):
        return ours
    if blamed is not None:
        return blamed
    for name, error in told.items():
        words = [str(each.at(party=None) if each.party == name else each) for each in error.problems]
        return PeerError(name, *(words or [_SILENT]))
    return PeerError(next(iter(ended)), _SILENT)


def _own_problem(guilty: Mapping[str, MasqueradeError]) -> MasqueradeError:
    """Merge the parties' own problems; each names its party, unless it is everybody's or has a source."""
    first, *others = guilty.values()
    if all(isinstance(each, _OF_ALL_RECORDS) and each.problems for each in guilty.values()):
        return type(first)(*dict.fromkeys(problem for each in guilty.values() for problem in each.problems))
    agreed = all(each.problems == first.problems for each in others)
    if first.problems and agreed and (others or all(each.source for each in first.problems)):
        return type(first)(*first.problems)
    return type(first)(
        *(
            problem.at(party=name)
            for name, error in guilty.items()
            for problem in error.problems or [Problem("its own log says why")]
        )
    )


def _blamed(ended: Mapping[str, MasqueradeError | None]) -> PeerError | None:
    """Return the most direct report by one party against another, or against an unidentified one (peer "")."""
    words = [
        error
        for name, error in ended.items()
        if isinstance(error, PeerError) and error.peer != name and error.peer in ("", *ended)
    ]
    return min(words, key=_is_hearsay, default=None)


def _is_hearsay(error: PeerError) -> bool:
    """Return whether a party merely repeats another's report."""
    return any(problem.reported_by for problem in error.problems)


# --- probe --------------------------------------------------------------------------------------------------

_PATIENCE = 2.0
_LOOK_AGAIN = 0.2


class ProbeResult(Enum):
    """What is at an address."""

    NOBODY = "nobody answers"
    MUTE = "something accepts the connection and then says nothing"
    HANGS_UP = "something accepts the connection and breaks it off"
    NO_TLS = "something answers that does not speak TLS"
    STRANGER = "another certificate than the pinned one"
    OUT_OF_DATE = "the pinned certificate, which is not valid now"
    REFUSES_US = "it refuses our certificate"
    FINE = "the peer, and it accepts us"


@dataclass(frozen=True)
class Diagnosis:
    """A finding with its evidence."""

    finding: ProbeResult
    shown: bytes = b""  # the certificate (PEM) of whoever has proved to hold its key, if anybody has

    @property
    def is_final(self) -> bool:
        """Whether retrying is pointless."""
        lasting = (ProbeResult.NO_TLS, ProbeResult.STRANGER, ProbeResult.OUT_OF_DATE, ProbeResult.REFUSES_US)
        return self.finding in lasting


async def probe(peer: PartyAddress, identity: Identity, trust: TrustStore) -> Diagnosis:
    """Find out what answers at a peer's address."""
    diagnosis = await _look(peer, identity, trust)
    if diagnosis.finding is ProbeResult.REFUSES_US:  # or it was just stopping: then nobody answers next time
        await asyncio.sleep(_LOOK_AGAIN)
        diagnosis = await _look(peer, identity, trust)
    return diagnosis


async def _look(peer: PartyAddress, identity: Identity, trust: TrustStore) -> Diagnosis:
    host, _, port = peer.address.rpartition(":")
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, ValueError, TimeoutError):
        return Diagnosis(ProbeResult.NOBODY)
    try:
        async with asyncio.timeout(_PATIENCE):
            return await _shake_hands(reader, writer, peer, identity, trust)
    except TimeoutError:
        return Diagnosis(ProbeResult.MUTE)
    finally:
        writer.transport.abort()


async def _shake_hands(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    peer: PartyAddress,
    identity: Identity,
    trust: TrustStore,
) -> Diagnosis:
    if_it_hangs_up, shown = ProbeResult.HANGS_UP, b""
    try:
        await writer.start_tls(looking(identity), server_hostname=peer.name)
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        shown = x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)
        if shown != trust.pin(peer.name):
            return Diagnosis(ProbeResult.STRANGER, shown)
        if out_of_date(shown) is not None:
            return Diagnosis(ProbeResult.OUT_OF_DATE, shown)
        # TLS 1.3: the other end checks our certificate only now. If it accepts it, it sends first; otherwise it closes
        # the connection without sending anything.
        if_it_hangs_up = ProbeResult.REFUSES_US
        return Diagnosis(ProbeResult.FINE if await reader.read(1) else if_it_hangs_up, shown)
    except ssl.SSLEOFError:
        return Diagnosis(if_it_hangs_up, shown)
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            return Diagnosis(ProbeResult.REFUSES_US, shown)
        return Diagnosis(ProbeResult.NO_TLS)
    except OSError:
        return Diagnosis(if_it_hangs_up, shown)


def explain(
    peer: PartyAddress, diagnosis: Diagnosis, identity: Identity, trust: TrustStore, seconds: float | None = None
) -> PeerError:
    """Return the error for a diagnosis that is final or came after `seconds` of trying (None: a single attempt)."""
    tried = f", tried for {seconds:g} s" if seconds is not None else ""
    kind: type[PeerError] = PeerRefused
    match diagnosis.finding:
        case ProbeResult.NO_TLS:
            text = " does not speak TLS; is another program at this address, or one without TLS?"
        case ProbeResult.STRANGER:
            text = (
                " shows a certificate that is not the one in our trust store; compare the fingerprints with its"
                f" steward: shown {fingerprint(diagnosis.shown)}, trusted {trust.fingerprint(peer.name)}"
            )
        case ProbeResult.OUT_OF_DATE:
            text = f" shows a certificate that {out_of_date(diagnosis.shown)}; it must be renewed"
        case ProbeResult.REFUSES_US:
            text = (
                " refuses our certificate; its trust store should have the one with the fingerprint"
                f" {identity.fingerprint}, and its clock should be right"
            )
        case ProbeResult.NOBODY:
            kind, text = PeerUnreachable, f": nobody answers{tried}; is it running?"
        case ProbeResult.MUTE | ProbeResult.HANGS_UP:
            does = "says nothing" if diagnosis.finding is ProbeResult.MUTE else "breaks off"
            program = "is it frozen, or is another program at this address?"
            kind, text = PeerUnreachable, f": accepts the connection, then {does}{tried}; {program}"
        case ProbeResult.FINE:
            within = f" within {seconds:g} s" if seconds is not None else ""
            kind, text = PeerUnreachable, f": is there, but has not joined the session{within}; its log says why"
    return kind(peer.name, f"at {peer.address}{text}")
