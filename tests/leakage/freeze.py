"""`make messages`: freeze what travels now into messages.toml, and say what a person has yet to decide.

A field that is new has the class "?", which the tests refuse: write open, masked or public there, and make its
simulator or its distribution test. Read the difference before you commit it: it is what the parties show more or less.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from itertools import count
from typing import Any

import msgspec

from leakage import pieces  # noqa: F401 - it loads the messages that only experiments send
from leakage.coins import Recording, Tapes
from leakage.frozen import FILE, Frozen, all_structs, travelling, types_of
from leakage.sessions import SESSIONS
from leakage.views import Session

HEAD = """\
# Everything that travels, field by field, and how long it is. Made by `make messages` (tests/leakage/freeze.py); people
# decide `class`, `by` and `length` (tests/leakage/frozen.py), which are kept. Read the difference: a new field or a
# longer message is something that somebody learns.
"""


def kinds_of(recording: Recording) -> list[tuple[str, str, str]]:
    """Who tells whom which kind of message, by sender and receiver."""
    return sorted((each.sender, each.receiver, each.kind) for each in recording.wire.heard)


def sizes_of(recording: Recording) -> dict[str, list[str]]:
    """How many messages of which encoded size there are, by kind, sender and receiver."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for each in recording.wire.heard:
        found[f"{each.kind}, {each.sender} to {each.receiver}"][len(each.data)] += 1
    return {who: [f"{times} × {size}" for size, times in sorted(sizes.items())] for who, sizes in sorted(found.items())}


def frozen_session(session: Session) -> dict[str, Any]:
    """Two sets of private data that differ in nothing that everybody sees, and the sizes of all messages."""
    first = session.play(0, Tapes())
    learnt, kinds = session.learnt(0), kinds_of(first)
    other = next(at for at in count(1) if session.learnt(at) == learnt and kinds_of(session.play(at, Tapes())) == kinds)
    return {"public": dict(session.public), "private": [0, other], "sizes": sizes_of(first)}


def main() -> int:
    """Write the file; the exit code is 1 while a field has no class."""
    old = Frozen.read()
    lines = [HEAD, f"at_home = {_value(sorted({*old.at_home} & {*all_structs()}), wide=True)}", ""]
    undecided = []
    for kind, struct in travelling().items():
        lines += ["", f"[message.{_key(kind)}]"]
        for name, text in types_of(struct).items():
            told = old.fields(kind).get(name, {})
            decided = {"type": text, "class": told.get("class", "?")}
            decided |= {key: told[key] for key in ("by", "length") if key in told}
            if decided["class"] == "?":
                undecided.append(f"{kind}.{name}")
            lines.append(f"{name} = {_value(decided)}")
    for session in SESSIONS.values():
        found = frozen_session(session)
        lines += ["", f"[session.{_key(session.name)}]"]
        lines += [f"{key} = {_value(found[key])}" for key in ("public", "private")]
        lines += [f"sizes.{_key(key)} = {_value(each)}" for key, each in found["sizes"].items()]
    FILE.write_text("\n".join(lines) + "\n")
    sys.stdout.write(f"{FILE} is written; read the difference.\n")
    for each in undecided:
        sys.stdout.write(f"{each} has no class yet: open, masked or public?\n")
    return 1 if undecided else 0


def _key(text: str) -> str:
    return text if text.replace("-", "").replace("_", "").isalnum() else f'"{text}"'


def _value(value: Any, *, wide: bool = False) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        if wide and value:
            return "[\n" + "".join(f"  {_value(each)},\n" for each in value) + "]"
        return "[" + ", ".join(map(_value, value)) + "]"
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    sys.exit(main())
