"""Configurations of a coordinator and party nodes that all run on this machine, for the demo and for trials."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from masquerade.data.write import write_table
from masquerade.errors import ParameterError

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Holding:
    """A party's dataset, with its file, attributes and policy.

    `attributes` are the texts of the tables [attributes.NAME]; `policy` is the text of the policy's table.
    """

    dataset: str
    file: str  # .csv, .parquet, or .db: a table of the dataset's name in a SQLite database
    id: str
    attributes: Mapping[str, str]
    policy: str
    sensitive: Sequence[str] = ()
    class_name: str | None = None
    taxonomies: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path, table: pa.Table) -> None:
        """Write the table, and the taxonomies into `taxonomies/`."""
        if self.file.endswith(".db"):
            write_sqlite(table, folder / self.file, self.dataset)
        else:
            write_table(table, folder / self.file)
        for name, text in self.taxonomies.items():
            (folder / "taxonomies").mkdir(exist_ok=True)
            (folder / "taxonomies" / name).write_text(text, encoding="utf-8")

    def configuration(self, party: str, address: str, coordinator: str) -> str:
        """Return the text of the party's configuration file."""
        at = f"datasets.{self.dataset}"
        source = [f"source = {_toml(self.file)}"]
        if self.file.endswith(".db"):
            # The order of the rows belongs to a snapshot.
            query = f"SELECT * FROM {self.dataset} ORDER BY {self.id}"  # noqa: S608 # the names are our own
            source = [f"source = {_toml(f'sqlite:///{self.file}')}", f"query = {_toml(query)}"]
        lines = [
            f"name = {_toml(party)}",
            f"address = {_toml(address)}  # where the coordinator reaches this node",
            'identity = "."  # identity.pem and key.pem',
            'trust = "trust"  # one certificate a peer: nobody else is let in',
            'state = "state"  # audit log, ledger, secrets',
            "",
            "[coordinator]",
            'name = "coordinator"',
            f"address = {_toml(coordinator)}",
            "",
            f"[{at}]",
            *source,
            f"id = {_toml(self.id)}",
            *([f"sensitive = {_toml(list(self.sensitive))}"] if self.sensitive else []),
            *([f"class = {_toml(self.class_name)}"] if self.class_name else []),
        ]
        for name, text in self.attributes.items():
            lines += ["", f"[{at}.attributes.{name}]", text.strip()]
        policy = self.policy.replace("[[privacy]]", f"[[{at}.policy.privacy]]")
        lines += ["", f"[{at}.policy]", policy.replace("[price]", f"[{at}.policy.price]").strip()]
        return "\n".join(lines) + "\n"


def coordinator_configuration(party_address: str, parties: Mapping[str, str], more: str = "") -> str:
    """Return the text of the coordinator's configuration file; its public port is any free one."""
    lines = [
        'name = "coordinator"',
        f'address = "{HOST}:0"  # people: console and API; 0: any free port',
        f"party_address = {_toml(party_address)}  # nodes",
        'identity = "."',
        'trust = "trust"',
        'state = "state"  # database, releases, audit log',
        *more.strip().splitlines(),
    ]
    for name, address in parties.items():
        lines += ["", f"[parties.{name}]", f"address = {_toml(address)}"]
    return "\n".join(lines) + "\n"


def toml_table(name: str, content: Mapping[str, Any]) -> str:
    """Format a TOML table; a list of tables in it is written in double brackets."""
    plain, tables = [f"[{name}]"], []
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            for each in value:
                entry = [f"{inner} = {_toml(this)}" for inner, this in each.items()]
                tables += ["", f"[[{name}.{key}]]", *entry]
        else:
            plain.append(f"{key} = {_toml(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def free_addresses(count: int) -> list[str]:
    """Return `count` addresses at which nothing listens. Another process may take one before it is used: then retry."""
    with ExitStack() as opened:
        found = []
        for _ in range(count):
            listener = opened.enter_context(closing(socket.socket()))
            listener.bind((HOST, 0))
            found.append(f"{HOST}:{listener.getsockname()[1]}")
        return found


def is_taken(address: str) -> bool:
    """Return whether something already listens at an address."""
    host, _, port = address.rpartition(":")
    with closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, int(port)))
        except OSError:
            return True
    return False


def write_sqlite(table: pa.Table, path: Path, name: str) -> None:
    """Write a table to a new SQLite database, with dates as texts, as is usual in SQLite."""
    kinds = {field.name: _affinity(field.type) for field in table.schema}
    columns = ", ".join(f'"{column}" {kind}' for column, kind in kinds.items())
    rows = zip(*(_plain(table[column]) for column in kinds), strict=True)
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute(f'CREATE TABLE "{name}" ({columns})')
            places = ", ".join("?" for _ in kinds)
            insert = f'INSERT INTO "{name}" VALUES ({places})'  # noqa: S608 # the name is ours, the cells are bound
            database.executemany(insert, rows)
            database.commit()
    except sqlite3.OperationalError as error:  # a full disk, for one
        raise ParameterError(f"{path}: cannot be written: {error}") from None


def _affinity(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "INTEGER"
    return "REAL" if pa.types.is_floating(kind) else "TEXT"


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date(column.type):
        return [None if each is None else each.isoformat() for each in column.to_pylist()]
    cells: list[Any] = column.to_pylist()
    return cells


def _toml(value: Any) -> str:
    """Format a value as TOML: texts, numbers, booleans, lists, inline tables."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # JSON's texts, numbers and booleans are TOML's too
