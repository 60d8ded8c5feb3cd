"""A provider that sends what does not fit ends the collaboration with its name, and nothing is released."""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from leakage.granted_answers import dealt
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, kind_of
from masquerade.net.memory import run_together
from masquerade.protocol.hand_in import write_columns
from masquerade.protocol.pairs import BaseTransfers, SessionNonce
from masquerade.protocol.providers.messages import Axes, ProviderRecords, Rows, Size, Values
from masquerade.protocol.providers.shared_counts import Alone, Seed, TripleDelivery, TripleOrder
from masquerade.protocol.shared_circuits import MaskedOperands, Opened, OpenedOutputs, Share
from protocol.party_scripts import session_scripts
from protocol.tampering import changing
from protocol.test_collaborate import contract_of, requirement_of

SHORT = [
    *((Axes, "digests"), (SessionNonce, "data"), (BaseTransfers, "data"), (Seed, "data"), (TripleOrder, "columns")),
    *((TripleDelivery, "corrections"), (MaskedOperands, "data"), (Share, "data"), (Rows, "table")),
]

FORGED = {"ranges": 0, "verdicts": 3, "narrowing": 12}  # which of the opened outputs have all bits turned


def scripts(third: str = "secure", **terms: Any) -> dict[str, Any]:
    tables = dealt((150, 20, 20, 20))
    contract = contract_of(requirement_of(4, 2), 1, tuple(tables), third_party=third, **terms)
    return session_scripts(contract, tables)


def with_one(kind: type[Message], made: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Let burgh's messages of a kind be others than they should be."""
    made["burgh"] = changing(made["burgh"], kind_of(kind), **fields)
    return made


@pytest.mark.parametrize(("kind", "field"), SHORT, ids=lambda each: each if isinstance(each, str) else kind_of(each))
def test_a_short_message_is_named(kind: type[Message], field: str) -> None:
    with pytest.raises(PeerBrokeProtocol) as caught:
        run_together(with_one(kind, scripts(), **{field: lambda data: data[:-1]}))
    assert caught.value.peer == "burgh"


@pytest.mark.parametrize("kind", [Opened, OpenedOutputs], ids=kind_of)
def test_who_combines_the_shares_is_named(kind: type[Message]) -> None:
    made = scripts()
    made["abbey"] = changing(made["abbey"], kind_of(kind), data=lambda data: data + b"\0")
    with pytest.raises(PeerBrokeProtocol) as caught:
        run_together(made)
    assert caught.value.peer == "abbey"


@pytest.mark.parametrize("number", FORGED.values(), ids=FORGED)
def test_an_answer_that_denies_our_records_ends_the_session(number: int) -> None:
    made, sent = scripts(), count()
    made["abbey"] = changing(
        made["abbey"],
        kind_of(OpenedOutputs),
        data=lambda data: bytes(each ^ 0xFF for each in data) if next(sent) == number else data,
    )
    with pytest.raises(PeerBrokeProtocol, match="contradicts our records") as caught:
        run_together(made)
    assert "abbey" in str(caught.value)


def test_nonsense_about_itself_is_named() -> None:
    for kind, fields in (
        (Alone, {"bits": lambda data: data + b"\0"}),
        (Size, {"bits": lambda _: -1}),
        (Values, {"values": lambda _: ()}),
        (Values, {"values": lambda values: ((("two", "texts"),),)}),
        (Axes, {"digests": lambda digests: (*digests, b"")}),
        (Axes, {"digests": lambda digests: (b"", *digests[1:])}),
        (Rows, {"losses": lambda _: {}}),
        (Rows, {"seconds": lambda _: {"prepare": math.nan}}),
        (Rows, {"seconds": lambda _: {"prepare": -1.0}}),
        (Rows, {"table": lambda _: write_columns(pa.table({"job": [], "age": [], "ill": []}))}),
        (Rows, {"table": lambda _: table_with(ill=[["a list"]])}),
        (Rows, {"table": lambda _: table_with(job=[None])}),
    ):
        with pytest.raises(PeerBrokeProtocol) as caught:
            run_together(with_one(kind, scripts(), **fields))  # type: ignore[arg-type]
        assert caught.value.peer == "burgh", kind


def table_with(**cells: Any) -> bytes:
    """One record, with some other cells than it should have."""
    return write_columns(pa.table({"job": ["clerk"], "age": [30], "ill": ["cold"], **cells}))


NOT_RECORDS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({"job": [], "age": [], "ill": []}, "handed in no record"),
    "a leaf that is none": ({"job": ["Xerxes"]}, "do not fit how they are generalised"),
    "no number": ({"age": ["Xerxes"]}, "do not fit how they are generalised"),
    "too many decimals": ({"age": [0.123456789]}, "do not fit how they are generalised"),
    "too large": ({"age": [2**50]}, "do not fit how they are generalised"),
    "a missing cell": ({"job": [None]}, "column job with missing cells"),
    "a missing illness": ({"ill": pa.array([None], pa.string())}, "column ill with missing cells"),
    "a missing age": ({"age": pa.array([None], pa.int64())}, "column age with missing cells"),
    "no cell": ({"ill": [{"name": "cold"}]}, "column ill of a kind"),
    "bytes": ({"ill": [b"\xff"]}, "column ill of a kind"),
    "no time zone": ({"ill": pa.array([0], pa.timestamp("s", "Nowhere/Land"))}, "column ill of a kind"),
}


@pytest.mark.parametrize(
    ("choose", "name"),
    [
        *(("public", name) for name in NOT_RECORDS),
        # Where numbers are cut between values, they may have any size and decimals.
        *(("certainty", name) for name in NOT_RECORDS if name not in ("too many decimals", "too large")),
    ],
)
def test_records_that_do_not_fit_are_named_without_a_cell(choose: str, name: str) -> None:
    cells, reason = NOT_RECORDS[name]
    made = with_one(ProviderRecords, scripts("trusted", choose=choose), table=lambda _: table_with(**cells))
    with pytest.raises(PeerBrokeProtocol, match=reason) as caught:
        run_together(made)
    assert caught.value.peer == "burgh"
    assert "Xerxes" not in str(caught.value)


def test_records_that_cannot_be_read_are_named() -> None:
    with pytest.raises(PeerBrokeProtocol, match="cannot be read") as caught:
        run_together(with_one(ProviderRecords, scripts("trusted"), table=lambda data: data[: len(data) // 2]))
    assert caught.value.peer == "burgh"
