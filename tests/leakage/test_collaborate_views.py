"""docs/leakage.md, shown for collaborations: what is opened is the answers that the page lists, all else is noise."""

from __future__ import annotations

from functools import reduce
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from leakage.granted_answers import dealt, simulated
from masquerade.crypto import unpack
from masquerade.net.memory import Wire, run_together
from masquerade.net.script import decode
from masquerade.progress import Stage
from masquerade.protocol import ASSEMBLER, Assembly, AttributeTerms
from masquerade.protocol.providers.messages import Axes, ProviderRecords, Rows, digest_of, write_schema
from masquerade.protocol.providers.provider import CUTTING_OWN
from masquerade.protocol.providers.shared_counts import Alone, TripleOrder
from masquerade.protocol.providers.third_party import third_party
from masquerade.protocol.shared_circuits import FROM_ONE, MaskedOperands, OpenedOutputs, Share
from protocol.party_scripts import party_script
from protocol.test_collaborate import (
    HOUSES,
    ILLNESSES,
    JOBS,
    QID,
    SCHEMA,
    collaborate,
    contract_of,
    requirement_of,
    table_of,
)

BOUNDARIES = (
    AttributeTerms("job", max_generalization=("office", "craft", "none")),
    AttributeTerms("age", max_width="8"),
)
AMONG_PROVIDERS = {
    *("session-nonce", "base-transfers", "shared-seed", "shared-order", "shared-delivery"),
    *("shared-masked", "shared-result", "shared-opened", "shared-outputs"),
    *("collaborate-axes", "collaborate-alone", "collaborate-size"),
}


def opened_on(wire: Wire, tables: dict[str, mq.Table]) -> list[Any]:
    """The bits of each opening: what the shares of all providers add up to, or the first provider says they do."""
    if len(tables) >= FROM_ONE:
        told = heard_from(wire, next(iter(tables)), OpenedOutputs)
        return [np.frombuffer(each.data, np.uint8) for each in told]
    shares = [heard_from(wire, name, Share) for name in tables]
    return [
        reduce(np.bitwise_xor, (np.frombuffer(each.data, np.uint8) for each in messages))
        for messages in zip(*shares, strict=True)
    ]


def heard_from(wire: Wire, sender: str, kind: type[Any]) -> list[Any]:
    receiver = next(name for name in HOUSES if name != sender)
    return [
        decode(heard.data, [kind])
        for heard in wire.heard
        if heard.sender == sender and heard.receiver == receiver and heard.kind == kind.__struct_config__.tag
    ]


@pytest.mark.parametrize(
    ("sizes", "m", "l", "choose", "limited"),
    [
        ((40, 40, 40), 1, 2, "public", False),
        ((150, 20, 20, 20), 1, 1, "public", False),
        ((60, 60), 1, 1, "public", False),
        ((137, 41, 29), 1, 2, "public", False),
        ((37, 43), 0, 1, "public", False),
        ((40, 40, 40), 1, 2, "fitness", False),
        ((37, 43), 0, 1, "fitness", False),
        ((40, 40, 40), 1, 2, "public", True),
        ((137, 41), 1, 1, "public", True),
    ],
)
def test_what_is_opened_is_what_the_page_lists(
    sizes: tuple[int, ...],
    m: int,
    l: int,  # noqa: E741 # the papers' name
    choose: str,
    limited: bool,
) -> None:
    tables = dealt(sizes)
    contract = contract_of(requirement_of(4, l), m, tuple(tables), choose=choose)
    if limited:
        contract = msgspec.structs.replace(contract, attributes=BOUNDARIES)
    wire = Wire()
    collaborate(contract, tables, wire)
    known = simulated(contract, tables)

    among = [heard for heard in wire.heard if ASSEMBLER not in (heard.sender, heard.receiver)]
    assert {heard.kind for heard in among} <= AMONG_PROVIDERS
    # The digests are of the schema and the session alone, whoever sends them, and there is nothing before them.
    digests = {heard_from(wire, name, Axes)[0].digests for name in tables}
    assert digests == {tuple(digest_of(each, contract.hash) for each in write_schema(SCHEMA, QID))}
    assert among[0].kind == "collaborate-axes"
    assert [heard.kind for heard in among].count("collaborate-axes") == len(tables) * (len(tables) - 1)
    opened = opened_on(wire, tables)
    assert len(opened) == len(known.bits)
    for data, bits in zip(opened, known.bits, strict=True):
        assert unpack(data, len(bits)).tolist() == bits
    for number, name in enumerate(tables):
        for message, (owners, empty, good) in zip(heard_from(wire, name, Alone), known.alone, strict=True):
            mine = [at for at, owner in enumerate(owners) if owner == number]
            bits = unpack(np.frombuffer(message.bits, np.uint8), 2 * len(mine)).tolist()
            assert bits == [*empty[mine].astype(int), *good[mine].astype(int)]


