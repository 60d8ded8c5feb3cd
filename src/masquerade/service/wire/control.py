"""Control messages between the coordinator and the party nodes, apart from the protocol itself.

    GET    /v1/health                       -> Health
    GET    /v1/datasets                     -> Published
    POST   /v1/offers       AskOffer        -> Offer | Refusal
    POST   /v1/contracts    AskSignature    -> Signature | Pending | Refusal
    POST   /v1/sessions     Prepare         -> ReadyAt | Refusal
    POST   /v1/sessions/{contract}/start    Start -> Progress
    GET    /v1/sessions/{contract}          -> Progress
    DELETE /v1/sessions/{contract}          -> Progress
    POST   /v1/sessions/{contract}/decline  -> Noted

are served by a node; the coordinator serves `/v1/health`, `POST /v1/datasets` where nodes push what they publish, and
`GET /v1/parties` (Parties), with which a node compares its trust store; nobody takes a certificate from it. None of
these messages holds a value of a table. Each peer is identified by its pinned certificate.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

import msgspec

from masquerade.audit import CONTROL, AuditLog
from masquerade.errors import MasqueradeError, ParameterError, PeerBrokeProtocol, Problem
from masquerade.forms import json_decoder, read_json
from masquerade.net import PROTOCOL_VERSION, Direction
from masquerade.progress import Stage
from masquerade.service.agree.signing import SignedContract
from masquerade.service.agree.terms import PriceList
from masquerade.service.canonical import insist_on_plain
from masquerade.service.cards import SchemaCard
from masquerade.service.wire.problems import error_of, read_problems


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who answers, until when its certificate is valid, and its clock (seconds since 1970)."""

    name: str
    version: str
    now: float
    certificate_until: int
    protocol: int = PROTOCOL_VERSION


class PublishedDataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dataset's card, who may ask for it, what for, and at what price."""

    card: SchemaCard
    public: bool = False
    users: tuple[str, ...] = ()
    purposes: tuple[str, ...] = ()
    sessions: int = 1  # at most this many at once
    price: PriceList = PriceList()


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a party publishes; `replaced` lists the commitments of snapshots that are no longer its data."""

    party: str
    datasets: tuple[PublishedDataset, ...]
    replaced: tuple[str, ...] = ()


class Parties(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The coordinator's parties, each with the fingerprint of its pinned certificate, as contracts name them."""

    fingerprints: dict[str, str]


class AskOffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask what the party would offer for a request, or for a roll-up of an earlier release that answers it."""

    session: str
    dataset: str
    request: dict[str, Any]  # Request.content()
    source: str | None = None  # the hash of the earlier release's terms
    preview: bool = False  # no session follows from it: nothing is kept ready


class AskSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask the party to sign this contract, if it accepts it."""

    session: str
    contract: SignedContract


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="signature"):
    """The party's signature over the contract's hash, hexadecimal."""

    signature: str


class Pending(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="pending"):
    """A person at the party has to approve the contract first; ask again later."""

    reason: str


class Prepare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All parties have signed: read the table and listen. The token authorises this contract for the coordinator."""

    session: str
    contract: SignedContract
    token: str


class ReadyAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ready"):
    """The address at which peers reach the party in this session."""

    address: str


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every participant's address in this session, including the coordinator's."""

    addresses: dict[str, str]


class SeenStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the party's own specializations, reported only where the contract grants it."""

    round: int
    attribute: str
    value: str
    children: tuple[str, ...]


State = Literal["ready", "running", "done", "failed", "cancelled"]


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a party is in a session. `kind` names the error's class, `culprit` the party at fault.

    Unless the contract grants more (`show_progress`), a party tells its state and its round, and once its part is over
    the totals, rounded: no stage, no step, and no figure before the end.
    """

    state: State
    stage: Stage = Stage("")
    round: int = 0
    bytes_sent: int = 0
    messages: int = 0
    seconds: float = 0.0
    steps: tuple[SeenStep, ...] = ()
    problems: tuple[Problem, ...] = ()
    kind: str | None = None
    culprit: str | None = None


class Noted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The party's ledger has it that the client declined what the contract's session made."""


def read_said(data: bytes, kind: Any, source: str) -> Any:
    """Decode a message of one of the kinds above and check its text; raise ParameterError that names the source."""
    said = read_json(data, kind, source)
    insist_on_plain(read_json(data, Any, source), source)
    return said


# --- control audit ------------------------------------------------------------------------------------------
# Control messages (control.py) in the audit log: kind, direction, peer, size and digest of each, never its
# content.
#
# An outgoing message is entered before it is sent, an incoming one before it is acted on; one that cannot
# be entered goes no further. Sender and receiver enter the same digest, of the bytes that were sent. Only
# health probes are left out, and repeated messages while they stay the same: cards that are pulled, or
# pushed to a coordinator that is away, a signature that waits for a person, and progress (ignoring its
# clock).

