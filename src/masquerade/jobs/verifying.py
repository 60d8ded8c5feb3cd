"""Does a table satisfy a requirement? The verdicts, who breaches m-privacy, and cells beyond their boundaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from masquerade.data import Schema, Table
from masquerade.errors import Bug, DataError, RequirementViolated
from masquerade.jobs.guessing import names_of
from masquerade.jobs.one_table import checked_requirement
from masquerade.privacy import ReleasedRows, Requirement, Verdict, Violations, with_coalitions, with_violations

if TYPE_CHECKING:
    from masquerade.privacy import SqlVerdict


def insist_on_providers(name: str, columns: Sequence[str], requirement: Requirement) -> None:
    """Raise unless a release with these columns says who provided each record, where a requirement asks for it."""
    for provider in requirement.provider_columns:
        if provider not in columns:
            raise DataError.about(
                name,
                f'no column "{provider}"; m-privacy can be verified only where each record names its provider: '
                "make the release with output.keep_provider = true",
            )


@dataclass(frozen=True, repr=False)
class Verification:
    """The verdicts on a table; true when all requirements hold and no identifier is in it."""

    verdicts: tuple[Verdict, ...]
    name: str = "table"
    identifiers: tuple[str, ...] = ()  # columns of the table that no release may hold
    violations: Violations = field(default_factory=Violations)  # of boundaries, as far as a release alone tells
    sql: tuple[SqlVerdict, ...] = ()  # what a count of its own says of each requirement, where it was asked for

    @property
    def holds(self) -> bool:
        """Whether every requirement holds and no identifier was found."""
        return not self.identifiers and all(verdict.holds for verdict in self.verdicts)

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name}: {'holds' if self.holds else 'does not hold'}>"

    def __str__(self) -> str:
        """Return a line for each requirement, and one for each identifier that was found."""
        return "\n".join(f"{'holds' if holds else 'does not hold'}: {text}" for text, holds in self._lines())

    def _repr_html_(self) -> str:
        """Return the same lines as a table, for notebooks."""
        from html import escape

        rows = "".join(
            f"<tr><td>{'✓ holds' if holds else '✗ does not hold'}</td>"
            f'<td style="text-align: left">{escape(text)}</td></tr>'
            for text, holds in self._lines()
        )
        return f"<table><caption>{escape(self.name)}</caption>{rows}</table>"

    def _lines(self) -> Iterator[tuple[str, bool]]:
        for verdict in self.verdicts:
            worst = "" if verdict.value is None else f" (worst group: {round(verdict.value, 4)})"
            text = str(verdict.requirement) if verdict.violation is None else verdict.violation
            yield f"{text}{worst if verdict.holds else ''}", verdict.holds
        for column in self.identifiers:
            yield f"column {column} is an identifier; a release never holds one", False

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary of `verify`."""
        found = {"identifiers": list(self.identifiers)} if self.identifiers else {}
        requirements = [each.summary() for each in self.verdicts]
        told = {"holds": self.holds, **found, **self.violations.summary(), "requirements": requirements}
        return told | ({"sql": [each.summary() for each in self.sql]} if self.sql else {})

    def with_sql(
        self, source: Any, *, memory: int | None = None, unescape: bool = False, name: str = "table"
    ) -> Verification:
        """Return the same with what SQL says; see `check_in_sql`."""
        from masquerade.privacy import check_in_sql

        return replace(self, sql=check_in_sql(source, self.verdicts, memory=memory, unescape=unescape, name=name))

    def insist(self) -> None:
        """Raise `RequirementViolated`: identifiers, and the first violating group of each requirement.

        Where the count in SQL says something else, one of the two is wrong: that is a Bug.
        """
        if differing := [each for each in self.sql if each.differs]:
            raise Bug(*(f"{self.name}: {each.requirement}: SQL {each.differs}" for each in differing))
        problems = [
            f"{self.name}: column {column} is an identifier; a release never holds one" for column in self.identifiers
        ]
        problems += [verdict.violation for verdict in self.verdicts if verdict.violation is not None]
        if problems:
            raise RequirementViolated(*problems)


def verify(frame: Any, requirement: Requirement, *, sensitive: Iterable[str] = (), sql: bool = False) -> Verification:
    """Does this table, as it is, satisfy the requirement? `sensitive` is for requirements that name none.

    Boundaries are those of the table's schema; for a release it is that of its original. With `sql`, DuckDB counts the
    table once more: `Verification.sql` has the statements, and what came of them.
    """
    table = frame if isinstance(frame, Table) else Table(frame)
    asked = checked_requirement(requirement, names_of("sensitive", sensitive))
    rows = ReleasedRows(table.origin.name, table.arrow.column_names, table)
    found = verification_of(rows, asked, table.schema)
    return found.with_sql(table.arrow, name=table.origin.name) if sql else found


def verification_of(
    rows: ReleasedRows, requirement: Requirement, schema: Schema | None, identifiers: Iterable[str] = ()
) -> Verification:
    """Count all rows of a release, and judge them; a schema has boundaries. `identifiers` no release may hold."""
    verdicts = rows.verdicts(requirement, bind=True, complete=with_coalitions)
    violations = Violations() if schema is None else rows.violations(schema, requirement.qid_attributes)
    verdicts = with_violations(verdicts, violations.cells, rows.name)
    leaked = tuple(name for name in dict.fromkeys(identifiers) if name in rows.columns)
    return Verification(verdicts, rows.name, leaked, violations)
