"""Taxonomies written for a test: as they read, or every problem that is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.data import AttributeKind, Taxonomy, read_taxonomy
from masquerade.errors import TaxonomyError


def read(folder: Path, name: str, text: str | bytes, kind: AttributeKind = "categorical") -> Taxonomy:
    """A file with this text, read back."""
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_taxonomy(file, kind, source=name)


def problems(folder: Path, name: str, text: str | bytes, kind: AttributeKind = "categorical") -> list[str]:
    """Every problem that is told of a file with this text."""
    with pytest.raises(TaxonomyError) as caught:
        read(folder, name, text, kind)
    return list(caught.value.lines)


def names(taxonomy: Taxonomy) -> list[str]:
    return [node.name for node in taxonomy]
