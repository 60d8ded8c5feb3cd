"""docs/glossary.md explains the words of the house, each with where it lives."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ROOT / "src" / "masquerade"
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
