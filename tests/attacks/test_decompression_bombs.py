"""Attack: a peer sends a few bytes that take hundreds of megabytes in memory once they are decoded."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.anonymize import Instruction, PublicState
from masquerade.data import Records
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import TrustStore, run_async, trial_identities
from masquerade.net.memory import run_together
from masquerade.net.script import decode
from masquerade.protocol import ASSEMBLER, Assembly
from masquerade.protocol.assembling import assemble
from masquerade.protocol.hand_in import Columns, read_columns, write_columns
from masquerade.protocol.tds.instruction_code import pack
from masquerade.service import Health, PeerHttp
from masquerade.service.wire.peers import serve
from papers.paper_tables import loan_table
from protocol.party_scripts import party_script
from protocol.tampering import changing
from protocol.test_mashup import LOANS, REQUIREMENT, contract_of

MEGABYTE = 1 << 20
IDS = [str(row).encode() for row in range(34)]


class Peak:
    """The most memory that Python, numpy and Arrow held at once."""

    python = arrow = 0

    @property
    def bytes(self) -> int:
        return self.python + self.arrow


@contextmanager
def peak() -> Iterator[Peak]:
    found, usual, counted = Peak(), pa.default_memory_pool(), pa.system_memory_pool()
    before = counted.max_memory()  # nobody else uses this pool, so that it has not been high yet
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        yield found
    finally:
        found.python = tracemalloc.get_traced_memory()[1]
        found.arrow = counted.max_memory() - before
        tracemalloc.stop()
        pa.set_memory_pool(usual)


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def swollen_text() -> pa.Table:
    """20,000 rows of one name of 64 kB: 1.3 GB of text."""
    return pa.table({"job": pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int8()), ["x" * 65_536])})


def runs() -> pa.Table:
    return pa.table({"job": pa.RunEndEncodedArray.from_arrays(pa.array([2**30], pa.int32()), pa.array(["x"]))})


def views() -> pa.Table:
    return pa.table({"job": pa.array(["x" * 100] * 100, pa.string_view())})


def with_metadata() -> pa.Table:
    return pa.table({"job": ["clerk"]}).replace_schema_metadata({"much": "more"})


NOT_PLAIN = "column job of a kind that no table here has"
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "zstd": (lambda: stream(pa.table({"job": np.zeros(32 * MEGABYTE)}), "zstd"), "it is compressed"),
    "lz4": (lambda: stream(pa.table({"job": np.zeros(MEGABYTE)}), "lz4"), "it is compressed"),
    "compressed names": (
        lambda: stream(pa.table({"job": pa.array(["x" * MEGABYTE]).dictionary_encode()}), "zstd"),
        "it is compressed",
    ),
    "nulls": (lambda: stream(pa.table({"job": pa.nulls(2**31 - 1)})), "at most 20000000 are agreed"),
    "runs": (lambda: stream(runs()), NOT_PLAIN),
    "lists": (lambda: stream(pa.table({"job": [[1, 2], [3]]})), NOT_PLAIN),
    "views": (lambda: stream(views()), NOT_PLAIN),
    "long names": (lambda: stream(swollen_text()), "would take more than"),
    "columns": (lambda: stream(pa.table({f"c{n}": [1] for n in range(5_000)})), "has 5000 columns; agreed are 1"),
    "metadata": (lambda: stream(with_metadata()), "it has metadata"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_swollen_table_is_refused_before_it_is_decoded(bomb: str) -> None:
    make, problem = BOMBS[bomb]
    data = make()
    with peak() as taken, pytest.raises(PeerBrokeProtocol, match=problem) as caught:
        read_columns(Columns(data, (), {}, (), {}), "bank", ["job"])
    assert caught.value.peer == "bank"
    assert taken.bytes < 8 * len(data) + MEGABYTE


def test_a_plain_table_takes_what_it_has_on_the_wire() -> None:
    table = pa.table({"job": pa.array(["a", "b"] * 50_000).dictionary_encode(), "age": np.arange(100_000)})
    data = write_columns(table)
    with peak() as taken:
        read = read_columns(Columns(data, (), {}, (), {}), "bank", ["job", "age"])
    assert read.equals(table)
    assert taken.bytes < 2 * len(data)


def mashup(**tampering: Any) -> dict[str, Any]:
    contract = contract_of(REQUIREMENT, LOANS, argmax="plain")
    made: dict[str, Any] = {name: party_script(name, contract, loan_table(), IDS) for name in contract.parties}
    for kind, changes in tampering.items():
        made["bank"] = changing(made["bank"], kind, **changes)
    made[ASSEMBLER] = assemble(Assembly(contract))
    return made


@pytest.fixture(scope="module")
def _loaded() -> None:
    """A session without tampering: what the first of a process loads is not what an attack takes."""
    run_together(mashup())


@pytest.mark.usefixtures("_loaded")
def test_a_bank_that_hands_in_a_bomb_is_named() -> None:
    bomb = BOMBS["zstd"][0]()
    assert len(bomb) < 64 * 1024  # of 256 MB
    with peak() as taken, pytest.raises(PeerBrokeProtocol, match="it is compressed") as caught:
        run_together(mashup(columns={"table": lambda _: bomb}))
    assert caught.value.peer == "bank"
    assert taken.bytes < 16 * MEGABYTE


@pytest.mark.usefixtures("_loaded")
def test_an_instruction_has_no_more_children_than_records() -> None:
    many = 1 << 20
    nobody = pack(np.zeros(34, np.uint32), many)
    with peak() as taken, pytest.raises(PeerBrokeProtocol, match="sends 34 records to 1048576") as caught:
        run_together(mashup(instruct={"n_children": lambda _: many, "children": lambda _: nobody}))
    assert caught.value.peer == "bank"
    assert taken.bytes < 16 * MEGABYTE


def test_an_instruction_names_no_child_that_nobody_goes_to() -> None:
    nobody = pack(np.zeros(34, np.uint32), 34)
    with pytest.raises(PeerBrokeProtocol, match="that no record goes to"):
        run_together(mashup(instruct={"n_children": lambda _: 34, "children": lambda _: nobody}))


def test_many_groups_and_many_children_take_memory_by_the_records() -> None:
    """An instruction that everybody must allow: a table of groups by children would have a hundred million cells."""
    n = 20_000
    records = Records.of(mq.Table(pa.table({"row": range(n)})), [])
    state = PublicState(records, ["job", "town"], [mq.KAnonymity(["job", "town"], k=2)], {})
    pairs = (np.arange(n) // 2).astype(np.uint32)
    with peak() as taken:
        for attribute in ("job", "town"):
            instruction = Instruction(attribute, 0, n // 2, pairs)
            assert state.allows(state.told(instruction))
            state.specialise(instruction)
    assert taken.bytes < 16 * MEGABYTE
    assert state.partitions[0].anonymity == 2


@pytest.mark.parametrize(
    "field", [{"left_out": ["ab"] * 100_000}, {"seconds": {str(part): 0 for part in range(100_000)}}]
)
def test_long_lists_of_short_texts_are_refused_before_they_are_made(field: dict[str, Any]) -> None:
    plain = msgspec.to_builtins(Columns(b"", (), {}, (), {}))
    data = msgspec.msgpack.encode({**plain, "kind": "columns", **field})
    with peak() as taken, pytest.raises(ValueError, match="not a well-formed columns message"):
        decode(data, [Columns])
    assert taken.bytes < 64 * 1024


_, IDENTITIES = trial_identities(["bank", "clinic"])


@cache
def squeezed() -> bytes:
    return gzip.compress(bytes(256 * MEGABYTE))


async def squeezing(scope: Any, receive: Any, send: Any) -> None:
    """A node that answers everything with compressed zeros."""
    headers = [(b"content-encoding", b"gzip"), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": squeezed()})


def test_a_node_that_answers_with_a_compressed_body_is_named() -> None:
    trust = {name: TrustStore({name: IDENTITIES[name].certificate}) for name in IDENTITIES}

    async def ask() -> None:
        async with (
            serve(squeezing, "127.0.0.1:0", IDENTITIES["bank"], trust["clinic"]) as address,
            PeerHttp("bank", address, IDENTITIES["clinic"], trust["bank"]) as bank,
        ):
            await bank.call("GET", "/v1/health", answer=Health)

    assert len(squeezed()) < MEGABYTE
    with peak() as taken, pytest.raises(PeerBrokeProtocol) as caught:
        run_async(ask())
    assert caught.value.peer == "bank"
    assert taken.bytes < 16 * MEGABYTE
