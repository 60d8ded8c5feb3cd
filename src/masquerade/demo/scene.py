"""The demo's parties, what is asked of them, and configurations for servers that all run on this machine."""

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
from pyarrow.types import is_floating, is_integer

from masquerade.data import MOST_PEOPLE, people_taxonomies, write_table
from masquerade.errors import ParameterError

HOST = "127.0.0.1"


@dataclass(frozen=True)
class PartyDataset:
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
    kinds = {
        field.name: "INTEGER" if is_integer(field.type) else "REAL" if is_floating(field.type) else "TEXT"
        for field in table.schema
    }
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


# --- scene --------------------------------------------------------------------------------------------------
# The demo's story: a bank, an insurer and a clinic, what each offers and requires, and what an analyst asks for.

ANALYST, ADMIN = "ana", "admin"
PURPOSE = "research"
LEAST_K = 10
FEWEST_PEOPLE = 100

# How each attribute may be generalised, as [attributes.NAME] of a job or of a party's configuration.
_ATTRIBUTES = {
    "birth_date": 'type = "date"\nmin = 1930-01-01\nmax = 2010-01-01',
    "sex": 'taxonomy = "flat"',
    "town": 'taxonomy = "taxonomies/town.csv"',
    "hours": 'type = "continuous"\ntaxonomy = "taxonomies/hours.csv"',
    "job": 'taxonomy = "taxonomies/job.yaml"',
    "education": 'taxonomy = "taxonomies/education.csv"',
    "salary": 'type = "continuous"\nmin = 0\nmax = 1000',
}
# Few enough that each stays useful where every record is alike with nine others in all of them together.
_WANTED = ["birth_date", "sex", "hours", "job"]
# What is left open would be cut by what tells about the class first, which spends detail on what predicts a loan.
_METHOD = {"name": "mondrian", "choose": "certainty"}
# Models, by the name of their file. Their attributes are categories, or numbers with fixed intervals.
MODELS: Mapping[str, str] = {"tree": "id3", "net": "bayes-net"}
_LEARNED_FROM = ["sex", "hours", "education"]
_L_DIVERSITY = {"model": "l-diversity", "qid": _WANTED, "sensitive": "disease", "l": 3}

_POLICY = f"""\
access = "private"                       # only these may ask, and be given a release
users = ["{ANALYST}"]
purposes = ["{PURPOSE}"]
# Models that may be learned, and how many: a tree and a net. With whom, and for how many, common records are found.
learn = {{ methods = {json.dumps(list(MODELS.values()))}, models = 50 }}
alignments = {{ per_week = 500, identifiers_per_week = 100_000_000 }}
least_k = {LEAST_K}                             # no release has smaller groups,
joint_qid = "all"                        # over all attributes of all parties together
sessions = 4                             # at once
show_progress = true                     # the coordinator may watch the stages
allow_rerelease = true                   # a playground: in earnest, a second release can break the first
"""


def _holding(dataset: str, file: str, names: Sequence[str], policy: str, **more: Any) -> PartyDataset:
    taxonomies = {name: text for name, text in people_taxonomies().items() if name.partition(".")[0] in names}
    attributes = {name: _ATTRIBUTES[name] for name in names}
    return PartyDataset(dataset, file, "ssn", attributes, _POLICY + policy, taxonomies=taxonomies, **more)


HOLDINGS: Mapping[str, PartyDataset] = {
    "bank": _holding(
        "customers",
        "bank.db",
        ["job", "education", "salary"],
        "share_class = true                       # the others may learn whose loan was approved\n"
        "\n[price]  # cents\nper_attribute = 500\n",
        class_name="approved",
    ),
    "insurer": _holding(
        "insured", "insured.parquet", ["town", "hours"], "\n[price]\nper_attribute = 300\nper_record = 1\n"
    ),
    "clinic": _holding(
        "patients",
        "patients.csv",
        ["birth_date", "sex"],
        "\n[price]\nper_attribute = 500\nattributes = { disease = 2000 }\n"
        "\n[[privacy]]  # whenever the disease is released\n"
        'model = "l-diversity"\nsensitive = "disease"\nl = 3\n',
        sensitive=["disease"],
    ),
}


def checked_people(people: int) -> int:
    """Check the number of people to generate, and return it."""
    if not FEWEST_PEOPLE <= people <= MOST_PEOPLE:
        raise ParameterError(
            f"--people: must be a whole number from {FEWEST_PEOPLE:,} to {MOST_PEOPLE:,}; got {people:,}"
        )
    return people


def request(people: int) -> dict[str, Any]:
    """Return the analyst's request: a few attributes of all three, with less privacy than the parties require."""
    return {
        "purpose": PURPOSE,
        "attributes": [*_WANTED, "disease"],
        "class": "approved",
        "algorithm": _METHOD,
        "most_error": 0.4,
        "budget": 10_000 + 2 * people,
        "show_progress": True,
        "privacy": [{"model": "k-anonymity", "qid": _WANTED, "k": 5}, _L_DIVERSITY],
    }


def model_request(model: str, people: int) -> dict[str, Any]:
    """Return the analyst's request for one of `MODELS`: what an attribute of each party tells about the class."""
    return {
        "purpose": PURPOSE,
        "attributes": _LEARNED_FROM,
        "class": "approved",
        "algorithm": {"name": MODELS[model]},
        "budget": 10_000 + 2 * people,
    }


def trusted_job() -> str:
    """Return a job for the joined table, which nobody has, on the parties' agreed terms: it makes the same release."""
    agreed = {"model": "k-anonymity", "qid": _WANTED, "k": LEAST_K}
    lines = [
        "# What a trusted party with everybody's data would do. The demo's parties make the same release without one.",
        '[data]\nsource = "people.csv"\n',
        *(f"[attributes.{name}]\n{_ATTRIBUTES[name]}\n" for name in _WANTED),
        "[attributes.disease]\n",  # so that it stands before the class, as in the request
        toml_table("roles", {"class": "approved", "sensitive": ["disease"], "identifiers": ["ssn", "name"]}),
        *(toml_table("privacy", each).replace("[privacy]", "[[privacy]]") for each in (agreed, _L_DIVERSITY)),
        # Between parties the default where a requirement is on another's sensitive values.
        toml_table("algorithm", {**_METHOD, "merge": "small"}),
        '[output]\ntable = "release.csv"\nreport = "report.html"\n',
    ]
    return "\n".join(lines)
