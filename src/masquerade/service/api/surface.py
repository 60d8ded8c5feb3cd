"""The methods of each path and their query parameters, according to the OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, Request
from starlette.routing import compile_path

_METHODS = ("get", "put", "post", "delete", "patch")


class Surface:
    """The paths of an app, according to its OpenAPI document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._paths: list[tuple[re.Pattern[str], dict[str, list[str]]]] = []
        for path, item in document["paths"].items():
            operations = {
                method.upper(): [
                    each["name"] for each in item[method].get("parameters", ()) if each["in"] == "query"
                ]
                for method in _METHODS
                if method in item
            }
            self._paths.append((compile_path(path)[0], operations))

    def operations(self, path: str) -> dict[str, list[str]]:
        """Return the methods of a path, and the query parameters of each."""
        found: dict[str, list[str]] = {}
        for pattern, operations in self._paths:
            if pattern.match(path):
                found |= operations
        return found


def allowed_methods(request: Request) -> str:
    """Return the value of the Allow header for a path; empty for a path that is not in the document."""
    return ", ".join(sorted(_operations(request)))


def known_parameters(request: Request) -> list[str]:
    """Return the query parameters of this operation."""
    return _operations(request).get(request.method, [])


def _operations(request: Request) -> dict[str, list[str]]:
    app: FastAPI = request.app
    surface = getattr(app.state, "surface", None)
    if surface is None:
        surface = app.state.surface = Surface(app.openapi())
    path: str = request.scope["path"]
    return surface.operations(path.removeprefix(request.scope.get("root_path", "")))
