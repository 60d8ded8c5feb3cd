"""Packages of others, put into a folder as an installer would leave them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def install(folder: Path, name: str, modules: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]]) -> Path:
    """Write a package's modules, by file name, and the description by which its entry points are found."""
    package, described = folder / name, folder / f"{name}-1.0.dist-info"
    for made in (package, described):
        made.mkdir(parents=True)
    for file, text in {"__init__.py": "", **modules}.items():
        (package / file).write_text(text, "utf-8")
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{point} = {target}\n" for point, target in points.items())
            for group, points in entry_points.items()
        )
    )
    return folder


def python(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with what is installed in another."""
    path = os.pathsep.join([str(installed), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,  # a hang is a failure, a slow machine is not
    )
