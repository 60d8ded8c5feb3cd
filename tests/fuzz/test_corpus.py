"""Every input that fuzzing starts from or has found, through its decoder once; `make explore` seeks further ones."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from fuzz import oracle
from fuzz.explore import CORPUS, TARGETS, seeds

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # what a target opens lasts as long as the process


@pytest.mark.parametrize("name", TARGETS)
def test_a_decoder_takes_its_seeds(name: str) -> None:
    target = import_module(f"fuzz.targets.{name}")
    kept = {path.name: path.read_bytes() for path in sorted(CORPUS.glob(f"{name}/*"))}
    before = oracle.accepted()
    for data in (seeds(target) | kept).values():
        target.fuzz(data)
    assert oracle.accepted() > before, "no seed is what the decoder is there for"


@pytest.mark.parametrize("entry", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}: {path.name}")
def test_a_decoder_returns_or_explains(entry: Path) -> None:
    import_module(f"fuzz.targets.{entry.parent.name}").fuzz(entry.read_bytes())


def test_the_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.glob("*/*")) < 500_000