@pytest.mark.parametrize(("k", "l", "enough"), [(100, 2, 0), (4, 4, 1), (100, 4, 0)])
def test_of_a_refused_whole_one_bit_more_is_opened(k: int, l: int, enough: int) -> None:  # noqa: E741
    """Whether k records are left by every coalition, and no word about the values."""
    tables = {
        "abbey": table_of([("clerk", 30, ill) for ill in ILLNESSES] * 10),
        "burgh": table_of([("clerk", 30, ill) for ill in ILLNESSES[:2]] * 10),
    }
    wire = Wire()
    with pytest.raises(mq.RequirementUnreachable):
        collaborate(contract_of(requirement_of(k, l), 1, tuple(tables), provider_aware=False), tables, wire)
    _, verdict, *reason = opened_on(wire, tables)  # after what the numbers look like
    assert unpack(verdict, 2).tolist() == [0, 0]
    assert [unpack(each, 1).tolist() for each in reason] == [[enough]]


def test_which_groups_at_the_boundaries_are_empty_is_not_opened() -> None:
    """One person alone at its boundaries, and nobody: the same is opened, bit for bit, and the release is the same."""
    crowd = [("clerk", 30, "cold"), ("smith", 50, "cold")] * 8
    opened = []
    for alone in ([("smith", 10, "cold")], [("none", 60, "cold")], []):
        tables = {"abbey": table_of([*crowd, *alone]), "burgh": table_of(crowd)}
        contract = contract_of(requirement_of(4, 1), 0, tuple(tables), provider_aware=False)
        wire = Wire()
        collaborate(msgspec.structs.replace(contract, attributes=BOUNDARIES), tables, wire)
        opened.append([each.tolist() for each in opened_on(wire, tables)])
    assert opened[0] == opened[1] == opened[2]


def test_messages_among_providers_look_like_noise_and_are_as_long_whatever_the_records() -> None:
    """Two sets of records with the same answers: same kinds, same lengths; and no bit is more likely than another."""
    jobs = JOBS.leaves
    many = table_of([(jobs[at % 6], 20 + at % 40, "cold") for at in range(240)])
    other = table_of([(jobs[at % 6], 20 + at % 40, "cold") for at in range(480)])
    views = []
    for first, second in ((many, other), (other, many)):
        tables = {"abbey": first, "burgh": second, "clinic": many}
        wire = Wire()
        collaborate(contract_of(requirement_of(5, 1), 1, tuple(tables), provider_aware=False), tables, wire)
        views.append([heard for heard in wire.seen_by("clinic") if heard.sender != ASSEMBLER])
    lengths = [sorted((heard.sender, heard.kind, len(heard.data)) for heard in view) for view in views]
    assert lengths[0] == lengths[1]
    for kind, field in ((TripleOrder, "columns"), (MaskedOperands, "data")):
        for view in views:
            payloads = [
                getattr(decode(heard.data, [kind]), field) for heard in view if heard.kind == kind.__struct_config__.tag
            ]
            # Short messages are left out: the unused bits of their last byte are no noise.
            data = b"".join(each for each in payloads if len(each) >= 32)
            bits = np.unpackbits(np.frombuffer(data, np.uint8))
            assert bits.size > 5_000
            assert abs(bits.mean() - 0.5) < 0.01 + 4 / np.sqrt(bits.size)


