"""Could these tests fail? Leaks are planted in a copy of the code, and must be noticed; the copy without them passes.

A planted leak is a text of the source and what stands there instead: the protocol goes on as before, and somebody
learns more. When the source changes, change the text here so that it plants the same leak again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import masquerade

pytestmark = pytest.mark.system  # each runs the tests in a process of its own

SOURCE = Path(masquerade.__file__).parent
TESTS = Path(__file__).parent


@dataclass(frozen=True)
class Planted:
    """Changes of one file, and the test that notices."""

    name: str
    file: str
    changes: Sequence[tuple[str, str]]
    noticed_by: str


OPEN = "test_open_fields.py::test_a_simulator_makes_every_view"
WORLDS = "test_masked_fields.py::test_two_worlds_look_alike"
LEAKS = [
    Planted(
        "raw identifiers in a new field of Blinded",
        "protocol/align.py",
        [
            ("    points: bytes\n", "    points: bytes\n    names: tuple[bytes, ...] = ()\n"),
            ("Blinded(me, own.tobytes())", "Blinded(me, own.tobytes(), tuple(identifiers))"),
        ],
        "test_frozen.py::test_fields_and_types_are_frozen",
    ),
    Planted(
        "raw cells of the QID in Columns, in a dictionary beside the values of the cut",
        "protocol/common_records.py",
        [
            (
                "column.name: released[column.name].to_arrow() if",
                "column.name: pa.DictionaryArray.from_arrays(released[column.name].codes, "
                "[*released[column.name].labels, *map(str, own.cells(column.name).to_pylist())]) if",
            )
        ],
        f"{OPEN}[0-mashup, plain scores]",
    ),
    Planted(
        "the exact count in Size",
        "protocol/collaborate/provider.py",
        [("Size(own)", "Size(records)"), ("bits = told.bits\n", "bits = told.bits.bit_length()\n")],
        f"{OPEN}[0-collaborate, secure, aware]",
    ),
    Planted(
        "zero masks in the look-up of the joint histogram",
        "protocol/joint_histogram/histogram.py",
        [
            (
                "masks = _random_words((count, *cell), bounds.word)",
                "masks = np.zeros((count, *cell), bounds.word)",
            )
        ],
        f"{WORLDS}[look-up]",
    ),
    Planted(
        "an own list that is not shuffled",
        "protocol/align.py",
        [("order = _random_order(len(identifiers))", "order = np.arange(len(identifiers))")],
        "test_masked_alignment.py::test_two_worlds_look_alike[2-1]",
    ),
    # Like them, but not of them:
    Planted(
        "lists of others that are not shuffled",
        "protocol/align.py",
        [("shuffles[owner] = _random_order(len(points))", "shuffles[owner] = np.arange(len(points))")],
        "test_masked_alignment.py::test_two_worlds_look_alike[3-2]",
    ),
    Planted(
        "a bid whose mask is zero",
        "protocol/pairwise_comparison.py",
        [("os.urandom(n_rounds * -(-self._width // 8))", "bytes(n_rounds * -(-self._width // 8))")],
        f"{WORLDS}[comparison]",
    ),
    Planted(
        "triples that are zero",
        "crypto/triples.py",
        [
            (
                "_a, self._b = _random_bits(count), _random_bits(count)",
                "_a = self._b = np.zeros(count, np.uint8)",
            )
        ],
        f"{WORLDS}[shared circuit]",
    ),
    Planted(
        "into how many parts a refused cut goes, behind the bits that settle it",
        "protocol/multidimensional/cut_checks.py",
        [
            (
                "CutsSettled(np.packbits(kept).tobytes())",
                "CutsSettled(np.packbits(kept).tobytes() + best.of(theirs, batch).n_parts.astype(np.uint8).tobytes())",
            ),
            ("len(settled.cuts) != -(-asked.n_groups // 8)", "len(settled.cuts) < -(-asked.n_groups // 8)"),
        ],
        f"{OPEN}[0-mashup by mondrian, sensitive elsewhere]",
    ),
    Planted(
        "how many raw values there are, as a time that was taken",
        "protocol/common_records.py",
        [
            (
                'seconds["protocol"] = time.perf_counter()',
                'seconds["protocol"] = float(len({*own.cells(contract.columns_of(name)[0].name).to_pylist()})) '
                "+ time.perf_counter()",
            )
        ],
        f"{OPEN}[0-mashup, plain scores]",
    ),
    Planted(
        "garbled labels whose colours are the garbler's bits",
        "crypto/garble.py",
        [
            (
                "zeros = random_blocks(n_bits * n_instances).reshape(n_bits, n_instances, 2)",
                "zeros = random_blocks(n_bits * n_instances).reshape(n_bits, n_instances, 2) & ~np.uint64(1)",
            )
        ],
        f"{WORLDS}[threshold]",
    ),
]
NOTICING = sorted({each.noticed_by for each in LEAKS})


def copied(folder: Path) -> Path:
    """A copy of the package, in a folder to import it from."""
    shutil.copytree(SOURCE, folder / SOURCE.name)
    return folder


def plant(leak: Planted, folder: Path) -> None:
    path = folder / SOURCE.name / leak.file
    text = path.read_text()
    for old, new in leak.changes:
        if text.count(old) != 1:
            pytest.fail(
                f'"{leak.name}" cannot be planted: src/masquerade/{leak.file} has {text.count(old)} times '
                f"{old!r}. Write in {Path(__file__).name} what stands there now, so that the same leak is planted."
            )
        text = text.replace(old, new)
    path.write_text(text)


def run(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """These tests on the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *(str(TESTS / each) for each in tests)],
        cwd=TESTS.parent.parent,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_is_noticed_where_nothing_is_planted(tmp_path: Path) -> None:
    done = run(copied(tmp_path), NOTICING)
    assert done.returncode == 0, done.stdout
    assert f"{len(NOTICING)} passed" in done.stdout


@pytest.mark.parametrize("leak", LEAKS, ids=lambda each: each.name)
def test_a_planted_leak_is_noticed(leak: Planted, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    plant(leak, folder)
    done = run(folder, [leak.noticed_by])
    assert done.returncode == 1, f"{leak.noticed_by} does not notice: {done.stdout}{done.stderr}"
    assert "leakage.coins.Leak" in done.stdout, f"it fails, but not for the leak: {done.stdout}"
