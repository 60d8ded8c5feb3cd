"""Any bytes as a peer's answer to each control message: read, a PeerError that names it, or what it refuses."""

from __future__ import annotations

from typing import Any

from fuzz.oracle import PEER, allowing
from fuzz.served import RUNNER
from masquerade.errors import AnswerIsNo, MasqueradeError, ParameterError, PeerError, restored
from masquerade.service.control import Health, Parties, Pending, Progress, Published, Ready, Signature
from masquerade.service.control_link import ControlLink
from masquerade.service.offers import Offer, Refusal

KINDS: tuple[Any, ...] = (
    *(Health, Published, Offer | Refusal, Signature | Pending | Refusal, Ready | Refusal, Progress, Parties),
)


class Link(ControlLink):
    """Answers every call with the same bytes."""

    def __init__(self, status: int, data: bytes) -> None:
        super().__init__(PEER)
        self.answer = status, data

    async def exchange(self, *_said: object) -> tuple[int, bytes]:
        return self.answer


def fuzz(data: bytes) -> None:
    for kind in KINDS:
        with allowing(PeerError):
            said = RUNNER.run(Link(200, data).call("GET", "/v1/any", answer=kind))
            if isinstance(said, Progress):
                assert isinstance(restored(said.kind, said.problems, said.culprit), MasqueradeError)
    for status in (404, 409, 422, 500):
        with allowing(PeerError, AnswerIsNo, ParameterError):
            RUNNER.run(Link(status, data).call("GET", "/v1/any"))
