"""Every page can be read: no long line, no dead link, no path that is not there, each in the site's menu."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

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
