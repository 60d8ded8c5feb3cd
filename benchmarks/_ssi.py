"""SSI_t, the secure set intersection of the DkA paper (§3), exactly as it is written: for small domains.

Two parties have sets over the same domain, as strings of M bits. Afterwards P1 has a bit b₁, which with the random bit
b₂ that P2 brings says whether fewer than t elements are common: b₁ ⊕ b₂ = 1 when |D₁ ∩ D₂| < t. Neither learns the
size, nor that of the other's set.

    homomorphic (Algorithm 2)   P1 encrypts its bits, P2 multiplies those that it has too, adds a random share, and both
                                compare by Secure_COM (Algorithm 3), a garbled circuit; M encryptions
    circuit only (Algorithm 8)  AND, count and compare in one garbled circuit; about 2·M ANDs

P1 is party 0. What the paper leaves open: shares are whole numbers 40 binary digits longer than a count, taken modulo
2^w for the circuit, because P2 does not know the order of Okamoto and Uchiyama's message group.

The joint histogram (`protocol/sensitive/`) gives the same bits for all records of two partitions at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Literal

import numpy as np

from masquerade.crypto import Bits, Builder, Circuit, SecretKey, homomorphic, to_bits, words
from masquerade.crypto.bits import as_bits
from masquerade.crypto.count_circuits import below
from masquerade.crypto.homomorphic import STATISTICAL_BITS, PublicKey
from masquerade.errors import ParameterError
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import CircuitOutput, Pair, blaming, shared_outputs

Scheme = Literal["okamoto-uchiyama", "paillier"]

_READ_KEY: dict[Scheme, Callable[[bytes], PublicKey]] = {
    "okamoto-uchiyama": homomorphic.OkamotoUchiyamaPublic.from_bytes,
    "paillier": homomorphic.PaillierPublic.from_bytes,
}


class EncryptedSet(Message, tag="ssi-set", frozen=True):
    """P1's public key and its encrypted bits, in order."""

    key: bytes
    bits: bytes


class EncryptedShare(Message, tag="ssi-share", frozen=True):
    """The encrypted sum of the common bits, with P2's random share."""

    total: bytes


def new_key(scheme: Scheme = "okamoto-uchiyama", bits: int = 2048) -> SecretKey:
    """Generate a key pair for P1 (step 1a)."""
    return (
        homomorphic.generate_okamoto_uchiyama(bits)
        if scheme == "okamoto-uchiyama"
        else homomorphic.generate_paillier(bits)
    )


def ssi_first(pair: Pair, own: Bits, threshold: int, key: SecretKey) -> Script[int]:
    """Run P1's part of Algorithm 2. Return its bit b₁."""
    bits = as_bits(own)
    ciphertexts = [key.encrypt(int(bit)) for bit in bits]
    yield Send((pair.peer,), EncryptedSet(key.public.to_bytes(), key.public.encode(ciphertexts)))
    answer = yield Receive(pair.peer, EncryptedShare)
    with blaming(pair.peer):
        (total,) = key.public.decode(answer.total, 1)
    return (yield from secure_com(pair, key.decrypt(total), len(bits), threshold)) or 0


def ssi_second(pair: Pair, own: Bits, threshold: int, bit: int, scheme: Scheme = "okamoto-uchiyama") -> Script[None]:
    """Run P2's part of Algorithm 2, with its random bit b₂."""
    bits = as_bits(own)
    heard = yield Receive(pair.peer, EncryptedSet)
    with blaming(pair.peer):
        public = _READ_KEY[scheme](heard.key)
        ciphertexts = public.decode(heard.bits, len(bits))
    common = public.total(ciphertext for ciphertext, mine in zip(ciphertexts, bits, strict=True) if mine)
    share = secrets.randbits(len(bits).bit_length() + STATISTICAL_BITS)
    masked = public.rerandomise(public.add(common, public.message_part(public.checked(share))))
    yield Send((pair.peer,), EncryptedShare(public.encode([masked])))
    yield from secure_com(pair, -share, len(bits), threshold, bit)


def secure_com(pair: Pair, share: int, most: int, threshold: int, bit: int | None = None) -> Script[int | None]:
    """Algorithm 3: P1 gets (sum of the shares < threshold) ⊕ b₂, P2 nothing. Sums lie between 0 and `most`."""
    width = most.bit_length() + 1
    inputs = {f"share {pair.me}": to_bits([share % (1 << width)], width)}
    return (yield from _masked(pair, less_than_public(width, threshold), inputs, bit))


def ssi_by_circuit(pair: Pair, own: Bits, threshold: int, bit: int | None = None) -> Script[int | None]:
    """Run either party's part of Algorithm 8: P1 gets b₁, P2 supplies b₂ and gets nothing."""
    bits = as_bits(own)
    circuit = fewer_in_common(len(bits), threshold)
    return (yield from _masked(pair, circuit, {f"bits {pair.me}": bits[:, None]}, bit))


def _masked(pair: Pair, circuit: Circuit, inputs: dict[str, Bits], bit: int | None) -> Script[int | None]:
    if (bit is None) != (pair.me == 0):
        raise ParameterError("P2, and it alone, brings the random bit of a secure comparison")
    if bit is not None:
        inputs["mask"] = np.array([[bit]], np.uint8)
    out = yield from shared_outputs(pair, circuit, 1, inputs)
    own = int(out["masked"][0, 0])
    if pair.me == 1:
        yield Send((pair.peer,), CircuitOutput(bytes([own])))  # its share, for P1 alone to read
        return None
    told = yield Receive(pair.peer, CircuitOutput)
    return own ^ int(told.labels[0])


def less_than_public(width: int, threshold: int) -> Circuit:
    """Secure_COM (Algorithm 3): (share 0 + share 1 < threshold) ⊕ mask."""
    build = Builder()
    shares = [build.input(f"share {party}", width) for party in range(2)]
    (mask,) = build.input("mask", 1)
    build.output("masked", [build.xor(below(build, words.add(build, *shares), threshold), mask)])
    return build.build()


def fewer_in_common(size: int, threshold: int) -> Circuit:
    """Algorithm 8: (how many places are set in both bit strings < threshold) ⊕ mask."""
    build = Builder()
    left, right = (build.input(f"bits {party}", size) for party in range(2))
    (mask,) = build.input("mask", 1)
    common = words.population(build, [build.both(a, b) for a, b in zip(left, right, strict=True)])
    build.output("masked", [build.xor(below(build, common, threshold), mask)])
    return build.build()
