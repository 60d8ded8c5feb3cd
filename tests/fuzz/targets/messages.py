"""Any bytes as a message of each kind between parties: a message, or the ValueError that names its sender later."""

from __future__ import annotations

import pkgutil
from contextlib import suppress
from importlib import import_module

import pyarrow as pa

import masquerade.protocol
from fuzz.oracle import PEER, allowing
from fuzz.targets.session import METHODS, scripts_of
from masquerade.errors import PeerError
from masquerade.net import Message
from masquerade.net.memory import Wire, run_together
from masquerade.net.script import decode, encode
from masquerade.protocol.hand_in import Columns, read_columns, write_columns
from masquerade.protocol.providers.messages import ProviderRecords, Rows, read_rows, read_schema

for module in pkgutil.walk_packages(masquerade.protocol.__path__, "masquerade.protocol."):
    import_module(module.name)
KINDS = tuple(Message.__subclasses__())
NAMES = ("age", "job")


def fuzz(data: bytes) -> None:
    for kind in KINDS:
        with suppress(ValueError):
            message = decode(data, [kind])
            assert decode(encode(message), [kind]) == message or "nan" in repr(message)
            with allowing(PeerError):
                read(message)


def read(message: Message) -> None:
    """Read what a message holds beyond its fields."""
    match message:
        case Columns():
            read_columns(message, PEER, NAMES)
        case Rows(table=table):
            read_rows(table, PEER, NAMES)
        case ProviderRecords(table=table, schema=schema):
            read_rows(table, PEER, NAMES)
            read_schema(schema, PEER, [each.name for each in schema])


def seeds() -> dict[str, bytes]:
    """The shortest message of each kind in a session of each method, and tables of the columns that are agreed here."""
    table = write_columns(pa.table({"age": ["[0, 40)", "[40, 99)"], "job": ["x", "y"]}))
    found = {"columns-agreed": encode(Columns(table, (), {}, (), {})), "rows-agreed": encode(Rows(table, {}, (), {}))}
    for method, chosen in METHODS:
        wire = Wire()
        run_together(scripts_of(method, chosen), wire)
        for heard in sorted(wire.heard, key=lambda each: len(each.data)):
            found.setdefault(heard.kind, heard.data)
    return {name: data for name, data in found.items() if len(data) <= 8192}
