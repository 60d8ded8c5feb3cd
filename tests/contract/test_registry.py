"""Every method and requirement says all that people are shown of it, and nothing else lists them."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from masquerade.forms import parameters_of
from masquerade.methods.registry import BUILT_IN, kind_of, methods
from masquerade.plugins import loaded
from masquerade.privacy import REQUIREMENTS
from masquerade.protocol import SessionMethod

ROOT = Path(__file__).parents[2]
DECLARED = [*methods(), *REQUIREMENTS.values()]

# Texts that are examples for people: any other name would do as well; and words of something else.
EXAMPLES = {
    "privacy/registry.py",  # the other
    "methods/registry.py",  # the list, and which one is taken where none is named
    "protocol/align/alignment_ways.py",  # another "auto": of ways to align
    "data/people.py",  # the job file of generated people
    "demo/scene.py",  # what the demo asks for
    "service/api/request_body.py",  # the examples of the OpenAPI document
}


def name_of(declared: type) -> str:
    return str(getattr(declared, "model", None) or declared.name)  # type: ignore[attr-defined]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda each: each.__name__)
def test_it_says_what_people_are_shown(declared: type) -> None:
    words = declared.promise if declared in REQUIREMENTS.values() else declared.summary  # type: ignore[attr-defined]
    assert words
    assert "\n" not in words
    for each in parameters_of(declared):
        assert each.help, f"{each.name} has no help"
        assert each.rule.words, f"{each.name} does not say what is allowed"
    if issubclass(declared, SessionMethod):
        assert declared.activity
        arrangements = getattr(declared, "arrangements", None) or (declared.arrangement,)
        assert {*arrangements} <= {"vertical", "horizontal"}


@pytest.mark.parametrize("name", sorted({name_of(each) for each in DECLARED}))
def test_the_pages_speak_of_it(name: str) -> None:
    assert any(name in page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("kind", BUILT_IN)
def test_the_list_has_each_under_its_own_name_and_kind(kind: str) -> None:
    for name, home in BUILT_IN[kind].items():  # type: ignore[index] # any of its own kinds
        assert (loaded(home).name, kind_of(loaded(home))) == (name, kind)


def test_nothing_else_lists_them() -> None:
    bases = [base for each in DECLARED for base in each.__mro__ if vars(base).get("name") == name_of(each)]
    own = {Path(inspect.getfile(each)) for each in (*DECLARED, *bases)}
    names = {name_of(each) for each in DECLARED}
    found = []
    for path in sorted((ROOT / "src" / "masquerade").rglob("*.py")):
        short = path.relative_to(ROOT / "src" / "masquerade").as_posix()
        if path in own or short in EXAMPLES:
            continue
        text = path.read_text("utf-8")
        if not any(name in text for name in names):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and node.value in names:
                found.append(f"{short}:{node.lineno}: {node.value}")
    assert found == []
