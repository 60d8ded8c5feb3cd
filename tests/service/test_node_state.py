"""A node's state folder when the disk is full, or the node is killed, at its first start."""

from __future__ import annotations

from pathlib import Path

import pytest

from full_disk import no_file_above
from masquerade import files
from masquerade.errors import ParameterError
from masquerade.service.node.state import State
from masquerade.service.snapshot import KEY_BYTES


@pytest.fixture
def state(tmp_path: Path) -> State:
    made = State(tmp_path / "state")
    made.make()
    return made


@pytest.mark.parametrize("room", [0, 1, KEY_BYTES - 1])
def test_a_full_disk_leaves_no_secret_and_the_next_start_makes_one(state: State, room: int) -> None:
    with no_file_above(room), pytest.raises(ParameterError, match=r"people\.key: cannot be written"):
        state.secret("people")
    assert [*(state.folder / "secrets").iterdir()] == []
    assert len(state.secret("people")) == KEY_BYTES
    assert state.secret("people") == state.secret("people")


@pytest.mark.parametrize("moment", ["fsync", "link"])
def test_a_crash_leaves_no_secret_and_the_next_start_makes_one(
    state: State, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whatever was under way when the power went: what has the secret's name is a whole secret."""

    def die(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(files.os, moment, die)
        patched.setattr(Path, "unlink", lambda *_, **__: None)  # nobody tidies up after a crash
        with pytest.raises(KeyboardInterrupt):
            state.secret("people")
    (left,) = (state.folder / "secrets").iterdir()
    assert left.name != "people.key"
    assert len(state.secret("people")) == KEY_BYTES
    assert [path.name for path in (state.folder / "secrets").iterdir()] == ["people.key"]  # swept, too
