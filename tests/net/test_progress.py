"""Stages: data on the wire, words for a person."""

from __future__ import annotations

import msgspec
import pytest

from masquerade.progress import Stage


@pytest.mark.parametrize(
    ("stage", "words", "count"),
    [
        (Stage("aligning"), "aligning", 0),
        (Stage("aligning", percent=0), "aligning: 0 %", 0),
        (Stage("specialising", round=7), "specialising: round 7", 7),
        (Stage("cutting", tried=12, detail="5 groups at work"), "cutting: 12 cuts tried, 5 groups at work", 12),
        (Stage("cutting", detail="its own groups"), "cutting: its own groups", 0),
    ],
)
def test_a_stage_in_words(stage: Stage, words: str, count: int) -> None:
    assert (str(stage), stage.count) == (words, count)
    assert msgspec.json.decode(msgspec.json.encode(stage), type=Stage) == stage


def test_others_do_not_see_the_details() -> None:
    stage = Stage("cutting", tried=12, detail="5 groups at work").public()
    assert str(stage) == "cutting: 12 cuts tried"
