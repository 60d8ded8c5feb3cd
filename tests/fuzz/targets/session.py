"""One field of one message of a session is another: the parties blame somebody, say no, or make a sound release.

The first bytes choose the method, the sender, the message, the field and the place in it; the rest is written there.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import pyarrow as pa

from contract.people import SCHEMA, STEPWISE, people
from contract.test_session_methods import MODELS, SESSIONS, refusals
from fuzz.oracle import accept
from masquerade.errors import AnswerIsNo, DataError, PeerError
from masquerade.methods import methods_between_parties
from masquerade.net import Message
from masquerade.net.memory import Deadlock, run_together
from masquerade.protocol import ASSEMBLER, Assembly, SessionMethod
from protocol.party_scripts import party_script
from protocol.tampering import tampering

FRAME = pa.Table.from_pylist(people(16, seed=16))
REQUIREMENT = MODELS[0]
METHODS = [
    (method, chosen)
    for method in methods_between_parties()
    for chosen in (
        {"vertical tds": [{}, {"argmax": "plain"}], "horizontal mondrian": [{}, {"third_party": "trusted"}]}.get(
            f"{method.arrangement} {method.name}", [{}]
        )
    )
]
_HEAD = 6


def fuzz(data: bytes) -> None:
    if len(data) < _HEAD:
        return
    which, who, at, field, place, last = data[:_HEAD]
    scripts = scripts_of(*METHODS[which % len(METHODS)])
    parties = [name for name in scripts if name != ASSEMBLER]
    liar, sent = parties[who % len(parties)], count()

    def tamper(message: Message) -> Message:
        return message if next(sent) != at else changed(message, field, place * 256 + last, data[_HEAD:])

    scripts[liar] = tampering(scripts[liar], tamper)
    # A deadlock: over a network, silence ends the session. DataError: classes that seem to differ name both parties.
    with suppress(PeerError, AnswerIsNo, DataError, Deadlock):
        release = run_together(scripts)[ASSEMBLER]
        assert all(verdict.holds for verdict in release.verdicts)
        assert release.table.num_rows <= FRAME.num_rows
        accept()


def scripts_of(method: type[SessionMethod], chosen: dict[str, Any]) -> dict[str, Any]:
    """The parts of all parties and of the assembler in a session of some people."""
    session = next(iter(SESSIONS[method.arrangement].values()))
    schema = next(each for each in (SCHEMA, STEPWISE) if not refusals(method, chosen, REQUIREMENT, session, each))
    made = method(**chosen).fitted(REQUIREMENT.parts, session.m, "class")
    contract = session.contract(made, REQUIREMENT, schema)
    scripts: dict[str, Any] = {ASSEMBLER: made.assembler(Assembly(contract, schema))}
    for name in session.parties:
        scripts[name] = party_script(name, contract, *session.table_of(name, contract, FRAME, schema))
    return scripts


def changed(message: Message, field: int, place: int, new: bytes) -> Message:
    """The message with some bytes, or a number, of one of its fields replaced."""
    fields = message.__struct_fields__
    if not fields:
        return message
    name = fields[field % len(fields)]
    old = getattr(message, name)
    if isinstance(old, bytes):
        cut = place % (len(old) + 1)
        value: object = old[:cut] + new + old[cut + len(new) :] if new else old[:cut]
    elif isinstance(old, int) and not isinstance(old, bool):
        value = int.from_bytes(new[:7], "big", signed=True)
    elif isinstance(old, tuple) and old and all(isinstance(each, bytes) for each in old):
        one = place % len(old)
        value = (*old[:one], new, *old[one + 1 :])
    elif isinstance(old, tuple):
        value = old[: place % (len(old) + 1)]
    else:
        return message
    return msgspec.structs.replace(message, **{name: value})
