"""What travels is what messages.toml says: every field, its type and class, and the size of every message.

When this fails, something about the messages has changed. Run `make messages`, read the difference, decide the class of
what is new, and say in docs/leakage.md who learns it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from leakage.coins import Leak, Recording, Tapes
from leakage.freeze import kinds_of, sizes_of
from leakage.frozen import CLASSES, Frozen, all_structs, is_message, travelling, types_of
from leakage.pieces import PIECES
from leakage.sessions import SESSIONS
from leakage.worlds import WORLDS

FROZEN = Frozen.read()
STRUCTS = travelling()
AGAIN = "run `make messages` and read the difference"


def test_fields_and_types_are_frozen() -> None:
    now = {kind: types_of(struct) for kind, struct in travelling().items()}
    for kind in sorted(now.keys() | FROZEN.messages.keys()):
        frozen = {name: told["type"] for name, told in FROZEN.fields(kind).items()}
        if kind not in FROZEN.messages:
            raise Leak(f"{kind} is new: does it travel? If not, add it to at_home in messages.toml; or {AGAIN}")
        if now.get(kind) != frozen:
            raise Leak(f"{kind} has the fields {now.get(kind)}; frozen are {frozen}: {AGAIN}")


def test_what_stays_at_home_is_there() -> None:
    assert set(FROZEN.at_home) <= all_structs().keys()


@pytest.mark.parametrize("kind", sorted(FROZEN.messages))
def test_every_field_has_a_class(kind: str) -> None:
    for name, told in FROZEN.fields(kind).items():
        classes = told["class"].split(" or ")
        if not set(classes) <= set(CLASSES):
            raise Leak(f'{kind}.{name} is "{told["class"]}": it must be open, masked or public')
        tests = told["by"].split(", ") if "by" in told else []
        unknown = [each for each in tests if each not in PIECES and each not in WORLDS]
        assert not unknown, f"{kind}.{name} is answered for by {unknown}, which is no test"
        if ("masked" in classes) != bool(tests):
            raise Leak(f"{kind}.{name}: every masked field, and no other, names the tests that answer for it")


@pytest.mark.parametrize("name", SESSIONS)
def test_sizes_follow_from_public_numbers(name: str, recordings: Any) -> None:
    """As long as frozen, and as long with other private data."""
    frozen = FROZEN.sessions.get(name)
    assert frozen is not None, f"no sizes of {name} are frozen: {AGAIN}"
    assert frozen["public"] == {
        key: list(value) if isinstance(value, tuple) else value for key, value in SESSIONS[name].public.items()
    }
    one, other = (recordings(name, private) for private in frozen["private"])
    assert kinds_of(one) == kinds_of(other), f"other messages than frozen: {AGAIN}"
    sizes, others = sizes_of(one), sizes_of(other)
    for who in sorted(sizes.keys() | frozen["sizes"].keys()):
        if sizes.get(who) != frozen["sizes"].get(who):
            raise Leak(f"{who}: {sizes.get(who)} bytes; frozen are {frozen['sizes'].get(who)}: {AGAIN}")
        if FROZEN.all_masked(who.split(",")[0]) and sizes[who] != others[who]:
            raise Leak(f"{who}: its length depends on private data")
    for recording in (one, other):
        check_lengths(recording, SESSIONS[name].public)


def check_lengths(recording: Recording, public: Any) -> None:
    """Fields whose length is a formula of public numbers have it, or one of several that it may have."""
    names = {
        "s": 1,
        "ahead": [64],
        "at_once": [1],
        "rows": [public["q"]] if "q" in public else [],  # of a joint histogram
        "shapes": [(n, public["p"], public["q"]) for n in public.get("left", ())],
        "looked": [(n, public[side]) for n in public.get("left", ()) for side in ("p", "q")],
        **public,
        "up": lambda number, block: -(-number // block) * block,
    }
    for heard in recording.wire.heard:
        told = msgspec.msgpack.decode(heard.data)
        for name, field in FROZEN.fields(heard.kind).items():
            if "length" in field:
                expected = eval(field["length"], {**told, **names})  # a formula of our own file
                if len(told[name]) not in (expected if isinstance(expected, list) else [expected]):
                    raise Leak(f"{heard.kind}.{name} has {len(told[name])} bytes, not {field['length']}")


@pytest.mark.parametrize("name", SESSIONS)
def test_maps_are_in_the_order_of_their_keys(name: str, recordings: Any) -> None:
    """The order in which a map was filled could tell of the data that filled it."""
    for heard in recordings(name, 0).wire.heard:
        told: Any = msgspec.msgpack.decode(heard.data, type=STRUCTS[heard.kind])
        if msgspec.msgpack.encode(told, order="deterministic") != heard.data:
            raise Leak(f"a map of {heard.kind} is not in the order of its keys")


@pytest.mark.parametrize("name", SESSIONS)
def test_every_kind_of_a_session_is_frozen(name: str, recordings: Any) -> None:
    kinds = {each.kind for each in recordings(name, 0).wire.heard}
    assert kinds <= FROZEN.messages.keys()


def test_every_message_is_seen_in_some_session_or_piece(recordings: Any) -> None:
    """A message that no session has would be tested by nobody."""
    seen = {each.kind for name in SESSIONS for each in recordings(name, 0).wire.heard}
    seen |= {kind for piece in PIECES for kind, _ in FROZEN.masked_by(piece)}
    messages = {kind for kind, told in FROZEN.messages.items() if is_message(kind)}
    assert messages - seen == {"reported-step"}, "make a session that has it"  # a part of "columns"


def test_the_same_tapes_give_the_same_session() -> None:
    name = next(iter(SESSIONS))
    one, other = (SESSIONS[name].play(0, Tapes()) for _ in range(2))
    assert one.wire.heard == other.wire.heard
