"""What modules import of each other when they are loaded has no cycle, so that each can be read after those it uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import masquerade

SOURCE = Path(masquerade.__file__).parent
FILES = {
    ".".join(("masquerade", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def imported(module: str) -> Iterator[str]:
    """The modules of ours that a module imports at its top level; not those that it imports in functions."""
    for node in ast.parse(FILES[module].read_text()).body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            parts = {f"{node.module}.{each.name}" for each in node.names} & FILES.keys()
            yield from parts or ({node.module} & FILES.keys())


def test_no_module_needs_itself() -> None:
    try:
        TopologicalSorter({module: set(imported(module)) for module in FILES}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1]))
