"""Every key, mask and shuffle of a protocol is drawn in one place, as long as it is meant to be, and is never repeated.

`random_bytes` of `crypto/hashing.py` is that place. All modules are read for others; every draw of every recorded
session is looked at; and of whatever makes a key, thousands are made.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masquerade
from leakage.coins import Leak
from leakage.distributions import FALSE_ALARM
from leakage.sessions import SESSIONS
from masquerade.crypto import Blinding, Delta, PowerOfTwo, base_transfer, hashing, punctured_trees
from masquerade.crypto.secure_sum import MaskKey

SOURCE = Path(masquerade.__file__).parent
KEY_BYTES = 16  # the fewest that nobody guesses

# What else draws, by its reason.
NUMBERS = "numbers below a modulus, by `secrets`"
PUBLIC = "names, nonces and tokens, which are no protocol's secret"
OWN = "a secret that stays in this process or folder"
SEEDED = "drawn from a seed that is given or public: samples, folds, queries"
PAUSES = "how long to wait, so that nodes do not retry in step"
IDENTITY = "the library's own keys of certificates"
OTHERS = {
    "crypto/homomorphic.py": NUMBERS,
    "protocol/contract.py": PUBLIC,
    "net/identity.py": IDENTITY,
    "net/connect.py": PAUSES,
    "service/node/serving.py": PAUSES,
    **dict.fromkeys(("audit/log.py", "console/frame.py", "engine/cluster.py", "files.py"), PUBLIC),
    **dict.fromkeys(
        ("demo/demo.py", "surface/estimators.py", "service/accounts.py", "service/agree/request.py"), PUBLIC
    ),
    **dict.fromkeys(("service/agree/signing.py", "service/node/preview.py", "service/store/sessions.py"), PUBLIC),
    **dict.fromkeys(("service/coordinator/release_files.py", "service/store/users.py"), PUBLIC),
    **dict.fromkeys(("anonymize/shared_people.py", "risk/separation.py", "privacy/check.py", "data/write.py"), OWN),
    **dict.fromkeys(("anonymize/release.py", "data/reading.py", "doctor/service.py", "service/snapshot.py"), OWN),
    **dict.fromkeys(("anonymize/k_member.py", "anonymize/cheapest_box/method.py", "data/people.py"), SEEDED),
    **dict.fromkeys(("anonymize/cheapest_box/space.py", "data/fingerprinting.py", "risk/keys.py"), SEEDED),
    **dict.fromkeys(("risk/sampling.py", "utility/accuracy.py", "utility/classification.py"), SEEDED),
    **dict.fromkeys(("utility/measures.py", "utility/queries.py"), SEEDED),
}
_MODULES = {"secrets", "random", "uuid"}
_CALLS = {
    "urandom",
    "getrandom",
    "token_bytes",
    "token_hex",
    "randbits",
    "generate_private_key",
    "default_rng",
    "PCG64",
}

# Draws of masks with a bit or a byte for each thing that they mask, however few things there are; a sign is one bit.
AS_LONG_AS_MASKED = {
    "masquerade.anonymize.release.shuffled",
    "masquerade.crypto.base_transfer._random_point",
    "masquerade.crypto.gmw._random_rows",
    "masquerade.crypto.oblivious_permutation.Owner._random",
    "masquerade.crypto.punctured_trees.random_words",
    "masquerade.protocol.align.curve._random_order",
    "masquerade.protocol.comparing.argmax.EvaluatingSide.order",
    "masquerade.protocol.dka.encrypted_join.join_second",
    "masquerade.protocol.sensitive.homomorphic.looked_up_bits",
}


def draws(source: str) -> Iterator[int]:
    """The lines of a module that draw randomness otherwise than by `random_bytes`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names) if any(each.name.partition(".")[0] in _MODULES for each in names):
                yield node.lineno
            case ast.ImportFrom(module=str(module), names=names):
                if module.partition(".")[0] in _MODULES or any(each.name in _CALLS for each in names):
                    yield node.lineno
            case ast.Attribute(attr=attribute) if attribute in _CALLS:
                yield node.lineno


def test_one_place_draws_what_protocols_keep_secret() -> None:
    found = {path.relative_to(SOURCE).as_posix(): [*draws(path.read_text())] for path in SOURCE.rglob("*.py")}
    drawing = {name for name, lines in found.items() if lines}
    assert {"crypto/hashing.py", *OTHERS} <= drawing, "a reason in OTHERS is of no use any more"
    for name in sorted(drawing - {"crypto/hashing.py"} - OTHERS.keys()):
        raise Leak(f"{name} draws randomness in line {found[name][0]}: take random_bytes, or give a reason in OTHERS")


@pytest.mark.parametrize("name", SESSIONS)
def test_keys_of_a_session_are_drawn_long_enough(name: str, recordings: Any) -> None:
    for place, sizes in recordings(name, 0).tapes.sizes.items():
        # A library that seeds a generator of its own when it is loaded makes no key.
        if not place.startswith("scipy.") and place not in AS_LONG_AS_MASKED and min(sizes) < KEY_BYTES:
            raise Leak(f"{place} draws {min(sizes)} bytes, which somebody could guess")


MADE: dict[str, tuple[Callable[[], bytes], int]] = {
    "random_bytes": (lambda: hashing.random_bytes(32), 32),
    "random_blocks": (lambda: hashing.random_blocks(2).tobytes(), 32),
    "the key of masks": (lambda: MaskKey()._secret, 32),
    "a blinding": (lambda: Blinding()._scalar, 32),
    "the difference of labels": (lambda: Delta().block.tobytes(), 16),
    "elements of a ring": (lambda: PowerOfTwo(64).random(4).tobytes(), 32),
    "random words": (lambda: punctured_trees.random_words((4,), np.dtype(np.uint64)).tobytes(), 32),
    "the secret of a transfer": (lambda: base_transfer._random_point()[0], 32),
}


@pytest.mark.parametrize("what", MADE)
def test_a_key_has_its_whole_length_and_never_comes_twice(what: str) -> None:
    """Of 4096 with 40 bits of entropy two would be alike once in 10^5 runs; with 16 bits they always are.

    So that no part of a key repeats another or stands still, each two of its bytes differ, and each bit is set, in
    about as many as they should: an honest key fails once in 10^9 runs.
    """
    make, size = MADE[what]
    keys = [make() for _ in range(4096)]
    if any(len(each) != size for each in keys):
        raise Leak(f"{what} has {len(keys[0])} bytes, not {size}")
    if len(set(keys)) < len(keys):
        raise Leak(f"{what}: only {len(set(keys))} of {len(keys)} differ, so it has few bits of entropy")
    table = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), size)
    set_bits = np.unpackbits(table, axis=1).sum(axis=0)
    bound = np.sqrt(len(keys) * np.log(2 * 8 * size / FALSE_ALARM) / 2)  # Hoeffding's, over all bits together
    still = int((np.abs(set_bits - len(keys) / 2) > bound).sum())
    if still > (what == "the difference of labels"):  # whose lowest bit is always set
        raise Leak(f"{what}: {still} bits are not random")
    alike = [(one, two) for one in range(size) for two in range(one) if (table[:, one] == table[:, two]).mean() > 0.05]
    if alike:
        raise Leak(f"{what}: its bytes {alike[0]} are alike")
