"""The reference pages are made from the declarations, and the committed ones are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from masquerade.forms import parameters_of
from masquerade.methods.registry import methods
from masquerade.privacy import REQUIREMENTS
from masquerade.risk.attacks import ATTACKS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_the_declarations_say(generate: ModuleType) -> None:
    for path, text in generate.pages().items():
        assert path.read_text("utf-8") == text, "run `make docs`, or .venv/bin/python docs/generate.py"


def test_every_declaration_is_on_its_page(generate: ModuleType) -> None:
    told = {path.name: text for path, text in generate.pages().items()}
    for method in methods():
        assert f"### `{method.name}` " in told["methods.md"]
        for each in parameters_of(method):
            assert f"- `{each.name}`" in told["methods.md"]
            assert each.help.split()[0] in told["methods.md"]
    assert all(f"## `{attack.name}`\n" in told["attacks.md"] for attack in ATTACKS)
    for name, model in REQUIREMENTS.items():
        assert f"## `{name}`\n" in told["requirements.md"]
        for each in parameters_of(model):
            assert f"- `{each.name}`" in told["requirements.md"]


def test_every_declaration_says_what_people_read() -> None:
    """Words of a parameter go on after a colon, and a method says what it does in a sentence."""
    for declared in (*methods(), *REQUIREMENTS.values()):
        for each in parameters_of(declared):
            assert each.help, (declared, each.name)
            assert each.help[0] == each.help[0].lower()
            assert not each.help.endswith(".")
    for method in methods():
        assert method.summary[0] == method.summary[0].lower()
    for model in REQUIREMENTS.values():
        assert model.promise
