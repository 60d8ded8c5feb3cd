"""The API against its own OpenAPI document: what it says is what comes, for good and for bad data."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import ignored_auth

from examples import EXPLORING, examples
from masquerade.methods import full_name, requestable_methods
from masquerade.service import Scope, SessionRecord, TokenKind, read_request
from masquerade.service.api.app import document
from masquerade.service.api.request_body import EXAMPLE, TOGETHER
from service.api_server import Room

# Of each operation, at random; beside them come all that its schema has of boundary values.
EXAMPLES = examples(20)
# Previews and decisions read what a request for a session does, whose 2,000 boundary values are left to `make explore`:
# they follow from the methods' declarations, as the words that refuse them do (tests/service/test_request.py).
WITHOUT_BOUNDARIES = ("/previews", "/sessions/{id}/decision", *(() if EXPLORING else ("/sessions",)))
CONFIG = {
    "generation": {"mode": "all", "max-examples": EXAMPLES, "deterministic": True},
    "phases": {"stateful": {"enabled": False}},
    "operations": [{"include-path": path, "phases": {"coverage": {"enabled": False}}} for path in WITHOUT_BOUNDARIES],
    "checks": {
        # A request can be well-formed and still ask for what no party has: that is 422 as well.
        "positive_data_acceptance": {"expected-statuses": ["2xx", "401", "403", "404", "409", "422"]},
        "negative_data_rejection": {"expected-statuses": ["401", "403", "404", "405", "409", "422"]},
        # Nothing here may fail for a reason of the server's.
        "not_a_server_error": {"expected-statuses": ["2xx", "4xx"]},
    },
}
_turns = count()
_FRESH = 20  # sessions in the one state in which a call succeeds; once they are used up, it is refused


@pytest.fixture(scope="module")
def sessions(place: Room) -> list[str]:
    """Sessions in several states; the admin's own, so that nothing is out of reach."""
    made = [place.published("root", {"bank": 100}), place.held("root"), place.held("root"), place.ask("root")]
    made += [place.agreed("root"), place.published("ana")]
    return [each.id for each in made]


@pytest.fixture(scope="module")
def asked_without_token() -> set[str]:
    """The operations that were called without a token, too: each is once, with data that are good."""
    return set()


@pytest.fixture(scope="module")
def connection() -> Iterator[requests.Session]:
    """One connection for all calls."""
    with requests.Session() as session:
        session.trust_env = False  # it would look for proxies in the environment at every call
        yield session


@pytest.fixture(scope="module")
def fresh() -> dict[str, list[SessionRecord]]:
    """By path: the sessions that were made for its calls."""
    return defaultdict(list)


api = schemathesis.openapi.from_dict(document(), config=SchemathesisConfig.from_dict(CONFIG))


def fresh_token(place: Room) -> str:
    """An admin's token with all scopes, for a call that may revoke it."""
    token = f"mq_{secrets.token_urlsafe(32)}"
    expires = place.coordinator.clock.now() + timedelta(hours=1)
    place.coordinator.store.users.add_token("root", "tests", token, expires, tuple(Scope), TokenKind.SIGN_IN)
    return token


@api.parametrize()
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)
def test_every_answer_is_as_the_document_says(
    case: Any,
    place: Room,
    sessions: list[str],
    fresh: dict[str, list[SessionRecord]],
    asked_without_token: set[str],
    connection: requests.Session,
) -> None:
    good = case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE
    if good and case.path.startswith("/sessions/{id}"):
        make = {"/sessions/{id}/decision": place.held, "/sessions/{id}/cancel": place.ask}.get(case.path)
        if make is None:
            case.path_parameters["id"] = sessions[next(_turns) % len(sessions)]
        else:
            made = fresh[case.path]
            if not made or (len(made) < _FRESH and place.has_moved(made[-1])):
                made.append(make("root"))
            case.path_parameters["id"] = made[-1].id
    if good and case.method == "PATCH":
        case.path_parameters["name"] = "ana"
    token = fresh_token(place) if case.method in ("DELETE", "PATCH") else place.tokens["root"]
    label = f"{case.method} {case.path}"
    without = good and label not in asked_without_token
    asked_without_token |= {label} if without else set()
    case.call_and_validate(
        base_url=f"{place.url}/api/v1",
        headers={"Authorization": f"Bearer {token}"},
        session=connection,
        excluded_checks=[] if without else [ignored_auth],
        timeout=900,
    )


def test_the_document_describes_everything(place: Room) -> None:
    told = place.get("/api/v1/openapi.json").json()
    assert told == document()
    lacking = []
    for path, item in told["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            if not operation.get("description"):
                lacking.append(where)
            lacking += [
                f"{where} {each['name']}" for each in operation.get("parameters", ()) if not each.get("description")
            ]
            statuses = set(operation["responses"])
            assert {"429", "500", "503", "422"} <= statuses, where
            assert "401" in statuses, where
            assert path == "/sign-in" or "security" in operation, where
            if "requestBody" in operation:
                assert "413" in statuses, where
            for status, response in operation["responses"].items():
                if status >= "400":
                    assert list(response["content"]) == ["application/problem+json"], (where, status)
    for name, schema in told["components"]["schemas"].items():
        assert "HTTPValidationError" not in name
        lacking += [] if schema.get("description") else [name]
        for key, each in schema.get("properties", {}).items():
            if "description" not in each and "$ref" not in each:
                lacking.append(f"{name}.{key}")
    assert not lacking


def test_the_document_tells_of_requests_of_both_kinds() -> None:
    told = document()
    body = told["paths"]["/sessions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    keys = body["properties"]
    assert {"kind", "m", "parties", "algorithm"} <= set(keys)
    assert all(keys[each]["description"].endswith("only in a horizontal request") for each in ("m", "parties"))
    assert keys["normalize"]["description"].endswith("only in a vertical request")
    assert [read_request(each).arrangement for each in body["examples"]] == ["vertical", "horizontal", "horizontal"]
    assert "horizontal" in told["components"]["schemas"]["SchemaCard"]["properties"]


def test_the_document_has_every_method_with_its_parameters() -> None:
    body = document()["paths"]["/sessions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    examples = {"vertical": EXAMPLE, "horizontal": TOGETHER}
    *told, nothing = body["properties"]["algorithm"]["anyOf"]
    assert nothing == {"type": "null"}
    methods = [*requestable_methods("vertical").values(), *requestable_methods("horizontal").values()]
    assert len(told) == sum(1 + len(method.short_names) for method in methods)
    for each in told:
        arrangement = each["description"].partition(" requests: ")[0]
        method = requestable_methods(arrangement)[full_name(each["title"])[0]]
        for name, parameter in each["properties"].items():
            assert name == "name" or parameter["description"]
            if parameter.get("default") is not None:  # what the document says is what the reader takes
                content = {key: each for key, each in examples[arrangement].items() if key != "most_error"}
                if not method.makes.has_groups:
                    content |= {"class": None, "privacy": [], "m": None}
                    content |= {role: f"its {role}" for role, needed in method.roles.items() if needed}
                content |= {"algorithm": {"name": each["title"], name: parameter["default"]}}
                assert read_request(content).method.settings()[name] == parameter["default"]


def test_the_page_for_people_loads_nothing(place: Room) -> None:
    page = place.get("/api/v1/docs")
    assert page.status_code == 200
    assert "POST /api/v1/sessions" in page.text
    for loading in ("<script", "<link", "<img", "<iframe", "src=", "@import", "url("):
        assert loading not in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
