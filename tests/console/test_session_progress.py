"""What the events of a session come to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.console.session_progress import MOST_ROWS, SessionProgress, step_tree
from masquerade.service import Event, Status

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def event(number: int, kind: str, data: dict[str, Any]) -> Event:
    return Event(session="s", number=number, time=NOW, kind=kind, data=data)


def events(*told: tuple[str, dict[str, Any]]) -> list[Event]:
    return [event(number, kind, data) for number, (kind, data) in enumerate(told, start=1)]


def moved(to: str, cause: str | None = None, **more: Any) -> tuple[str, dict[str, Any]]:
    return "status", {"from": None, "to": to, "cause": cause, **more}


def step(value: str, *children: str, attribute: str = "job") -> tuple[str, dict[str, Any]]:
    return "step", {"party": "bank", "attribute": attribute, "value": value, "children": list(children)}


def test_a_second_attempt_starts_with_nothing() -> None:
    progress = SessionProgress()
    aligning = ("progress", {"parties": {"bank": {"stage": "aligning"}}})
    progress.take(events(moved("running"), aligning, step("Any", "A", "B")))
    assert progress.by_party
    assert progress.steps
    changed = progress.take([event(4, *moved("queued", "bank: fell silent"))])
    assert (progress.by_party, progress.steps) == ({}, {})
    assert changed >= {"status", "lines", "progress", "steps"}
    assert progress.last == 4
    assert progress.lines[-1][1] == "queued: bank: fell silent"


def test_only_what_changed_is_drawn_anew() -> None:
    progress = SessionProgress()
    assert progress.take(events(("progress", {"parties": {"bank": {"round": 1}}}))) == {"progress"}
    assert progress.take(events(step("Any", "A", "B"))) == {"steps"}
    assert progress.take([]) == set()
    assert "status" in progress.take(events(moved("agreed")))


def test_quality_is_told_as_far_as_there_is_something_to_tell() -> None:
    told = {
        (0.5125, 0.25): "classification error is 0.5125, and at most 0.25 was wished",
        (0.5125, None): "classification error is 0.5125",
        (None, 0.25): "classification error could not be measured, and at most 0.25 was wished",
    }
    for (error, most), words in told.items():
        progress = SessionProgress()
        progress.take(events(("quality", {"error": error, "most_error": most})))
        assert progress.lines[-1][1] == words


def test_a_column_that_lost_nearly_everything_is_named_before_anything_is_published() -> None:
    progress = SessionProgress()
    losses = {"job": 0.97, "age": 0.2}
    progress.take(events(("quality", {"ncp": 0.6, "lost": {"job": 0.97}, "losses": losses})))
    assert progress.lines[-1][1] == "loss of detail (NCP) is 0.6; losses: job 97%, age 20%"
    progress.take(events(moved("awaiting_client", missed={"lost": {"job": 0.97}, "cost": 7})))
    assert progress.quality == {"lost": {"job": 0.97}, "cost": 7}


def test_waiting_for_a_person_ends_with_the_contract() -> None:
    progress = SessionProgress()
    progress.take(events(moved("negotiating"), ("approval", {"party": "clinic"}), ("approval", {"party": "clinic"})))
    assert progress.approvals == ["clinic"]
    progress.take(events(("contract", {"terms_hash": "a", "contract_hash": "b", "attempt": 1})))
    assert progress.approvals == []


def test_an_event_of_a_later_version_is_named_and_nothing_breaks() -> None:
    progress = SessionProgress()
    progress.take(events(("riddle", {"odd": 1}), moved("published")))
    assert [words for _, words in progress.lines] == ["riddle", "published"]
    assert progress.reached == [Status.PUBLISHED]


def test_the_cut_moves_down_with_each_step() -> None:
    first = step_tree([("Any", ("A", "B"))])
    assert [(node.label, node.parent, node.place) for node in first] == [
        ("Any", -1, "above"),
        ("A", 0, "cut"),
        ("B", 0, "cut"),
    ]
    second = step_tree([("Any", ("A", "B")), ("B", ("B1", "B2"))])
    assert [(node.label, node.parent) for node in second if node.place == "cut"] == [("A", 0), ("B1", 2), ("B2", 2)]


def test_a_wide_cut_is_counted_and_not_drawn() -> None:
    nodes = step_tree([("Any", tuple(map(str, range(MOST_ROWS + 5))))])
    assert sum(node.place == "cut" and not node.note for node in nodes) == MOST_ROWS
    assert nodes[-1].label == "… and 5 more values"


names = st.sampled_from("abcdef")


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(st.tuples(names, st.lists(names, max_size=4).map(tuple)), max_size=8))
def test_whatever_a_party_tells_is_drawn_as_a_tree(steps: list[tuple[str, tuple[str, ...]]]) -> None:
    nodes = step_tree(steps)
    assert all(node.parent < place for place, node in enumerate(nodes))
    assert [place for place, node in enumerate(nodes) if node.parent == -1] == ([0] if nodes else [])
