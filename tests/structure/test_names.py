"""A public class name means one thing in all of the package, so that who reads it need not look where it is from."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import masquerade

SOURCE = Path(masquerade.__file__).parent
TREES = {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}

# Names that two modules share, each with why.
SHARED = {"Table": "that of `masquerade` is the same with `guess`, which needs what the data layer may not import"}


def test_no_two_modules_give_a_public_class_the_same_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for file, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(file)
    assert {name: files for name, files in homes.items() if len(files) > 1 and name not in SHARED} == {}
    assert all(len(homes[name]) > 1 for name in SHARED)
