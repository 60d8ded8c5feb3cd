"""Short linear digests of long columns of bits, by which one party shows another that its columns fit together.

    digest(c) = GHASH under three keys = Σ cⱼ·Hᵏ⁻ʲ, in GF(2¹²⁸), for the 16-byte blocks cⱼ of the column

The map is linear over bits: digest(a ⊕ b) = digest(a) ⊕ digest(b). A column that is fixed before the key is drawn, and
not zero, has a digest of zero with a probability of at most k / 2¹²⁸ under each key, for k blocks. GHASH is computed
by AES-GCM, which runs at the speed of memory: two tags under one key and nonce differ by the GHASH of the difference.
These tags authenticate nothing; keys and digests are public.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from masquerade.crypto.hashing import BLOCK_BYTES, derive_key

Digests = NDArray[np.uint64]  # uint64[columns, 6]

KEYS = 3
DIGEST_BYTES = KEYS * BLOCK_BYTES
_NONCE = bytes(12)


def digests(columns: NDArray[np.uint8], seed: bytes) -> Digests:
    """Return the digest of each column (bytes, 16 divides their number) under the keys that a public seed gives."""
    nothing = bytes(columns.shape[1])
    found = np.empty((len(columns), KEYS, BLOCK_BYTES), np.uint8)
    for number in range(KEYS):
        tags = AESGCM(derive_key(seed, b"column-check", bytes([number])))
        constant = np.frombuffer(tags.encrypt(_NONCE, b"", nothing), np.uint8)
        for column, digest in zip(columns, found[:, number], strict=True):
            digest[:] = np.frombuffer(tags.encrypt(_NONCE, b"", column.data), np.uint8)
        found[:, number] ^= constant
    return found.reshape(len(columns), DIGEST_BYTES).view(np.uint64)
