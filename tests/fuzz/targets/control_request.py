"""Any bytes as each control message to a node and to the coordinator: an answer that is not their own failure."""

from __future__ import annotations

import msgspec

from fuzz.oracle import PEER, accept, scratch
from fuzz.served import RUNNER, ask
from fuzz.targets.contract import signed_contract
from masquerade.audit import AuditLog
from masquerade.service import NodeSettings, StateFolder, open_datasets
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator.directory import party_app
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.node.node import PartyNode
from masquerade.service.node.serving import control_app
from masquerade.service.wire.control import AskOffer, AskSignature, Prepare, Published, PublishedDataset, Start
from masquerade.service.wire.peers import _CALLER
from service.api_server import make_coordinator
from service.parties import BANK
from service.party_nodes import Folder, wish


async def _node() -> PartyNode:
    settings = NodeSettings.load(Folder(scratch()).conf("clinic"))
    state = StateFolder(settings.state)
    state.make()
    node = PartyNode(
        settings, state, AuditLog(state.audit, settings.identity), open_datasets(settings, state, SYSTEM_CLOCK)
    )
    node.notes = None  # the audit log would only grow
    return node


NODE = control_app(RUNNER.run(_node()))
_COORDINATOR = make_coordinator(scratch())
PARTIES = party_app(_COORDINATOR.settings, _COORDINATOR.directory, Wakeup(SYSTEM_CLOCK), SYSTEM_CLOCK)
CONTRACT = "0f" * 32


def fuzz(data: bytes) -> None:
    for path in ("offers", "contracts", "sessions", f"sessions/{CONTRACT}/start"):
        said = ask(NODE, "POST", f"/v1/{path}", b"", (), data, **{_CALLER: "coordinator"})
        _check(*said)
    said = ask(PARTIES, "POST", "/v1/datasets", b"", (), data, **{_CALLER: PEER})
    _check(*said)


def _check(status: int, content: bytes) -> None:
    assert status < 500, content
    if status < 300:
        accept()


def seeds() -> dict[str, bytes]:
    signed = signed_contract()
    published = PublishedDataset(BANK, public=True, users=("ana",))
    said = {
        "offer": AskOffer("s1", "patients", wish().content()),
        "contract": AskSignature("s1", signed),
        "prepare": Prepare("s1", signed, "mqs1.e30.AAAA"),
        "start": Start({PEER: "127.0.0.1:1"}),
        "published": Published(PEER, (published,), ("aa" * 32,)),
    }
    return {name: msgspec.json.encode(each) for name, each in said.items()}
