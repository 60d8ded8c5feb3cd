"""Which readings of a table that changes are kept, and for how long."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from masquerade.service.node.datasets import LONGEST, MOST, OFFER_STANDS, Dataset, KeptReadings
from masquerade.service.node.settings import NodeSettings
from service.party_nodes import Folder


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    folder = Folder(tmp_path)
    conf = folder.conf("bank")
    source = 'source = "sqlite:///bank.db"\nquery = "SELECT * FROM customers"'
    conf.write_text(conf.read_text().replace('source = "customers.csv"', source))
    return Dataset("bank", NodeSettings.load(conf).datasets["customers"], b"s" * 32)


def reading(dataset: Dataset, snapshot: str) -> Any:
    return SimpleNamespace(card=dataset._card(50, snapshot))


def test_an_offer_stands_for_a_while_and_a_contract_until_it_expires(dataset: Dataset) -> None:
    kept = KeptReadings()
    kept.offered(dataset, reading(dataset, "a"), 0)
    kept.agreed(dataset, reading(dataset, "b"), "deal", 600, 0)
    assert kept.find(dataset, "a", OFFER_STANDS - 1) is not None
    assert kept.find(dataset, "a", OFFER_STANDS) is None
    assert kept.find(dataset, "b", 599) is not None
    assert kept.find(dataset, "b", 600) is None
    kept.tidy(600)
    assert len(kept) == 0
    kept.agreed(dataset, reading(dataset, "c"), "endless", 10**12, 0)
    assert kept.find(dataset, "c", LONGEST) is None


def test_a_reading_goes_with_the_last_deal_about_it(dataset: Dataset) -> None:
    kept = KeptReadings()
    for deal in ("one", "two"):
        kept.agreed(dataset, reading(dataset, "a"), deal, 600, 0)
    kept.done("one", 1)
    assert kept.find(dataset, "a", 1) is not None
    kept.done("two", 1)
    assert len(kept) == 0


def test_their_number_is_bounded_and_offers_push_out_no_contract(dataset: Dataset) -> None:
    kept = KeptReadings()
    for at in range(3):
        kept.agreed(dataset, reading(dataset, f"deal{at}"), str(at), 600, 0)
    for at in range(3 * MOST):
        kept.offered(dataset, reading(dataset, f"offer{at}"), 0)
    assert len(kept) == MOST
    assert all(kept.find(dataset, f"deal{at}", 1) is not None for at in range(3))
    assert kept.find(dataset, f"offer{3 * MOST - 1}", 1) is not None  # the newest, too
    for at in range(3, MOST + 2):
        kept.agreed(dataset, reading(dataset, f"deal{at}"), str(at), 600, 0)
    assert len(kept) == MOST
    assert [kept.find(dataset, f"deal{at}", 1) is not None for at in range(4)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("old", "new"), [("max = 4711", "max = 4712"), ("FROM customers", "FROM consenting_customers")]
)
def test_by_another_configuration_nothing_is_released_as_it_was(dataset: Dataset, old: str, new: str) -> None:
    kept = KeptReadings()
    kept.agreed(dataset, reading(dataset, "a"), "deal", 600, 0)
    conf = dataset.settings.base / "bank.toml"
    conf.write_text(conf.read_text().replace(old, new))
    changed = dataset.changed_to(NodeSettings.load(conf).datasets["customers"])
    assert kept.find(dataset, "a", 1) is not None
    assert kept.find(changed, "a", 1) is None


def test_a_file_is_not_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    dataset = Dataset("bank", NodeSettings.load(folder.conf("bank")).datasets["customers"], b"s" * 32)
    kept = KeptReadings()
    kept.agreed(dataset, reading(dataset, "a"), "deal", 600, 0)
    assert len(kept) == 0
