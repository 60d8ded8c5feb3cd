"""Modules of `benchmarks/`, loaded without its folder on the path, where its papers.py would hide `tests/papers/`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent.parent / "benchmarks"


def of_experiments(name: str) -> ModuleType:
    """The module benchmarks/NAME.py, the same one every time."""
    known = f"benchmarks.{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]
