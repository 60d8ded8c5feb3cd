"""The table of a node with an engine: in a file that is mapped, and the same table in every respect."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from masquerade.data import read
from masquerade.data.private_copy import MappedParts, mapped_columns
from masquerade.data.read import TableFile
from masquerade.data.table import Origin
from masquerade.errors import DataError
from masquerade.service.node.datasets import Dataset
from masquerade.service.node.settings import NodeSettings
from service.party_nodes import Folder


@pytest.mark.parametrize("small", [0, 1 << 26])
def test_a_table_on_the_disk_has_the_same_commitment(
    small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is read: a ledger recognises a snapshot by it."""
    monkeypatch.setattr(read, "SMALL_FILE", small)
    folder = Folder(tmp_path)
    settings = NodeSettings.load(folder.conf("bank")).datasets["customers"]
    here = Dataset("bank", settings, b"s" * 32).reading()
    there = Dataset("bank", settings, b"s" * 32, on_disk=True).check()
    assert there.card == here.card
    assert there.card.snapshot is not None
    assert there.table.arrow.nbytes > 0
    assert not [*tmp_path.rglob("*.arrow")]


def test_a_source_without_a_row_is_told(tmp_path: Path) -> None:
    (tmp_path / "nobody.csv").write_text("ssn,age\n")
    with pytest.raises(DataError, match=r"nobody\.csv"):
        mapped_columns(TableFile("nobody.csv", base=tmp_path), ["ssn", "age"])


def test_who_reads_a_part_elsewhere_gets_its_rows_alone() -> None:
    table = pa.table({"town": ["Ulm", "Graz"] * 5000, "age": range(10_000)})
    parts = MappedParts(table, Origin("people")).parts(100)
    assert [part.rows for part in parts] == [100] * 100
    sent = pickle.dumps(parts[7])
    assert len(sent) < 5000
    back = pickle.loads(sent)
    assert back.read(["age"]).equals(table.select(["age"]).slice(700, 100))
    assert (back.first_row, back.origin(()).name) == (700, "people")
    assert pa.types.is_dictionary(back.read(["town"], {"town"}).schema.field("town").type)
