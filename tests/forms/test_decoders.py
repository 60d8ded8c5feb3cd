"""Decoders are made once, in one place: nobody decodes a type while another thread works out what it allows."""

from __future__ import annotations

import ast
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

import masquerade
from masquerade.forms import convert, json_decoder, msgpack_decoder

SOURCE = Path(masquerade.__file__).parent
HALF_KNOWN = Path(__file__).with_name("half_known.py")
# What works out what a type allows, on its first use.
READS_TYPES = {"decode", "Decoder", "convert", "inspect", "schema", "schema_components"}


class Sent(msgspec.Struct, tag="sent"):
    number: int


class Lost(msgspec.Struct, tag="lost"):
    reason: str


def test_each_is_made_once() -> None:
    for of in (json_decoder, msgpack_decoder):
        assert of(Sent) is of(Sent)
        assert of(Sent | Lost) is of(Sent | Lost)
        assert of(Sent) is not of(Lost)
    assert json_decoder(Sent) is not msgpack_decoder(Sent)


def test_they_decode_into_a_type_and_into_a_union() -> None:
    assert json_decoder(Sent).decode(msgspec.json.encode(Sent(1))) == Sent(1)
    assert msgpack_decoder(Sent | Lost).decode(msgspec.msgpack.encode(Lost("rain"))) == Lost("rain")
    assert convert({"type": "sent", "number": 2}, Sent) == Sent(2)
    assert json_decoder(Any).decode(b'{"any": ["thing"]}') == {"any": ["thing"]}
    with pytest.raises(msgspec.ValidationError):
        json_decoder(Sent).decode(b'{"type": "sent", "number": "2"}')


@pytest.mark.system
@pytest.mark.parametrize(("first", "second"), [*product(("json", "msgpack", "convert"), repeat=2)])
def test_a_thread_that_decodes_while_another_works_out_the_type_waits_for_it(first: str, second: str) -> None:
    """With msgspec's own functions (`theirs`) this crashes: in a fresh process, therefore."""
    words = [sys.executable, str(HALF_KNOWN), first, second, "ours"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_nothing_else_decodes_types() -> None:
    """Through `msgspec.….decode` and the like, or by names imported of msgspec."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text("utf-8")
        if name != "forms/decoders.py" and "msgspec" in text:
            found += [f"{name}:{line}: {what}" for line, what in reads_types(text)]
    assert not found, "use masquerade.forms.decoders instead of:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "import msgspec\nmsgspec.json.decode(data, type=Sent)",
        "import msgspec as m\nread = m.msgpack.Decoder(Sent)",
        "from msgspec import json\njson.decode(data)",
        "from msgspec.msgpack import decode",
        "from msgspec import convert as made",
    ],
)
def test_each_of_these_would_be_found(text: str) -> None:
    assert len(list(reads_types(text))) == 1


def reads_types(text: str) -> list[tuple[int, str]]:
    """The lines at which msgspec is asked to read a type, other than by the decoders."""
    tree, ours, found = ast.parse(text), set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            ours |= {each.asname or "msgspec" for each in node.names if each.name.partition(".")[0] == "msgspec"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "msgspec":
            ours |= {each.asname or each.name for each in node.names}
            found += [(node.lineno, each.name) for each in node.names if each.name in READS_TYPES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in READS_TYPES:
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in ours:
                found.append((node.lineno, ast.unparse(node)))
    return found
