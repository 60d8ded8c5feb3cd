"""Masked fields: a party sees the same, whatever its peers' data are, also together with its own secrets."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import msgspec
import pytest

from leakage.coins import Leak
from leakage.distributions import compare, same_multiset
from leakage.frozen import Frozen
from leakage.pieces import PIECES, N, key
from leakage.sessions import SESSIONS
from leakage.worlds import COINS
from masquerade.crypto.homomorphic import PaillierSecret
from masquerade.protocol.sensitive import homomorphic

FROZEN = Frozen.read()


@pytest.fixture
def _one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Homomorphic encryption with the same key in all repetitions, as it takes long to make one and its proof."""
    monkeypatch.setattr(homomorphic, "generate_paillier", lambda _: key("paillier"))
    monkeypatch.setattr(PaillierSecret, "proof", cache(PaillierSecret.proof))


@pytest.mark.usefixtures("_one_key")
@pytest.mark.parametrize("piece", PIECES)
def test_two_worlds_look_alike(piece: str) -> None:
    """To each party; and all fields for which this piece answers are seen by one of them."""
    seen = set()
    for me in range(PIECES[piece].n_parties):
        one, other = PIECES[piece].worlds(me, FROZEN)
        compare(one, other)
        seen |= {tuple(name.split(" ")[0].split(".")) for name in one[0] if "." in name}
    assert seen == FROZEN.masked_by(piece), "a field names this piece in messages.toml, and is not in it"


@pytest.mark.parametrize("name", SESSIONS)
def test_what_is_made_of_coins_alone_is_the_same_with_other_data(name: str, recordings: Any) -> None:
    """Exactly: with the same tapes, byte for byte; so whatever the coins are, nothing of the data is in it."""
    one, other = (recordings(name, private) for private in FROZEN.sessions[name]["private"])
    fields = FROZEN.masked_by(COINS)
    for pair in sorted({(each.sender, each.receiver) for each in one.wire.heard}):
        for kind, field in sorted(fields):
            told = [
                [msgspec.msgpack.decode(each.data)[field] for each in run.between(*pair) if each.kind == kind]
                for run in (one, other)
            ]
            if told[0] != told[1]:
                raise Leak(f"{kind}.{field}, from {pair[0]} to {pair[1]}, depends on private data")


def test_over_all_masks_a_looked_up_bit_is_anything() -> None:
    """Exactly: every result of the party that looks comes once, whatever its peer's labels are."""
    every = [bytes(masks) for masks in product((0, 1), repeat=N)]
    piece = replace(PIECES["look-up of bits"], repeat=len(every))
    worlds = piece.worlds(0, FROZEN, {("berta", N): every})
    outcomes = [[row["the result"] for row in world] for world in worlds]
    for found in outcomes:
        assert len(set(found)) == len(every)
    same_multiset(*outcomes, "looked-up bits")
