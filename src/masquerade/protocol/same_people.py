"""Check an alignment, however it was made: all parties have the same people in the same order.

Whoever tells a party which of its records are common could name more of them, or all. So every two parties test
whether they hold the same identifiers in the same order (protocol/equality.py), before anything is computed from the
records. A party that claims people whom it cannot name does not pass: no record gets into the session that any other
party could not account for, and each row of the joined table is one person's.

Who learns what: that all agree. Cost: a digest of the common identifiers, and four multiplications for each two
parties.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Script
from masquerade.protocol.equality import who_differs
from masquerade.protocol.identifiers import Identifiers


def insist_on_same_people(
    me: int, parties: Sequence[str], identifiers: Sequence[bytes], session: bytes, comparer: int
) -> Script[None]:
    """Raise PeerBrokeProtocol unless all parties hold these identifiers in this order.

    If nobody does, the `comparer`, who told us which of our records are common, is named.
    """
    differing = yield from who_differs(me, parties, _digest(identifiers), b"same people\0" + session)
    if not differing:
        return
    alone = len(differing) == len(parties) - 1
    name = parties[comparer] if alone and me != comparer else differing[0]
    doubt = ", if no other party had a hand in it" if len(parties) > 2 else ""
    raise PeerBrokeProtocol(name, f"cannot account for the people that it made us take to be common{doubt}")


def _digest(identifiers: Sequence[bytes]) -> bytes:
    people = Identifiers.of(identifiers)
    digest = hashlib.sha512(len(people).to_bytes(8, "little"))
    digest.update(people.lengths().astype("<u8").tobytes())
    for part in people.parts():
        digest.update(b"".join(part))
    return digest.digest()