def test_the_assembler_gets_values_and_the_rows_of_the_release() -> None:
    tables = dealt((40, 40, 40))
    contract = contract_of(requirement_of(4, 2), 1, tuple(tables), keep_provider=True)
    wire = Wire()
    release = collaborate(contract, tables, wire)
    assert [heard.kind for heard in wire.seen_by(ASSEMBLER)].count("collaborate-values") == 3
    assert {heard.kind for heard in wire.seen_by(ASSEMBLER)} == {"collaborate-values", "collaborate-rows"}
    handed = {
        heard.sender: pa.ipc.open_stream(decode(heard.data, [Rows]).table).read_all()  # type: ignore[attr-defined]
        for heard in wire.seen_by(ASSEMBLER)
        if heard.kind == "collaborate-rows"
    }
    released = {(row["provider"], row["job"], row["age"], row["ill"]) for row in release.table.to_pylist()}
    for name, table in handed.items():
        assert table.column_names == [*QID, "ill"]
        assert all(not pa.types.is_dictionary(column.type) for column in table.columns)
        assert {(name, *row.values()) for row in table.to_pylist()} <= released
        assert table["ill"].to_pylist() != tables[name].arrow["ill"].to_pylist()  # not in the table's order


def test_a_trusted_third_party_gets_records_and_how_they_are_generalised_and_providers_nothing() -> None:
    tables = dealt((20, 20))
    wire = Wire()
    collaborate(contract_of(requirement_of(4, 1), 1, tuple(tables), third_party="trusted"), tables, wire)
    assert [(heard.sender, heard.receiver, heard.kind) for heard in wire.heard] == [
        ("abbey", ASSEMBLER, "collaborate-records"),
        ("burgh", ASSEMBLER, "collaborate-records"),
        (ASSEMBLER, "abbey", "received"),
        (ASSEMBLER, "burgh", "received"),
    ]
    handed = decode(wire.heard[0].data, [ProviderRecords])
    assert isinstance(handed, ProviderRecords)
    assert [each.name for each in handed.schema] == QID  # nothing of what is released as it is


def test_how_often_a_provider_cuts_what_is_its_own_is_not_told() -> None:
    """Stages are shown to the coordinator: of cuts by all together with figures, of its own without."""
    told: dict[str, list[Stage]] = {}
    for seed in (1, 2):
        tables = dealt((1500, 12, 12, 12), seed=9)
        tables["abbey"] = dealt((1500,), seed=seed)["abbey"]
        contract = contract_of(requirement_of(4, 1), 1, tuple(tables))
        scripts: dict[str, Any] = {
            name: party_script(name, contract, table, on_stage=told.setdefault(f"{name} {seed}", []).append)
            for name, table in tables.items()
        }
        scripts[ASSEMBLER] = third_party(Assembly(contract))
        run_together(scripts)
    assert CUTTING_OWN in told["abbey 1"]
    figures = {name: [stage for stage in stages if stage != CUTTING_OWN] for name, stages in told.items()}
    assert figures["abbey 1"] == figures["abbey 2"] == figures["burgh 1"]
    assert figures["burgh 1"][:2] == [Stage("preparing the circuits"), Stage("cutting")]
    assert figures["burgh 1"][2].tried
    assert figures["burgh 1"][-1] == Stage("handing in")


def test_a_provider_that_stands_alone_shows_nothing_of_its_cuts() -> None:
    """After the largest provider is set apart, its records change no message among the others."""
    views = []
    for seed in (1, 2):
        tables = dealt((1500, 12, 12, 12), seed=9)
        tables["abbey"] = dealt((1500,), seed=seed)["abbey"]
        wire = Wire()
        collaborate(contract_of(requirement_of(4, 1), 1, tuple(tables)), tables, wire)
        views.append(
            sorted((heard.kind, len(heard.data)) for heard in wire.seen_by("burgh") if heard.sender != ASSEMBLER)
        )
    assert views[0] == views[1]
