"""Shares of zero for every item that all parties of a circle have: each pair's masks cancel.

    share_i(x) = XOR over the other parties j of AES_k(x), k the key of i and j

Kolesnikov, Matania, Pinkas, Rosulek, Trieu, "Practical Multi-Party Private Set Intersection" (CCS 2017). For an item of
all parties the shares XOR to 0; whoever lacks a key of two of them cannot tell the share of either from a random word.
Keys are agreed by X25519 (`secure_sum.MaskKey`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from masquerade.crypto.hashing import Blocks, as_blocks


def zero_shares(items: Blocks, keys: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return this party's share for each item, given its keys with the others."""
    data = as_blocks(items).data.cast("B")
    total = np.zeros(len(items), np.uint64)
    for key in keys:
        if len(items):
            masks = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(data)  # noqa: S305 - each item once
            total ^= np.frombuffer(masks, np.uint64).reshape(-1, 2)[:, 0]
    return total
