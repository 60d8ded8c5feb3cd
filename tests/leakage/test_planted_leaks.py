"""Could these tests fail? Leaks are planted in a copy of the code, and must be noticed; the copy without them passes.

A planted leak replaces an attribute of the program (planted.py), or, where the leak is in the middle of a function, a
text in the source of a function or class, wherever that is defined: the protocol goes on as before, and somebody learns
more. When the source changes, change the text here so that it plants the same leak again.
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import forked
import masquerade
from leakage.planted import PLANTED, PlantedAttribute
from masquerade.crypto import Garbler, Owner, ValueSender, zero_shares
from masquerade.crypto.secure_sum import MaskKey
from masquerade.protocol.align.curve import Blinded, align_on_curve
from masquerade.protocol.common_records import hand_in, handed_in
from masquerade.protocol.joint_keys import JointKeys
from masquerade.protocol.learn.cox import _Fit
from masquerade.protocol.mondrian.checks import CutChecks
from masquerade.protocol.providers.provider import _agree_on_sizes

pytestmark = pytest.mark.system  # each runs the tests in a process of its own

SOURCE = Path(masquerade.__file__).parent
TESTS = Path(__file__).parent


@dataclass(frozen=True)
class Planted:
    """Changes of functions or classes, and the test that notices."""

    name: str
    changes: Sequence[tuple[Any, str, str]]  # where; what stands there, once; what is put there instead
    noticed_by: str


OPEN = "test_open_fields.py::test_a_simulator_makes_every_view"
WORLDS = "test_masked_fields.py::test_two_worlds_look_alike"
LEAKS = [
    Planted(
        "raw identifiers in a new field of Blinded",
        [
            (Blinded, "    points: bytes\n", "    points: bytes\n    names: tuple[bytes, ...] = ()\n"),
            (align_on_curve, "Blinded(me, own.tobytes())", "Blinded(me, own.tobytes(), tuple(identifiers))"),
        ],
        "test_frozen.py::test_fields_and_types_are_frozen",
    ),
    Planted(
        "raw cells of the QID in Columns, in a dictionary beside the values of the cut",
        [
            (
                handed_in,
                "column.name: released[column.name].to_arrow() if",
                "column.name: pa.DictionaryArray.from_arrays(released[column.name].codes, "
                "[*released[column.name].labels, *map(str, own.cells(column.name).to_pylist())]) if",
            )
        ],
        f"{OPEN}[0-mashup, plain scores]",
    ),
    Planted(
        "the number of own groups beside the ratios of joint keys",
        [
            (
                JointKeys,
                'seconds = {"align": aligned - started, "protocol"',
                'seconds = {"align": aligned - started, "groups": float(max(map(int, groups[0]))), "protocol"',
            )
        ],
        f"{OPEN}[0-joint keys, distinct, 2 parties]",
    ),
    Planted(
        "the exact count in Size",
        [
            (_agree_on_sizes, "Size(own)", "Size(records)"),
            (_agree_on_sizes, "bits = told.bits\n", "bits = told.bits.bit_length()\n"),
        ],
        f"{OPEN}[0-collaborate, secure, aware]",
    ),
    Planted(
        "a patient's attributes in the last digits of a Cox model's coefficients",
        [(_Fit, "self.shared.parties, at))", "self.shared.parties, at + 1e-9 * self.records.x[0]))")],
        f"{OPEN}[0-Cox model, 3 sites]",
    ),
    Planted(
        "labels that are sorted without masks",
        [
            (
                Owner,
                "self._masks = self._random()\n        self._masks[self._n :]",
                "self._masks = self._random() * 0\n        self._masks[self._n :]",
            )
        ],
        f"{WORLDS}[sorted histogram]",
    ),
    Planted(
        "rows of values that are not masked",
        [
            (
                ValueSender,
                "rows, tags = self._add(seeds, self._take(len(wanted)))",
                "rows, tags = self._add(seeds, self._take(len(wanted)))\n        rows[:] = 0",
            )
        ],
        f"{WORLDS}[split counts]",
    ),
    Planted(
        "an own list that is not shuffled",
        [(align_on_curve, "order = _random_order(len(identifiers))", "order = np.arange(len(identifiers))")],
        "test_masked_alignment.py::test_two_worlds_look_alike[2-1]",
    ),
    # Like them, but not of them:
    Planted(
        "lists of others that are not shuffled",
        [(align_on_curve, "shuffles[owner] = _random_order(len(points))", "shuffles[owner] = np.arange(len(points))")],
        "test_masked_alignment.py::test_two_worlds_look_alike[3-2]",
    ),
    Planted(
        "shares of zero that are zero",
        [(zero_shares, "total ^= np", "total ^= 0 * np")],
        "test_masked_alignment.py::test_a_leader_cannot_tell_whom_one_member_has",
    ),
    Planted(
        "into how many parts a refused cut goes, behind the bits that settle it",
        [
            (
                CutChecks,
                "CutsSettled(np.packbits(kept).tobytes())",
                "CutsSettled(np.packbits(kept).tobytes() + best.of(theirs).n_parts.astype(np.uint8).tobytes())",
            ),
            (CutChecks, "len(settled.cuts) != -(-asked.n_groups // 8)", "len(settled.cuts) < -(-asked.n_groups // 8)"),
        ],
        f"{OPEN}[0-mashup by mondrian, sensitive elsewhere]",
    ),
    Planted(
        "how many raw values there are, as a time that was taken",
        [
            (
                hand_in,
                'seconds["protocol"] = time.perf_counter()',
                'seconds["protocol"] = float(len({*common.own.cells(contract.columns_of(name)[0].name).to_pylist()})) '
                "+ time.perf_counter()",
            )
        ],
        f"{OPEN}[0-mashup, plain scores]",
    ),
    Planted(
        "a mask key that is drawn somewhere else",
        [
            (
                MaskKey,
                "self._secret = random_bytes(KEY_BYTES)",
                "import secrets\n\n        self._secret = secrets.token_bytes(KEY_BYTES)",
            )
        ],
        "test_keys.py::test_one_place_draws_what_protocols_keep_secret",
    ),
    Planted(
        "a seed of labels that begins with how many of the garbler's bits are set",
        [
            (
                Garbler,
                "seed = random_bytes(BLOCK_BYTES)",
                "seed = (bytes(int(bits.sum()) for bits in (own or {}).values()) + random_bytes(BLOCK_BYTES))[:16]",
            )
        ],
        f"{WORLDS}[comparison]",
    ),
]
NOTICING = sorted({each.noticed_by.partition("::")[0]: each.noticed_by for each in LEAKS}.values())  # one a file


def copied(folder: Path) -> Path:
    """A copy of the package, in a folder to import it from."""
    shutil.copytree(SOURCE, folder / SOURCE.name)
    return folder


def plant(leak: Planted, folder: Path) -> None:
    for where, old, changed in leak.changes:
        found = inspect.getsourcefile(where)
        assert found is not None
        path = folder / SOURCE.name / Path(found).relative_to(SOURCE)
        text, own = path.read_text(), inspect.getsource(where)
        own = own if own in text else text  # another change of the same place is there already
        if own.count(old) != 1:
            pytest.fail(
                f'"{leak.name}" cannot be planted: {where.__qualname__} has {own.count(old)} times '
                f"{old!r}. Write in {Path(__file__).name} what stands there now, so that the same leak is planted."
            )
        path.write_text(text.replace(own, own.replace(old, changed), 1))


# The process is forked from one that has loaded all libraries, and ours: the copy is loaded anew.
ON_THE_COPY = """
import sys, pytest
folder, *words = sys.argv[1:]
for name in [each for each in sys.modules if each.partition(".")[0] == "masquerade"]:
    del sys.modules[name]
