"""The stream of events: read whole from any pieces, each event once, and patience that ends."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from masquerade.client.events import MOST_BYTES, Following, StreamMessage, StreamReader
from masquerade.client.transport import TooMany
from masquerade.errors import PeerBrokeProtocol, PeerRefused, PeerUnreachable

GONE = PeerUnreachable("coordinator", "nobody answers")


def read(*chunks: bytes) -> list[StreamMessage]:
    reader = StreamReader()
    return [message for chunk in chunks for message in reader.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "messages"),
    [
        (b"data: a\n\n", [StreamMessage("", "message", "a")]),
        (b"id: 7\nevent: status\ndata: a\ndata:b\n\n", [StreamMessage("7", "status", "a\nb")]),
        (b": a comment\n\nretry: 2000\n\n", []),
        (b"data\n\n", [StreamMessage("", "message", "")]),
        (b"data: cut off", []),
        (b"data: cut off\n", []),
        (b"id: 1\n\ndata: x\n\n", [StreamMessage("1", "message", "x")]),
        (b"id: 1\ndata: x\n\ndata: y\n\n", [StreamMessage("1", "message", "x"), StreamMessage("1", "message", "y")]),
        (b"id: a\0b\ndata: x\n\n", [StreamMessage("", "message", "x")]),
        (b"\xef\xbb\xbfdata: x\r\n\r\n", [StreamMessage("", "message", "x")]),
        (b"data:  two\rdata: x\r\r", [StreamMessage("", "message", " two\nx")]),
        ("data: a\u2028b\x0bc\x85\n\n".encode(), [StreamMessage("", "message", "a\u2028b\x0bc\x85")]),
        (b"unknown: 1\ndata: \xff\n\n", [StreamMessage("", "message", "\ufffd")]),
    ],
)
def test_the_standards_rules(stream: bytes, messages: list[StreamMessage]) -> None:
    assert read(stream, b"\n" if stream.endswith(b"\r") else b"") == messages
    assert read(*(stream[at : at + 1] for at in range(len(stream))), b"\n" * stream.endswith(b"\r")) == messages


def content(number: int, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """An event as the API tells it."""
    return {"session": "s", "number": number, "time": "2026-03-01T12:00:00Z", "kind": kind, "data": data}


EVENTS = st.lists(st.tuples(st.sampled_from(["status", "offer"]), st.text(max_size=20)), max_size=6)


@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=8))
def test_the_pieces_do_not_matter(events: list[tuple[str, str]], end: str, cuts: list[int]) -> None:
    lines = []
    for number, (kind, text) in enumerate(events, start=1):
        written = json.dumps(content(number, kind, {"text": text}), ensure_ascii=False)
        escaped = written.replace("\n", "").replace("\r", "")
        lines += [f"id: {number}", f"event: {kind}", f"data: {escaped}", ""]
    stream = "".join(line + end for line in lines).encode() + b": the end\n"
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    following = Following("s")
    found = [event for start, stop in pairwise(places) for event in following.feed(stream[start:stop])]
    assert [(event.kind, event.data["text"]) for event in found] == events
    assert [event.number for event in found] == list(range(1, len(events) + 1))


def told(number: int, to: str) -> bytes:
    data = json.dumps(content(number, "status", {"to": to}))
    return f"id: {number}\nevent: status\ndata: {data}\n\n".encode()


def test_each_event_once_and_the_last_ends_it() -> None:
    following = Following("s", after=1)
    assert following.ask().query == {"after": 1}
    assert [event.number for event in following.feed(told(1, "requested") + told(2, "queued"))] == [2]
    ask = following.ask()
    assert ask.headers["last-event-id"] == "2"
    seen = list(following.feed(told(2, "queued") + told(3, "failed") + told(4, "queued")))
    assert [(event.number, event.status) for event in seen] == [(3, "failed")]
    assert following.is_over()


def test_what_is_only_for_the_connection_is_no_event() -> None:
    following = Following("s")
    assert list(following.feed(b'event: ping\ndata: {"x": 1}\n\ndata: 17\n\nid: x\ndata: {}\n\n')) == []


@pytest.mark.parametrize("data", [b"{", b'{"number": "x", "kind": 1}', b'{"number": 7}'])
def test_an_event_that_is_not_understood(data: bytes) -> None:
    with pytest.raises(PeerBrokeProtocol, match="does not understand"):
        list(Following("s").feed(b"id: 1\ndata: " + data + b"\n\n"))


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 100_000 + b"\n", b"x" * 100_000])
def test_an_endless_event_is_refused(piece: bytes) -> None:
    reader = StreamReader()
    with pytest.raises(PeerBrokeProtocol, match="bytes"):
        [list(reader.feed(piece)) for _ in range(MOST_BYTES // 100_000 + 2)]


class HandClock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_patience_ends() -> None:
    clock = HandClock()
    following = Following("s", 0, 60.0, clock)
    with pytest.raises(PeerUnreachable):
        following.broke(GONE)  # nobody was ever there: that is no restart
    following.ask()
    pauses = [following.broke(GONE) for _ in range(6)]
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < pauses[-1] <= 2
    clock.now += 50
    list(following.feed(b": still here\n\n"))
    clock.now += 50
    assert following.broke(GONE) == pauses[0]
    assert following.broke(TooMany(17)) == 17
    clock.now += 11
    with pytest.raises(PeerUnreachable):
        following.broke(GONE)


def test_what_does_not_mend_itself_is_told_at_once() -> None:
    following = Following("s")
    following.ask()
    for error in (PeerRefused("coordinator", "a stranger"), PeerBrokeProtocol("coordinator", "nonsense")):
        with pytest.raises(type(error)):
            following.broke(error)


def test_a_stream_that_ends_early_is_taken_up_again_unless_all_is_over() -> None:
    following = Following("s")
    following.ask()
    assert following.ended(False) > 0
    list(following.feed(told(1, "queued")))
    assert following.ended(True) > 0  # it brought something: there may be more
    assert not following.is_over()
    following.ask()
    following.ended(True)
    assert following.is_over()
