"""Requests, offers and contracts are written as they always were: their hashes name releases in caches and ledgers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden.contracts import CONTRACTS, KINDS, OF_JOBS, agreed, encoded, of_jobs, without_drawn

AGAIN = "if that is as it should be, run `make golden`"


@pytest.mark.parametrize("kind", KINDS)
def test_canonical_forms_and_hashes_stay_byte_for_byte(kind: str) -> None:
    frozen = json.loads((CONTRACTS / f"{kind}.json").read_text())
    for what, text in encoded(frozen["request"], frozen["contract"]).items():
        assert text == frozen[what], f"{kind}: {what}: {AGAIN}"


@pytest.mark.parametrize("kind", KINDS)
def test_parties_come_to_the_same_contract(kind: str, tmp_path: Path) -> None:
    frozen = json.loads((CONTRACTS / f"{kind}.json").read_text())
    with agreed(kind, tmp_path) as found:
        for what in ("offers", "contract"):
            assert without_drawn(found[what]) == without_drawn(frozen[what]), f"{kind}: {what}: {AGAIN}"


def test_jobs_come_to_the_same_contracts(tmp_path: Path) -> None:
    frozen = json.loads(OF_JOBS.read_text())
    found = of_jobs(tmp_path)
    assert found.keys() == frozen.keys()
    for name, contract in found.items():
        assert contract == frozen[name], f"{name}: {AGAIN}"