sys.path.insert(0, folder)
import masquerade
assert masquerade.__file__.startswith(folder)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *words]))
"""


def run(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """These tests on the copy."""
    program = folder / "on_the_copy.py"
    program.write_text(ON_THE_COPY)
    return forked.run(
        [sys.executable, program, folder, *(str(TESTS / each) for each in tests)],
        cwd=TESTS.parent.parent,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        text=True,
    )


def test_nothing_is_noticed_where_nothing_is_planted(tmp_path: Path) -> None:
    """A copy passes as its original does, on which the others of these tests are run anyway."""
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


# The process is forked from one that has loaded the program, as it is.
WITH_ATTRIBUTES = """
import sys, pytest
name, tests, *words = sys.argv[1:]
sys.path.insert(0, tests)
from leakage.planted import planted
planted(name)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *words]))
"""


@pytest.mark.parametrize("leak", PLANTED.values(), ids=lambda each: each.name)
def test_a_leak_that_is_planted_in_an_attribute_is_noticed(leak: PlantedAttribute, tmp_path: Path) -> None:
    program = tmp_path / "planted_here.py"
    program.write_text(WITH_ATTRIBUTES)
    done = forked.run(
        [sys.executable, program, leak.name, TESTS.parent, str(TESTS / leak.noticed_by)],
        cwd=TESTS.parent.parent,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        text=True,
    )
    assert done.returncode == 1, f"{leak.noticed_by} does not notice: {done.stdout}{done.stderr}"
    assert "leakage.coins.Leak" in done.stdout, f"it fails, but not for the leak: {done.stdout}"
    assert leak.because in done.stdout, f"it fails, but for another leak: {done.stdout}"
