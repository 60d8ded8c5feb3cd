"""Taxonomy files: rows `leaf;parent;…;root` (.csv, .txt) or a nested tree (.yaml, .yml)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from masquerade.data.boundary import boundary_problems
from masquerade.data.schema import Attribute, AttributeKind, Schema
from masquerade.data.taxonomy import Taxonomy
from masquerade.data.taxonomy_csv import outline_of_rows
from masquerade.data.taxonomy_outline import Outline, refuse
from masquerade.errors import TaxonomyError

Taxonomies = str | Path | Mapping[str, Taxonomy | str | Path]  # a folder of files, or each column's


def _outline_of_yaml(text: str, source: str) -> Outline:
    # The parser takes longer to load than most jobs to run.
    from masquerade.data.taxonomy_yaml import outline_of_yaml

    return outline_of_yaml(text, source)


_FORMATS: dict[str, Callable[[str, str], Outline]] = {
    ".csv": outline_of_rows,
    ".txt": outline_of_rows,
    ".yaml": _outline_of_yaml,
    ".yml": _outline_of_yaml,
}
_MAX_BYTES = 256 << 20  # a larger file is probably the table, named by mistake


def read_taxonomy(
    path: str | Path,
    kind: AttributeKind = "categorical",
    *,
    source: str | None = None,
    text: str | None = None,
) -> Taxonomy:
    """Read the taxonomy in a file, for an attribute of that kind; `text` is that of a file that is not written.

    Errors refer to the file as `source`, by default its path. They report all problems
    of the file at once where one does not hide the others.
    """
    path, source = Path(path), source if source is not None else str(path)
    outline_of = _FORMATS.get(path.suffix.lower())
    if outline_of is None:
        allowed = ", ".join(_FORMATS)
        raise TaxonomyError.about(source, f'a taxonomy file ends in {allowed}; got "{path.suffix}"')
    tree = outline_of(_text(path, source) if text is None else text, source)
    if kind == "categorical":
        return _marked(Taxonomy(tree.branch(), source, allowed=tuple(tree.marked)))
    from masquerade.data.interval_taxonomy import interval_taxonomy  # few files are of intervals

    return _marked(interval_taxonomy(tree, kind, source))


def _marked(taxonomy: Taxonomy) -> Taxonomy:
    """Return the taxonomy, unless a value has no mark above it where others have one."""
    if taxonomy.allowed:
        refuse(taxonomy.source, boundary_problems(taxonomy, taxonomy.allowed))
    return taxonomy


def find_taxonomies(folder: Path) -> dict[str, Path]:
    """Map each attribute to its taxonomy file in a folder: the one named after it, plus an extension."""
    try:
        files = sorted(
            path for path in folder.iterdir() if path.suffix.lower() in _FORMATS and path.is_file()
        )
    except OSError as error:
        raise TaxonomyError.about(
            folder, f"{error.strerror or error}; expected is a folder of taxonomies"
        ) from None
    found: dict[str, Path] = {}
    for path in files:
        if path.stem in found:
            both = f"{found[path.stem].name} and {path.name}"
            raise TaxonomyError.about(folder, f"two taxonomies for {path.stem}: {both}; keep one")
        found[path.stem] = path
    return found


def _text(path: Path, source: str) -> str:
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise TaxonomyError.about(source, f"{size} bytes; a taxonomy has at most {_MAX_BYTES}")
        raw = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: an impossible path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TaxonomyError.about(source, f"cannot be read: {reason}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TaxonomyError.about(
            source, "the text is not UTF-8; save the file as UTF-8", line=line
        ) from None


def with_taxonomies(schema: Schema, taxonomies: Taxonomies) -> Schema:
    """Return the schema with the taxonomies of a folder, each for the column of its name, or those of a mapping.

    In a mapping, a taxonomy is a `Taxonomy`, a file or "flat".
    """
    if isinstance(taxonomies, Mapping):
        for name in taxonomies:
            schema[name]  # an unknown name is an error that lists the known ones
        found: Mapping[str, Taxonomy | str | Path] = taxonomies
    else:
        found = find_taxonomies(Path(taxonomies))

    def attribute(known: Attribute) -> Attribute:
        given = found.get(known.name)
        if given is None:
            return known
        if isinstance(given, Taxonomy):
            return replace(known, taxonomy=given)
        if given == "flat":
            return replace(known, taxonomy="flat")
        return replace(known, taxonomy=read_taxonomy(Path(given), known.kind))

    return Schema((attribute(each) for each in schema), schema.identifiers)
