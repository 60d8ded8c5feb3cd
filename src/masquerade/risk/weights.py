"""The weights of columns, from a file: what they cost an attacker, or are worth to a reader. Others weigh 1."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from masquerade.data.csv_scan import rows
from masquerade.data.read_csv import likely_separator
from masquerade.data.reading import why_unreadable
from masquerade.data.schema import repeated
from masquerade.errors import ParameterError, given, hint

Weights = Mapping[str, float]


def read_weights(path: Path) -> dict[str, float]:
    """Read `name = number` (.toml), an object of numbers (.json) or rows `name,number` (.csv).

    In TOML and JSON they may also be below `weights`, as `masquerade weights` prints them, and in a job file they are
    `[attributes.NAME] weight`.
    """
    reader = _FORMATS.get(path.suffix.lower())
    if reader is None:
        raise ParameterError(f"{path}: a file of weights ends in {', '.join(_FORMATS)}")
    try:
        found = reader(path.read_bytes())
    except OSError as error:
        raise why_unreadable(path, error) from None
    except (ValueError, tomllib.TOMLDecodeError) as error:
        raise ParameterError(f"{path}: not a file of weights ({str(error).partition(chr(10))[0]})") from None
    if not isinstance(found, dict):
        raise ParameterError(f"{path}: must be names of columns with a number each")
    if isinstance(found.get("attributes"), dict):
        sections = found["attributes"].items()
        found = {
            name: each["weight"] for name, each in sections if isinstance(each, dict) and "weight" in each
        }
    elif isinstance(found.get("weights"), dict):
        found = found["weights"]
    return checked_weights(found, f"{path}: the weight of")


def checked_weights(weights: Mapping[str, Any], of: str = "the weight of") -> dict[str, float]:
    """Check that each is a finite number above 0; `of` begins the sentence about one that is not."""
    for name, weight in weights.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 < weight < math.inf:
            raise ParameterError(f"{of} {name} must be a finite number above 0; got {given(weight)}")
    return {name: float(weight) for name, weight in weights.items()}


def weights_of(names: Sequence[str], weights: Weights | None) -> list[float]:
    """Return the weight of each column; a weight of no column is an error."""
    for name in weights or {}:
        if name not in names:
            raise ParameterError(
                f'weights: no column "{name}"{hint(name, names)}; the columns are: {", ".join(names)}'
            )
    return [(weights or {}).get(name, 1.0) for name in names]


def _csv(text: bytes) -> dict[str, Any]:
    text.decode()  # raises ValueError
    found = [
        [cell.decode().strip() for cell in row.cells] for row in rows(text, likely_separator(text).encode())
    ]
    if any(len(row) != 2 for row in found):
        raise ValueError("rows of a name and a number are expected")
    listed = found[1:] if found and found[0][1] == "weight" else found
    if doubled := repeated([name for name, _ in listed]):
        raise ValueError(f"{doubled[0]} is there more than once")
    return {name: _number(word) for name, word in listed}


def _number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


_FORMATS: dict[str, Callable[[bytes], Any]] = {
    ".toml": lambda text: tomllib.loads(text.decode()),
    ".json": json.loads,
    ".csv": _csv,
}
