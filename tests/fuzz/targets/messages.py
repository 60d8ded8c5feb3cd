"""Any bytes as a message of each kind between parties: a message, or the ValueError that names its sender later."""

from __future__ import annotations

import pkgutil
from contextlib import suppress
from importlib import import_module

import masquerade.protocol
from fuzz.oracle import PEER, allowing
from masquerade.errors import PeerError
from masquerade.net.script import Message, decode, encode
from masquerade.protocol.collaborate.messages import Records, Rows, read_rows
from masquerade.protocol.collaborate.written_schema import read_schema
from masquerade.protocol.columns import Columns, read_columns

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
        case Records(table=table, schema=schema):
            read_rows(table, PEER, NAMES)
            read_schema(schema, PEER, [each.name for each in schema])