_SESSION = re.compile(r"/v1/sessions/([^/]+)")
_CONTRACT = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_REMEMBERED = 10_000


class NotNoted(ParameterError):
    """This process's own audit log cannot be written; the peer is not at fault."""


class ControlNotes:
    """Record the control messages of one process."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        # A thread of its own: reading tables may occupy all others, and progress must still be reported.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._last: dict[tuple[Any, ...], object] = {}  # of each repeated kind of message

    async def note(
        self, direction: Direction, peer: str, method: str, path: str, data: bytes, status: int | None = None
    ) -> None:
        """Record a message or, with an HTTP status, the answer to one; raise NotNoted when it must go no further."""
        kind, session = _kind(method, path)
        fields: dict[str, Any] = {
            "digest": hashlib.sha256(data).hexdigest(),
            "direction": direction,
            "kind": kind,
            "peer": peer,
            "session": session,
            "size": len(data),
            "status": status,
        }
        if kind == "GET /v1/health" or self._is_repeated(fields, data):
            return
        work = partial(self._audit.append, CONTROL, fields)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except MasqueradeError as error:
            self._last.clear()
            raise NotNoted(*error.problems) from None

    def _is_repeated(self, fields: Mapping[str, Any], data: bytes) -> bool:
        """Return whether a message of a repeatable kind is the same as the last one of its kind."""
        what = tuple(fields[key] for key in ("direction", "kind", "peer", "session"))
        if fields["kind"] == "POST /v1/contracts":  # several may wait at once
            what = (*what, fields["digest"])
        elif (fields["kind"], fields["status"]) == ("POST /v1/datasets", None):
            pass  # cards are pushed until they are answered
        elif not fields["kind"].startswith("GET "):
            return False
        content = (fields["status"], _without_clock(data))
        same = self._last.pop(what, None) == content
        self._last[what] = content  # the last one again
        while len(self._last) > _MOST_REMEMBERED:
            self._last.pop(next(iter(self._last)))
        return same


def _kind(method: str, path: str) -> tuple[str, str | None]:
    """Return the kind of a message, and the contract in its path, if any."""
    match = _SESSION.match(path)
    if match is None:
        return f"{method} {path}", None
    rest = path[match.end() :]
    session = match[1] if _CONTRACT.fullmatch(match[1]) else None
    return f"{method} /v1/sessions/{{contract}}{rest}", session


def _without_clock(data: bytes) -> bytes:
    """Hash a progress message, ignoring its elapsed seconds."""
    try:
        content: Any = json_decoder(Any).decode(data)
    except (ValueError, RecursionError):  # the receiver says what is wrong with it
        content = None
    if isinstance(content, dict) and "seconds" in content:
        data = msgspec.json.encode({**content, "seconds": None}, order="sorted")
    return hashlib.sha256(data).digest()


# --- control link -------------------------------------------------------------------------------------------
# Control calls to one peer over any transport: `peer_http` over TLS, in memory in tests.
#
#     health = await link.call("GET", "/v1/health", answer=Health)
#
# The peer's answer is checked before it is used. Failures are PeerErrors that name the peer; an error that
# it reports (RFC 9457) is raised again as the exception that it was there, as far as it concerns the
# caller.


class ControlLink(ABC):
    """Calls to one peer; with `notes`, each call and its answer are entered in the audit log."""

    def __init__(self, peer: str, notes: ControlNotes | None = None) -> None:
        self.peer = peer
        self._notes = notes

    @abstractmethod
    async def exchange(self, method: str, path: str, content: bytes | None, timeout: float | None) -> tuple[int, bytes]:
        """Send a request; return the HTTP status and content of the answer. Raise PeerError when none arrives."""

    async def call(
        self, method: str, path: str, said: Any = None, *, answer: Any = None, timeout: float | None = None
    ) -> Any:
        """Return the peer's answer as one of the types in `answer`; None when no answer is expected."""
        content = msgspec.json.encode(said, order="deterministic") if said is not None else None
        if self._notes is not None:
            await self._notes.note("sent", self.peer, method, path, content or b"")
        status, data = await self.exchange(method, path, content, timeout)
        if self._notes is not None:
            await self._notes.note("received", self.peer, method, path, data, status)
        if status >= 400:
            raise self._error(status, data)
        if answer is None:
            return None
        try:
            return read_said(data, answer, f"answered {method} {path} with")
        except ParameterError as error:
            raise PeerBrokeProtocol(self.peer, "; ".join(error.lines)) from None

    def _error(self, status: int, data: bytes) -> Exception:
        problems = read_problems(data) or (Problem(f"answered with status {status}"),)
        theirs = (each if each.party is None else Problem(str(each)) for each in problems)
        failed = PeerBrokeProtocol(self.peer, f"failed: {'; '.join(map(str, problems))}")
        return error_of(status, [each.at(party=self.peer) for each in theirs]) or failed
