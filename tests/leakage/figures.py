"""What a party's progress, errors and log may tell, held against figures.toml: which figures, and how finely."""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from leakage.coins import Leak
from masquerade.progress import Stage
from masquerade.protocol import Participant
from masquerade.service import SignedContract

TABLE: Mapping[str, Mapping[str, Any]] = tomllib.loads(Path(__file__).with_name("figures.toml").read_text())

Stages = dict[str, list[Stage]]  # by party, in order

_NAME = r"[A-Za-z0-9_.:-]{1,64}"
_FORMS = {
    "word": r"[a-z0-9 -]{1,40}",
    "name": _NAME,
    "digest": r"[0-9a-f]{32}|[0-9a-f]{64}",
    "fingerprint": r"([0-9A-F]{2}:){31}[0-9A-F]{2}",
    "hexadecimal": r"[0-9a-f]+",
    "route": r"(GET|POST|DELETE) /v1/[a-z/{}]+",
    "two decimals": r"-?\d+\.\d{2}",
    "four decimals": r"-?\d+\.\d{4}",
}


@contextmanager
def staged() -> Iterator[Stages]:
    """While this lasts, what every party of a session says of its progress is kept."""
    heard: Stages = defaultdict(list)
    begin = Participant.__init__

    def listened_to(party: Participant, *given: Any, **more: Any) -> None:
        begin(party, *given, **more)
        on_stage = party.on_stage

        def listened(stage: Stage) -> None:
            heard[party.name].append(stage)
            on_stage(stage)

        object.__setattr__(party, "on_stage", listened)

    with patch.object(Participant, "__init__", listened_to):
        yield heard


def check_stages(stages: Sequence[Stage]) -> None:
    """A party's stages, in order, are named in the table and count what it says."""
    rounds = tried = 0
    for stage in stages:
        if stage.name not in TABLE["stage"]:
            raise Leak(f"the stage {stage.name!r} is not in figures.toml: is a figure in its name?")
        counted = {"round": stage.round or None, "tried": stage.tried or None, "percent": stage.percent}
        told = {name for name, figure in counted.items() if figure is not None}
        if more := told - set(TABLE["stage"][stage.name]):
            raise Leak(f"the progress of {stage.name!r} tells {sorted(more)}, which figures.toml does not grant")
        if not 0 <= stage.round <= rounds + 1:
            raise Leak(f"the rounds of {stage.name!r} go from {rounds} to {stage.round}: they count something else")
        if stage.tried and stage.tried < tried:
            raise Leak(f"the cuts tried in {stage.name!r} go from {tried} to {stage.tried}: they count something else")
        if stage.percent is not None and not 0 <= stage.percent < 100:
            raise Leak(f"the progress of {stage.name!r} is {stage.percent} percent")
        rounds, tried = max(rounds, stage.round), max(tried, stage.tried)


def check_progress(told: Mapping[str, Any], rounds: range, *, granted: bool = False) -> None:
    """What a node answers to whoever asks for a session's progress; `rounds` are those that its stages tell."""
    unknown = told.keys() - TABLE["progress"].keys()
    if unknown:
        raise Leak(f"progress has {sorted(unknown)}, which figures.toml does not know")
    if told["round"] not in rounds:
        raise Leak(f"progress tells the round {told['round']}; its stages tell {rounds}")
    for name, entry in TABLE["progress"].items():
        value = told.get(name)
        if not value or value == {"name": ""} or entry["when"] == "always" or granted:
            continue
        if entry["when"] == "granted" or told["state"] in ("ready", "running"):
            raise Leak(f"progress tells {name} without being granted it: {value}")
        precision = entry["precision"]
        whole = value == int(value)
        if not whole or (precision == "two digits, hundreds" and value % max(100, 10 ** (len(str(value)) - 2))):
            raise Leak(f"progress tells {name} as {value}, which is finer than {precision}")


def check_decimals(what: str, value: float, decimals: int) -> None:
    """A figure has so many decimals at most."""
    if value != round(value, decimals):
        raise Leak(f"{what} is told as {value}, which is finer than {decimals} decimals")


def check_unit(what: str, told: int, exact: float, unit: float) -> None:
    """A figure that is told in whole units is as far from the exact one as rounding takes it, and no nearer."""
    if abs(told * unit - exact) > unit / 2 + 1e-9:
        raise Leak(f"{what} is told as {told}; in units of {unit} the exact figure, {exact:.6f}, is {exact / unit:.2f}")


def check_audit(line: Mapping[str, Any]) -> None:
    """A line of an audit log has the fields that the table has for its event, each in its form."""
    event, fields = line["event"], line["fields"]
    if event not in TABLE["audit"]:
        raise Leak(f"the audit log has the event {event!r}, which figures.toml does not know")
    for name, value in fields.items():
        form = TABLE["audit"][event].get(name)
        if form is None or (value is not None and not _has_form(value, form)):
            raise Leak(f"the audit log's {event} has {name} = {str(value)[:60]!r}; figures.toml says: {form}")


def _has_form(value: Any, form: str) -> bool:
    match form:
        case "count":
            return type(value) is int and value >= 0
        case "names":
            return all(re.fullmatch(_NAME, each) for each in value)
        case "reasons":  # sentences of our own, which name no cell: test_figures.py looks for some
            return all(isinstance(each, str) for each in value)
        case "contract":  # public, and frozen in messages.toml
            return set(json.loads(value)) <= set(SignedContract.__struct_fields__)
        case _:
            return isinstance(value, str) and re.fullmatch(_FORMS[form], value) is not None
