"""What pydantic finds wrong, in our words: what is allowed, and never the value."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from masquerade.forms import must_be

SECRET = "hush hush"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def refuse(_value: str) -> str:
    raise ValueError("it is never right.")


CASES: dict[str, tuple[Any, Any, str]] = {
    "too small": (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
    "not above": (Annotated[float, Field(gt=0)], 0, "must be above 0.0"),
    "too large": (Annotated[int, Field(le=366)], 400, "must be at most 366"),
    "not below": (Annotated[int, Field(lt=3)], 3, "must be below 3"),
    "no whole number": (int, SECRET, "must be a whole number"),
    "half a number": (int, 1.5, "must be a whole number"),
    "no number": (float, SECRET, "must be a number"),
    "no end": (Annotated[float, Field(allow_inf_nan=False)], float("inf"), "must be a finite number"),
    "neither": (bool, SECRET, "must be true or false"),
    "no text": (str, 3, "must be a text"),
    "too short": (Annotated[str, Field(min_length=12)], SECRET, "must have at least 12 characters"),
    "too long": (Annotated[str, Field(max_length=3)], SECRET, "must have at most 3 characters"),
    "pattern": (Annotated[str, Field(pattern="^[a-f]+$")], SECRET, "must match ^[a-f]+$"),
    "one of a few": (Colour, SECRET, "must be one of 'red' or 'blue'"),
    "one of two words": (Literal["a", "b"], SECRET, "must be one of 'a' or 'b'"),
    "no list": (list[int], SECRET, "must be a list"),
    "no object": (dict[str, int], SECRET, "must be an object"),
    "own words": (Annotated[str, AfterValidator(refuse)], SECRET, "it is never right"),
}


@pytest.mark.parametrize("case", CASES)
def test_every_fault_says_what_is_allowed(case: str) -> None:
    kind, value, said = CASES[case]
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    (fault,) = caught.value.errors()
    assert must_be(fault) == said  # type: ignore[arg-type]
    assert SECRET not in said


def test_a_fault_that_nobody_thought_of_keeps_its_own_words() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(bytes).validate_python(3)
    (fault,) = caught.value.errors()
    assert must_be(fault) == fault["msg"]  # type: ignore[arg-type]
