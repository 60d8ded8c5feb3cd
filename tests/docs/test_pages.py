"""Every page can be read: no long line, no dead link, no path that is not there, each in the site's menu."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from masquerade.forms import parameters_of
from masquerade.methods.registry import methods
from masquerade.privacy import REQUIREMENTS
from masquerade.risk.attacks import ATTACKS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROOMS = ROOT / "src" / "masquerade"
PAGES = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
LONGEST = 120


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(page: Path) -> str:
    return re.sub("```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head.lower())).strip("-") for head in heads}


@pytest.mark.parametrize("document", PAGES, ids=named)
def test_no_line_is_longer_than_it_may_be(document: Path) -> None:
    lines = document.read_text("utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > LONGEST] == []


@pytest.mark.parametrize("document", PAGES, ids=named)
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if re.match("https?://", target):
            continue
        path, _, anchor = target.partition("#")
        there = (document.parent / path).resolve() if path else document
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("document", PAGES, ids=named)
def test_every_module_that_a_page_names_is_there(document: Path) -> None:
    homes = (ROOT, ROOMS, *(path for path in ROOMS.rglob("*") if path.is_dir()))
    names = re.findall(r"`((?:[\w.-]+/)*\w+\.py)`", prose(document))
    assert [name for name in names if not any((home / name).exists() for home in homes)] == []


def test_every_page_is_in_the_menu_once() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    listed = re.findall(r"[\w/-]+\.md", str(menu))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


# --- the reference pages are made from the declarations, and the committed ones are up to date ---


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


# --- the glossary ---


TEXT = (ROOT / "docs" / "glossary.md").read_text("utf-8")
ENTRIES = [" ".join(each.split()) for each in TEXT.split("\n\n") if each.startswith("**")]

NEEDED = (
    *("alignment", "assembler", "audit log", "card", "coalition", "contract", "cut", "deal", "group"),
    *("joint histogram", "kind", "ledger", "m-privacy", "method", "offer", "party", "policy", "provider"),
    *("quasi-identifier", "rank", "release", "requirement", "snapshot", "taxonomy", "terms"),
)


def test_every_word_has_a_home() -> None:
    for entry in ENTRIES:
        homes = re.findall(r"`([\w/]+(?:/|\.py))`", entry)
        assert homes, entry
        assert all((ROOMS / home).exists() for home in homes), entry


def test_no_entry_is_long() -> None:
    for entry in ENTRIES:
        explained = re.sub(r"^\*\*.+?\*\*|`[^`]*`", "", entry)
        assert len(re.findall(r"[.!?](?= |$)", explained)) <= 4, entry


def test_the_words_are_in_their_order() -> None:
    for part in TEXT.split("\n## ")[1:]:
        words = [word.lower() for word in re.findall(r"^\*\*(.+?)\.\*\*", part, re.MULTILINE)]
        assert words == sorted(words)


def test_no_word_is_lacking() -> None:
    words = " ".join(entry.split("**")[1] for entry in ENTRIES).lower()
    assert [word for word in NEEDED if word not in words] == []
