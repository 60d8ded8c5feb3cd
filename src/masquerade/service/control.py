"""Control messages between the coordinator and the party nodes, apart from the protocol itself.

    GET    /v1/health                       -> Health
    GET    /v1/datasets                     -> Published
    POST   /v1/offers       AskOffer        -> Offer | Refusal
    POST   /v1/contracts    AskSignature    -> Signature | Pending | Refusal
    POST   /v1/sessions     Prepare         -> Ready | Refusal
    POST   /v1/sessions/{contract}/start    Start -> Progress
    GET    /v1/sessions/{contract}          -> Progress
    DELETE /v1/sessions/{contract}          -> Progress
    POST   /v1/sessions/{contract}/decline  -> Noted

are served by a node; the coordinator serves `/v1/health`, `POST /v1/datasets` where nodes push what they publish, and
`GET /v1/parties` (Parties), with which a node compares its trust store; nobody takes a certificate from it. None of
these messages holds a value of a table. Each peer is identified by its pinned certificate.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from masquerade.errors import Problem
from masquerade.forms.json import read_json
from masquerade.net.channel import PROTOCOL_VERSION
from masquerade.net.progress import Stage
from masquerade.service.card import SchemaCard
from masquerade.service.plain_text import insist_on_plain
from masquerade.service.signing import SignedContract
from masquerade.service.terms import PriceList


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


class Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ready"):
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
