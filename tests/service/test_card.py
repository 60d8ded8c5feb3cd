"""Cards, which a party publishes: columns without their values, and a rounded number of records."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.data.schema import Attribute, Schema
from masquerade.data.taxonomy import Branch, Taxonomy
from masquerade.errors import ParameterError
from masquerade.service.cards import card_of, rounded_up
from masquerade.service.wire.control import Published, PublishedDataset, read_said


def test_a_card_never_has_values() -> None:
    tree = Taxonomy(Branch("Anywhere", (Branch("North", (Branch("Kiel"), Branch("Husum"))), Branch("Ulm"))))
    schema = Schema(
        [
            Attribute("town", taxonomy=tree),
            Attribute("age", "continuous", lower=18, upper=97),
            Attribute("job", taxonomy="flat"),
            Attribute("firm", taxonomy=Taxonomy.flat(["Acme", "Zeta"])),
            Attribute("land", taxonomy=Taxonomy(Branch("Utopia"))),
        ]
    )
    card = card_of(
        "clinic", "patients", schema, identifier="ssn", key=bytes(32), sensitive=["disease"], records=4_321
    )
    written = msgspec.json.encode(card).decode()
    assert '"Anywhere"' in written
    for value in ("North", "Kiel", "Husum", "Ulm", "18", "97", "Acme", "Zeta", "Utopia", "4321"):
        assert f'"{value}"' not in written
        assert f":{value}" not in written
    assert (card.records, card.names) == (4_400, ("town", "age", "job", "firm", "land", "disease"))
    assert card.columns[3].taxonomy is None
    assert [column.role for column in card.columns][-1] == "sensitive"
    other = Schema([Attribute("age", "continuous", lower=18, upper=98)])
    first, second = (
        card_of("clinic", "p", each, identifier="ssn", key=bytes(32))
        for each in (Schema([Attribute("age", "continuous", lower=18, upper=97)]), other)
    )
    assert first.schema != second.schema  # other bounds make another release
    assert first.schema != card_of("clinic", "p", other, identifier="ssn", key=b"1" * 32).schema
    with pytest.raises(ParameterError, match='"ssn" identifies people'):
        card_of("clinic", "p", schema, identifier="ssn", key=bytes(32), sensitive=["ssn"])


@given(st.integers(0, 10**9))
def test_records_are_rounded_up(records: int) -> None:
    told = rounded_up(records)
    assert records <= told
    assert told % 100 == 0
    assert told - records < max(100, records / 9)
    assert len(str(told).rstrip("0")) <= 2


def test_a_newer_nodes_card_is_read_without_what_is_not_known_here() -> None:
    tree = Taxonomy(Branch("Anywhere", (Branch("North"), Branch("South"))))
    card = card_of(
        "clinic", "patients", Schema([Attribute("town", taxonomy=tree)]), identifier="ssn", key=bytes(32)
    )
    published = Published("clinic", (PublishedDataset(card),))
    newer = msgspec.to_builtins(published)
    described = newer["datasets"][0]["card"]
    for place in (described, described["columns"][0], described["columns"][0]["taxonomy"]):
        place["since"] = "a later version"
    assert read_said(msgspec.json.encode(newer), Published, "clinic") == published
    described["since"] = "\x1b[1A"  # what nobody here knows is not stored, and must be plain all the same
    with pytest.raises(ParameterError, match="control character"):
        read_said(msgspec.json.encode(newer), Published, "clinic")


def test_what_says_who_may_ask_is_refused_when_it_is_not_known_here() -> None:
    card = card_of("clinic", "patients", Schema([Attribute("age")]), identifier="ssn", key=bytes(32))
    newer = msgspec.to_builtins(Published("clinic", (PublishedDataset(card),)))
    newer["datasets"][0]["only_on"] = "mondays"
    with pytest.raises(ParameterError, match="only_on"):
        read_said(msgspec.json.encode(newer), Published, "clinic")
