"""What modules import of each other when they are loaded has no cycle, so that each can be read after those it uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import masquerade

SOURCE = Path(masquerade.__file__).parent
FILES = {
    ".".join(("masquerade", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def _offered(face: Path) -> dict[str, str]:
    """Which module each name of a package's face comes from."""
    room = ".".join(("masquerade", *face.relative_to(SOURCE).parent.parts))
    return {
        each.asname or each.name: f"{room}.{node.module}"
        for node in ast.parse(face.read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for each in node.names
    }


FACES = {
    ".".join(("masquerade", *face.relative_to(SOURCE).parent.parts)): _offered(face)
    for face in SOURCE.rglob("__init__.pyi")
}


def imported(module: str) -> Iterator[str]:
    """The modules of ours that a module imports at its top level; not those that it imports in functions."""
    for node in ast.parse(FILES[module].read_text()).body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            face = FACES.get(node.module, {})
            named = {face.get(each.name, f"{node.module}.{each.name}") for each in node.names}
            yield from named & FILES.keys() or ({node.module} & FILES.keys())


@pytest.mark.parametrize("room", FACES)
def test_a_face_offers_what_is_there(room: str) -> None:
    assert not {home for home in FACES[room].values() if home not in FILES}
    assert all(hasattr(import_module(room), name) for name in FACES[room])


def test_no_module_needs_itself() -> None:
    try:
        TopologicalSorter({module: set(imported(module)) for module in FILES}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1]))
