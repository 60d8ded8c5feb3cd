"""Any bytes as a peer's answer to each control message: read, a PeerError that names it, or what it refuses."""

from __future__ import annotations

from typing import Any

import msgspec

from fuzz.oracle import PEER, allowing
from fuzz.served import RUNNER
from masquerade.errors import AnswerIsNo, MasqueradeError, ParameterError, PeerError, Problem, restored
from masquerade.progress import Stage
from masquerade.service import Health, Parties
from masquerade.service.agree.terms import Offer, Refusal
from masquerade.service.wire.control import (
    ControlLink,
    Pending,
    Progress,
    Published,
    PublishedDataset,
    ReadyAt,
    SeenStep,
    Signature,
)
from masquerade.service.wire.problems import rendered
from service.parties import BANK, offer, policy, request

KINDS: tuple[Any, ...] = (
    *(Health, Published, Offer | Refusal, Signature | Pending | Refusal, ReadyAt | Refusal, Progress, Parties),
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


def seeds() -> dict[str, bytes]:
    problem = Problem("wrong", source="request", key=("privacy", 0, "k"), allowed="a number", found="x")
    said = {
        "offer": offer(policy(), request()),
        "refusal": Refusal(PEER, ("too small",)),
        "signature": Signature("aa"),
        "pending": Pending("a person is asked"),
        "ready": ReadyAt("127.0.0.1:1"),
        "progress": Progress(
            *("failed", Stage("aligning"), 1, 2, 3, 4.5),
            steps=(SeenStep(1, "age", "any", ("young", "old")),),
            problems=(problem,),
            kind="PeerBrokeProtocol",
            culprit="clinic",
        ),
        "health": Health(PEER, "1", 1.5, 4),
        "published": Published(PEER, (PublishedDataset(BANK),)),
        "parties": Parties({PEER: "aa" * 32}),
    }
    return {"problem": rendered(422, [problem]), **{name: msgspec.json.encode(each) for name, each in said.items()}}
