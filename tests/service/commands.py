"""Commands in this process, beside services that log here."""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stdout
from io import StringIO

from masquerade.cli.app import run

_LOGGED = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[.*\n", re.MULTILINE)


def masquerade(*words: str) -> str:
    """What a command that ends well prints, without what services in this process log meanwhile."""
    before, out = sys.argv, StringIO()
    sys.argv = ["masquerade", *words]
    try:
        with redirect_stdout(out):
            code = run()
    finally:
        sys.argv = before
    assert code == 0, out.getvalue()
    return _LOGGED.sub("", out.getvalue())
