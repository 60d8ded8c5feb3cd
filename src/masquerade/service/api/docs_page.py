"""The API's description: the OpenAPI document, a page rendered from it, and one that explains the kinds of problems.

The pages have no script and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from fastapi import APIRouter, Depends, Request
from jinja2 import Environment, StrictUndefined, Template
from starlette.responses import HTMLResponse, JSONResponse, Response

from masquerade.service.api.access import visitor
from masquerade.service.api.middleware import NOTHING
from masquerade.service.wire.problems import PROBLEM_TYPES

router = APIRouter(include_in_schema=False, dependencies=[Depends(visitor)])

_METHODS = ("get", "post", "patch", "put", "delete")


@router.get("/openapi.json")
async def document(request: Request) -> Response:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The same for people."""
    return _page("docs_page.html", contents(request.app.openapi()))


@router.get("/problems")
async def problems() -> Response:
    """What each kind of problem means, and what to do about it."""
    return _page("problems_page.html", {"types": PROBLEM_TYPES})


def _page(template: str, content: Mapping[str, Any]) -> Response:
    style = _file("docs_page.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _template(template).render(style=style, **content)
    return HTMLResponse(page, headers={"Content-Security-Policy": f"{NOTHING}; style-src 'sha256-{digest}'"})


def contents(document: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows: operations by topic, and the schemas that they use."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                operation = item[method]
                topics.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    shapes = {name: _shape(schema) for name, schema in sorted(document["components"]["schemas"].items())}
    return {"info": document["info"], "server": document["servers"][0]["url"], "topics": topics, "shapes": shapes}


def _operation(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    responses = [
        {
            "status": status,
            "description": response.get("description", ""),
            "kinds": [
                {"type": kind, "shape": _kind(content.get("schema", {}))}
                for kind, content in response.get("content", {}).items()
            ],
        }
        for status, response in sorted(operation["responses"].items())
    ]
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "about": operation.get("description", ""),
        "parameters": [{**each, "kind": _kind(each.get("schema", {}))} for each in operation.get("parameters", ())],
        "body": _kind(body) if body is not None else None,
        "keys": _shape(body)["keys"] if body is not None and "properties" in body else [],
        "example": json.dumps(body["examples"][0], indent=2) if body is not None and body.get("examples") else None,
        "responses": responses,
    }


def _shape(schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    keys = [
        {"name": name, "kind": _kind(each), "about": each.get("description", ""), "required": name in required}
        for name, each in schema.get("properties", {}).items()
    ]
    return {"about": schema.get("description", ""), "keys": keys, "values": schema.get("enum", [])}


def _kind(schema: dict[str, Any]) -> str:
    """Describe a schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("title" if "properties" in schema else "type") or "anything")


@cache
def _template(name: str) -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file(name))


@cache
def _file(name: str) -> str:
    return resources.files("masquerade.service.api").joinpath(name).read_text("utf-8")
