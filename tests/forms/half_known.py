"""Decode a type by a second thread while the first is working out what it allows; prints what each thread got.

`half_known.py ours`; with `theirs` in place of `ours`, by msgspec's own functions, which are not safe: the second
thread gets an error, or the process crashes (msgspec 0.18 to 0.22). Not to be loaded by a test: each needs a process
that has not used the type.
"""

from __future__ import annotations

import sys
import threading

import msgspec

from masquerade.forms import convert, json_decoder, msgpack_decoder

working_it_out, decoded = threading.Event(), threading.Event()


def later() -> type[int]:
    """The type of a field, which is asked for when half of what the outer type allows is known."""
    working_it_out.set()
    decoded.wait(0.3)  # a thread that does not wait for us is done by then, and one that does is not
    return int


class Inner(msgspec.Struct):
    """Its fields are looked at while those of the outer type are."""

    number: later()  # type: ignore[valid-type] # an expression, which is evaluated when the type is first decoded


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    """A message."""

    name: str
    inner: Inner
    rest: dict[str, list[int]]


CONTENT = {"name": "a", "inner": {"number": 1}, "rest": {"b": [2]}}
WAYS = {
    "json": (
        lambda: json_decoder(Outer).decode(msgspec.json.encode(CONTENT)),
        lambda: msgspec.json.decode(msgspec.json.encode(CONTENT), type=Outer),
    ),
    "msgpack": (
        lambda: msgpack_decoder(Outer).decode(msgspec.msgpack.encode(CONTENT)),
        lambda: msgspec.msgpack.decode(msgspec.msgpack.encode(CONTENT), type=Outer),
    ),
    "convert": (lambda: convert(CONTENT, Outer), lambda: msgspec.convert(CONTENT, Outer)),
}


def main(first: str, second: str, whose: str) -> None:
    """Decode in one way, and in another as soon as that has begun."""
    got = {}

    def decode(which: str, way: str) -> None:
        try:
            got[which] = WAYS[way][whose == "theirs"]().rest == {"b": [2]}
        except Exception as error:
            got[which] = repr(error)

    def decode_second() -> None:
        working_it_out.wait()
        decode("second", second)
        decoded.set()

    threads = [threading.Thread(target=decode, args=("first", first)), threading.Thread(target=decode_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(got["first"], got["second"])  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
