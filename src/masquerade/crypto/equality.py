"""Two parties learn whether their secrets are equal, and nothing else, however few the possible secrets are.

CPace (Abdalla, Haase, Hesse, ASIACRYPT 2021) with key confirmation, on curve25519: both hash the secret to the curve,
exchange a multiple of that point, and prove that they can compute the product. A digest could be searched offline for
a secret that is easy to guess; here whoever does not know it gets one guess a test, and learns one bit by it.

This holds against a party that deviates in any way, and each test binds its session: who passes knows the secret.

    first, second   share (a point, 32 bytes)
    first, second   proof (32 bytes)

Cost: two multiplications and one map to the curve for each party.
"""

from __future__ import annotations

import hashlib
import hmac

from masquerade.crypto.group import POINT_BYTES, Blinding, NotAPoint, as_points, hash_texts
from masquerade.errors import BadMessage

PROOF_BYTES = 32


class EqualityTest:
    """One side of a test. `session` is public, and names the parties and the purpose; exactly one side is first."""

    def __init__(self, secret: bytes, session: bytes, *, first: bool) -> None:
        self._first = first
        self._session = session
        self._blinding: Blinding | None = Blinding()
        self.share = self._blinding.blind(hash_texts([secret], session)).tobytes()
        self._expected = b""

    def prove(self, share: bytes) -> bytes:
        """Take the peer's share, once; return the proof that we know the secret which both shares are made of."""
        blinding, self._blinding = self._blinding, None
        if blinding is None:
            raise BadMessage("a second share, which would be a second guess")
        if len(share) != POINT_BYTES:
            raise BadMessage(f"a share has {POINT_BYTES} bytes. Got {len(share)} instead.")
        try:
            product = blinding.blind(as_points(share)).tobytes()
        except NotAPoint as error:
            raise BadMessage(str(error)) from None
        shares = (self.share, share) if self._first else (share, self.share)
        key = hashlib.sha512(b"".join((product, *shares, self._session))).digest()
        # A proof for each direction, or a peer could send ours back.
        proofs = [hmac.digest(key, side, "sha256") for side in (b"first", b"second")]
        own, self._expected = proofs if self._first else reversed(proofs)
        return own

    def accepts(self, proof: bytes) -> bool:
        """Return whether the peer has the same secret. Call it after `prove`."""
        return len(self._expected) == PROOF_BYTES and hmac.compare_digest(self._expected, proof)
