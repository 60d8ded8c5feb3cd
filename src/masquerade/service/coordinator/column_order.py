"""The order of a release's columns: the one that its client asked for, the class last.

The contract has an order of its own, with what is released as it is at the end: the parties go by that, and requests
that differ in nothing else are the same to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from masquerade.service.request import read_request


def wanted_order(request: Mapping[str, Any]) -> list[str]:
    """The columns in the order of a session's request."""
    return list(read_request(dict(request)).released)


def as_asked(table: pa.Table, request: Mapping[str, Any]) -> pa.Table:
    """A table with its columns in that order."""
    return table.select(wanted_order(request))
