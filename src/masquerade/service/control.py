"""What the coordinator and the party nodes say to each other, apart from the protocol itself.

    GET    /v1/health                       -> Health
    GET    /v1/datasets                     -> Published
    POST   /v1/offers       AskOffer        -> Offer | Refusal
    POST   /v1/contracts    AskSignature    -> Signature | Pending | Refusal
    POST   /v1/sessions     Prepare         -> Ready | Refusal
    POST   /v1/sessions/{contract}/start    Start -> Progress
    GET    /v1/sessions/{contract}          -> Progress
    DELETE /v1/sessions/{contract}          -> Progress

are a node's; the coordinator has `/v1/health`, `POST /v1/datasets` where nodes push what they publish, and
`GET /v1/parties` (Parties), with which a node compares its trust store; nobody takes a certificate from it. None of
these messages holds a value of a table. Whoever is at the other end is known by its pinned certificate.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from masquerade.errors import ParameterError, Problem
from masquerade.net.channel import PROTOCOL_VERSION
from masquerade.net.progress import Stage
from masquerade.service.card import SchemaCard
from masquerade.service.plain_text import insist_on_plain
from masquerade.service.signing import SignedContract


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is there, since when its certificate holds, and what its clock says (seconds since 1970)."""

    name: str
    version: str
    now: float
    certificate_until: int
    protocol: int = PROTOCOL_VERSION


class PublishedDataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dataset's card, and who may ask for it."""

    card: SchemaCard
    public: bool = False
    users: tuple[str, ...] = ()
    purposes: tuple[str, ...] = ()
    sessions: int = 1  # at most so many at once


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a party publishes; `replaced` are commitments of snapshots that are no longer its data."""

    party: str
    datasets: tuple[PublishedDataset, ...]
    replaced: tuple[str, ...] = ()


class Parties(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The coordinator's parties, each with the fingerprint of the certificate that it pinned: what contracts name."""

    fingerprints: dict[str, str]


class AskOffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What would you offer for this request?"""

    session: str
    dataset: str
    request: dict[str, Any]  # Request.content()


class AskSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sign this contract, if you accept it."""

    session: str
    contract: SignedContract


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="signature"):
    """The party's signature over the contract's hash, hexadecimal."""

    signature: str


class Pending(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="pending"):
    """A person at the party has to approve it first; ask again."""

    reason: str


class Prepare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All have signed: read your table and listen. The token is the coordinator's word for this contract."""

    session: str
    contract: SignedContract
    token: str


class Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ready"):
    """Where the party's peers reach it in this session."""

    address: str


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everybody's address in this session, the coordinator's own among them."""

    addresses: dict[str, str]


class SeenStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A specialization of the party's own, told only where the contract grants it."""

    round: int
    attribute: str
    value: str
    children: tuple[str, ...]


State = Literal["ready", "running", "done", "failed", "cancelled"]


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a party is in a session. `kind` names the class of what went wrong, `culprit` the party at fault."""

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


def read_said(data: bytes, kind: Any, source: str) -> Any:
    """What somebody said, of one of the kinds above, in plain text; ParameterError that names the source."""
    try:
        said = msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParameterError(f"{source}: {error}") from None
    insist_on_plain(msgspec.json.decode(data), source)
    return said
