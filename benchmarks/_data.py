"""Where the experiments find UCI's files: beside the checkout, or where `masquerade bench --data` says."""

from __future__ import annotations

from pathlib import Path

BESIDE = Path(__file__).resolve().parents[1] / "../shared/data"
SOURCES = "UCI's machine learning repository has them as “Adult” (data set 2) and “Credit Approval” (data set 27)"

_root = BESIDE


def use(root: Path) -> None:
    """Read from this folder from now on; the folder that has adult.data itself is understood, too."""
    global _root
    _root = root.parent if (root / "adult.data").exists() else root


def folder(name: str) -> Path:
    """Return the folder of a data set."""
    return _root / name
