"""The key `workload` of methods that look at the queries which a release will be asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from masquerade.errors import BadInput, Problem
from masquerade.forms.declared import parameter
from masquerade.forms.rules import file, optional

WORKLOAD = "workload"


def workload(help: str) -> Any:
    """Declare the parameter `workload`."""
    return parameter(optional(file('a file of SQL queries, such as "queries.sql"')), None, help=help)


def workload_problems(path: str | None) -> Iterator[Problem]:
    """Say what is wrong with the file, if one is named."""
    if path is not None:
        from masquerade.data.query_log import kept_query_log  # few jobs have one

        try:
            kept_query_log(path)
        except BadInput as error:
            yield from (problem.within("", (WORKLOAD,)) for problem in error.problems)
