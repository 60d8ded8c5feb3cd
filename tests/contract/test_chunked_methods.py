"""What every method that runs on chunks keeps there: the release, and what is said of it, are those of one table.

A method that takes chunks is tested by this file without an entry of its own; what it refuses there alone is declared
(`TableMethod.in_chunks`), in words that `methods.py` expects, and the page on large tables names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import masquerade as mq
from chunked import in_chunks, plain, told
from contract.methods import TABLE_METHODS, entry_of, settings_of
from contract.people import BOUNDED, SCHEMA, STEPWISE, assert_refusals, people, requirements
from masquerade.anonymize import TableMethod
from masquerade.engine import LocalEngine
from masquerade.errors import ParameterError
from masquerade.methods import table_methods
from masquerade.privacy import without_redundant
from privacy.definitions import SENSITIVE

pytestmark = pytest.mark.usefixtures("few_queries")

ON_CHUNKS = {name: method for name, method in table_methods().items() if not method.needs_whole_table}
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "large-tables.md"


def all_settings(method: type[TableMethod]) -> list[dict[str, Any]]:
    entry = entry_of(method.name, TABLE_METHODS)
    return [{**entry.always, **chosen} for chosen in settings_of(method, entry.values)]


def cases() -> Iterator[Any]:
    """Every requirement, each with other settings and schemas of a method; all together try all of them."""
    for name, method in ON_CHUNKS.items():
        if method().in_chunks() != method():
            continue  # there are fewer methods to choose from
        settings = all_settings(method)
        for at, requirement in enumerate(requirements()):
            chosen, target = settings[at % len(settings)], (None, "class")[at % 3 > 0]
            yield pytest.param(method, {"target": target, **chosen}, requirement, id=f"{name}-{chosen}-{requirement}")


@pytest.mark.parametrize(("method", "chosen", "requirement"), [*cases()])
def test_chunks_give_what_one_table_gives(
    method: type[TableMethod],
    chosen: dict[str, Any],
    requirement: mq.Requirement,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 14)  # larger groups are cut by counts
    frame = pa.Table.from_pylist(people(48, seed=3))
    for schema in (BOUNDED, SCHEMA, STEPWISE):
        try:
            made = method(**chosen).fitted(without_redundant(requirement.parts))
            table = mq.Table(frame, schema)
            whole = mq.anonymize(table, requirement, made, sensitive=[SENSITIVE], order="input")
        except (ParameterError, mq.RequirementUnreachable):
            continue  # then there is nothing to compare
        release, rows = in_chunks(table, requirement, made, tmp_path, sensitive=(SENSITIVE,))
        assert rows.equals(plain(whole.table))
        assert told(release) == told(whole)
        return


@pytest.mark.parametrize("name", ON_CHUNKS)
def test_what_chunks_alone_refuse_is_declared(name: str) -> None:
    said = set()
    for chosen in all_settings(ON_CHUNKS[name]):
        for requirement in requirements():
            parts = without_redundant(requirement.parts)
            try:
                made = ON_CHUNKS[name](target="class", **chosen).fitted(parts)
            except ParameterError:
                continue
            try:
                made.in_chunks()
            except ParameterError as error:
                said |= {str(problem) for problem in error.problems}
    assert_refusals(said, entry_of(name, TABLE_METHODS).refuses_on_chunks)


def test_the_page_names_what_runs_on_chunks_and_what_does_not() -> None:
    there, _, apart = PAGE.read_text("utf-8").partition("## Not on chunks")
    assert apart, "the page has a section on what is refused"
    apart = apart.partition("\n## ")[0]
    for name, method in table_methods().items():
        assert f"`{name}`" in (there if not method.needs_whole_table else apart), name
