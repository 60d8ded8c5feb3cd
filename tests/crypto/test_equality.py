"""Two parties learn whether their secrets are equal; a cheat has one guess."""

from __future__ import annotations

import pytest

from masquerade.crypto import POINT_BYTES, EqualityTest
from masquerade.crypto.equality import PROOF_BYTES
from masquerade.errors import BadMessage


def verdicts(one: bytes, other: bytes, sessions: tuple[bytes, bytes] = (b"s", b"s")) -> tuple[bool, bool]:
    left, right = EqualityTest(one, sessions[0], first=True), EqualityTest(other, sessions[1], first=False)
    from_left, from_right = left.prove(right.share), right.prove(left.share)
    assert len(left.share) == POINT_BYTES
    assert len(from_left) == PROOF_BYTES
    return left.accepts(from_right), right.accepts(from_left)


def test_equal_secrets_pass_and_others_do_not() -> None:
    assert verdicts(b"secret", b"secret") == (True, True)
    assert verdicts(b"", b"") == (True, True)
    assert verdicts(b"secret", b"secreT") == (False, False)


def test_a_test_belongs_to_its_session() -> None:
    assert verdicts(b"secret", b"secret", (b"one", b"other")) == (False, False)


def test_nothing_is_accepted_before_both_shares_are_there() -> None:
    side = EqualityTest(b"secret", b"s", first=True)
    assert not side.accepts(b"")
    assert not side.accepts(bytes(PROOF_BYTES))


def test_there_is_one_guess() -> None:
    side, peer = EqualityTest(b"secret", b"s", first=True), EqualityTest(b"guess", b"s", first=False)
    side.prove(peer.share)
    with pytest.raises(BadMessage, match="a second guess"):
        side.prove(EqualityTest(b"secret", b"s", first=False).share)


@pytest.mark.parametrize("share", [b"", bytes(31), bytes(33)])
def test_a_share_is_a_point(share: bytes) -> None:
    with pytest.raises(BadMessage, match="a share has 32 bytes"):
        EqualityTest(b"secret", b"s", first=True).prove(share)


def test_a_point_of_small_order_is_refused() -> None:
    """It would make the product a known one, whatever the secret."""
    with pytest.raises(BadMessage, match="small order"):
        EqualityTest(b"secret", b"s", first=True).prove(bytes(POINT_BYTES))


def test_a_share_does_not_tell_its_secret() -> None:
    """Shares of one secret are different each time, so a list of all possible secrets is of no use."""
    assert len({EqualityTest(b"secret", b"s", first=True).share for _ in range(8)}) == 8
