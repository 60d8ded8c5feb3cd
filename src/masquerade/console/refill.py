"""A request that was made before, as a draft to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from masquerade.console.draft import Column, Draft, Wish, numbers_of
from masquerade.console.kinds import kind_of
from masquerade.privacy.registry import REQUIREMENTS
from masquerade.service.quality import QUALITY_TERMS


def refilled(offered: Sequence[Column], request: Mapping[str, Any], user: str) -> Draft:
    """Return a draft that makes the same request, as far as its columns are still offered."""
    draft = Draft(offered, kind=kind_of(request).name)
    givers: Mapping[str, str] = request.get("providers") or {}
    for name in request.get("attributes") or ():
        held = [each for each in offered if each.name == name]
        held.sort(key=lambda each: each.party != givers.get(each.name))  # who was asked before comes first
        if held:
            draft.choose(held[0], True)
    draft.purpose = request.get("purpose") or ""
    draft.class_name = request.get("class") or ""
    draft.duration, draft.event = request.get("duration") or "", request.get("event") or ""
    draft.class_from = givers.get(draft.class_name, "")
    draft.wishes = [_wish(each) for each in request.get("privacy") or ()] or [Wish()]
    for term in QUALITY_TERMS:
        setattr(draft, term.key, _text(request.get(term.key)))
    draft.budget = _amount(int(request.get("budget") or 0))
    draft.recipients = ", ".join(each for each in request.get("recipients") or () if each != user)
    draft.estimate = bool(request.get("estimate"))
    draft.show_progress = bool(request.get("show_progress"))
    draft.m = _text(request.get("m")) or draft.m
    parties = request.get("parties") or ()
    draft.left_out = {each.party for each in offered} - {*parties} if parties else set()
    draft.limits = {name: _limits(each) for name, each in (request.get("boundaries") or {}).items()}
    method = dict(request.get("algorithm") or {})
    draft.method = str(method.pop("name", ""))
    for name, value in method.items():
        draft.choose_setting(name, _text(value))
    return draft


def _limits(written: Mapping[str, Any]) -> dict[str, str]:
    told = {"coarsest": "max", "finest": "min"}
    found = {
        key: ", ".join(written.get(f"{word}_generalization") or ()) or _text(written.get(f"{word}_width"))
        for key, word in told.items()
    }
    return found | {"weight": _text(written.get("weight"))}


def _wish(written: Mapping[str, Any]) -> Wish:
    model = str(written.get("model"))
    if model not in REQUIREMENTS.plain:
        return Wish()
    numbers = {name: _text(written[name]) for name in numbers_of(model) if written.get(name) is not None}
    return Wish(model, list(written.get("qid") or ()), numbers, _text(written.get("sensitive")))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return "" if value is None else str(value)


def _amount(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}" if cents else ""
