"""What both kinds of clients hold: who asks, of whom, and how it travels."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from masquerade.errors import ParameterError
from masquerade.library.client_calls import Calls
from masquerade.library.client_core import Ask
from masquerade.library.client_results import Event

OnEvent = Callable[[Event], object]

_TOKEN = "MASQUERADE_TOKEN"  # noqa: S105 # where a token is looked for


class Connected:
    """What both kinds of clients are made of."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
    ) -> None:
        try:
            from masquerade.library.client_http import options
        except ModuleNotFoundError as error:
            raise ParameterError(f'the client needs {error.name}: pip install "masquerade[client]"') from None
        if token is None and user is None:
            token = os.environ.get(_TOKEN, "").strip() or None
        self._calls = Calls(url, token, user, password)
        self._options = options(self._calls.address, ca)
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._calls.address.base!r})"

    def _prepared(self, ask: Ask) -> dict[str, Any]:
        from masquerade.library.client_http import request_options

        if self._closed:
            raise ParameterError("this client is closed; make another one to ask more")
        return request_options(self._calls.address, ask)
