"""Problem documents: what is rendered is read back, whatever it holds, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.errors import (
    Bug,
    Conflict,
    DataError,
    MasqueradeError,
    NotAllowed,
    NotFound,
    ParameterError,
    PeerRefused,
    Problem,
)
from masquerade.service.wire.problems import content, error_of, read_problems, rendered, status_of

WORDS = st.text(max_size=20)
PROBLEMS = st.builds(
    Problem,
    text=WORDS,
    source=WORDS,
    line=st.none() | st.integers(1, 9),
    key=st.lists(WORDS | st.integers(0, 9), max_size=3).map(tuple),
    allowed=WORDS,
    found=WORDS,
    party=st.none() | WORDS,
    reported_by=WORDS,
)


@given(st.lists(PROBLEMS, min_size=1, max_size=4))
def test_what_is_rendered_is_read_back(problems: list[Problem]) -> None:
    document = rendered(422, problems)
    assert document.isascii()
    lines = [str(each) for each in problems]
    assert json.loads(document)["problems"] == lines
    assert list(map(str, read_problems(document))) == lines


def test_fields_travel_and_what_says_nothing_does_not() -> None:
    missing = Problem("missing", source="request", key=("privacy", 0, "k"))
    told = content(422, [missing])
    assert told["errors"] == [{"text": "missing", "source": "request", "key": ["privacy", 0, "k"]}]
    assert told["detail"] == "request: privacy[1].k: missing"
    assert read_problems(json.dumps(told).encode()) == (missing,)


def test_endless_texts_and_lists_are_cut() -> None:
    told = content(422, [Problem("x" * 5_000)] * 500)
    assert len(told["problems"]) == len(told["errors"]) == 100
    assert all(len(line) == 1_000 for line in told["problems"])
    assert all(len(each["text"]) == 1_000 for each in told["errors"])


def test_half_a_sign_is_shown_and_read_back() -> None:
    (problem,) = read_problems(rendered(422, [Problem("unknown key", key=("\udc80",))]))
    assert problem.key == ("\\udc80",)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"<html>", b'{"problems": 5}', b'{"errors": ["x"]}', b"{}"]
)
def test_what_is_no_problem_document(body: bytes) -> None:
    assert read_problems(body) == ()


def test_a_document_of_others_has_its_detail_or_title() -> None:
    assert read_problems(b'{"title": "Bad", "detail": "no", "instance": "/x"}') == (Problem("no"),)
    assert read_problems(b'{"title": "Bad"}') == (Problem("Bad"),)


@pytest.mark.parametrize(
    ("error", "status", "read"),
    [
        (NotAllowed("no"), 403, NotAllowed),
        (NotFound("no"), 404, NotFound),
        (Conflict("no"), 409, Conflict),
        (DataError("no"), 422, ParameterError),
        (PeerRefused("bank", "no"), 503, None),
        (Bug("no"), 500, None),
    ],
)
def test_an_error_its_status_and_back(
    error: MasqueradeError, status: int, read: type[MasqueradeError] | None
) -> None:
    assert status_of(error) == status
    back = error_of(status, error.problems)
    assert (None if back is None else type(back)) is read
    assert back is None or back.problems == error.problems
