"""A token that was stolen: what it opens, how long, and whether it can make itself others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from fake_clock import FakeClock
from masquerade.service import Scope, TokenKind
from masquerade.service.api.app import document
from service.api_server import PASSWORDS, Room, room

ANY_TOKEN = {("get", "/me"), ("delete", "/sign-in"), ("post", "/sign-in")}  # the last needs none


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with room(tmp_path_factory.mktemp("room") / "room") as made:
        yield made


@contextmanager
def thief(api: Room, user: str, *scopes: Scope, days: int = 90) -> Iterator[httpx.Client]:
    """Somebody with a stolen token of these scopes."""
    accounts = api.coordinator.accounts
    owner = api.coordinator.store.users.get(user)
    token, _ = accounts.create_token(owner, "stolen", timedelta(days=days), scopes)
    api.tokens["thief"] = token
    with api.client("thief") as client:
        yield client


def opened(client: httpx.Client, session: str) -> set[tuple[str, str]]:
    """Every operation of the API that does not answer that the scope is missing."""
    found = set()
    for path, operations in document()["paths"].items():
        for method in operations.keys() & {"get", "post", "delete", "patch"}:
            if (method, path) in ANY_TOKEN:
                continue
            there = path.replace("{id}", session if path.startswith("/sessions") else "0" * 16)
            answer = client.request(method, there.replace("{party}", "bank").replace("{name}", "ana"))
            if not (answer.status_code == 403 and "needs a token with the scope" in answer.text):
                found.add((method, path))
    return found


def test_each_scope_opens_its_own_operations_and_together_all(api: Room) -> None:
    session = api.published("root").id
    by_scope = {}
    for scope in Scope:
        with thief(api, "root", scope) as client:
            by_scope[scope] = opened(client, session)
    everything = {
        (method, path)
        for path, operations in document()["paths"].items()
        for method in operations.keys() & {"get", "post", "delete", "patch"}
    }
    assert set().union(*by_scope.values()) == everything - ANY_TOKEN
    assert sum(map(len, by_scope.values())) == len(everything - ANY_TOKEN)  # no operation is opened by two
    assert all(method == "get" or path == "/previews" for method, path in by_scope[Scope.READ])
    assert not any("/release" in path for _, path in by_scope[Scope.READ])
    assert {path for _, path in by_scope[Scope.TOKENS]} == {"/tokens", "/tokens/{id}"}


def test_an_admins_token_without_the_scope_is_an_analysts(api: Room) -> None:
    session = api.ask("ana").id
    with thief(api, "root", Scope.READ, Scope.REQUEST, Scope.DOWNLOAD, Scope.TOKENS) as client:
        assert client.get("/me").json()["role"] == "analyst"
        assert client.get("/users").status_code == 403
        assert client.get("/sessions", params={"everyone": "true"}).status_code == 403
        assert client.get(f"/sessions/{session}").status_code == 404
        assert client.post(f"/sessions/{session}/cancel").status_code == 404


def test_a_token_makes_no_token_unless_it_may_and_none_that_opens_more_or_lasts_longer(api: Room) -> None:
    with thief(api, "root", Scope.READ, Scope.REQUEST, Scope.DOWNLOAD, Scope.ADMIN) as client:
        for answer in (client.post("/tokens", json={"name": "more"}), client.get("/tokens")):
            assert answer.status_code == 403
    with thief(api, "root", Scope.READ, Scope.TOKENS, days=2) as client:
        for scopes in (["admin"], ["read", "download"], list(Scope)):
            asked = client.post("/tokens", json={"name": "more", "scopes": scopes})
            assert asked.status_code == 403
        assert client.post("/tokens", json={"name": "more"}).status_code == 403  # the usual ones are more, too
        made = client.post("/tokens", json={"name": "more", "scopes": ["read"], "days": 366}).json()
        own = next(each for each in client.get("/tokens").json()["items"] if each["name"] == "stolen")
        assert datetime.fromisoformat(made["expires"]) <= datetime.fromisoformat(own["expires"])


def test_no_token_lasts_for_ever_and_no_analysts_is_an_admins(api: Room) -> None:
    with api.client("ana") as ana:
        assert ana.post("/tokens", json={"name": "long", "days": 367}).status_code == 422
        assert ana.post("/tokens", json={"name": "high", "scopes": ["admin"]}).status_code == 403
        assert ana.post("/tokens", json={"name": "none", "scopes": []}).status_code == 422


def test_sign_ins_are_tokens_listed_revocable_and_expiring(tmp_path: Path) -> None:
    clock = FakeClock()
    with room(tmp_path / "room", clock) as api, api.client() as nobody, api.client("ana") as ana:
        credentials = {"user": "ana", "password": PASSWORDS["ana"]}
        stolen = nobody.post("/sign-in", json=credentials).json()["token"]
        api.coordinator.accounts.sign_in_for_token("ana", PASSWORDS["ana"], TokenKind.BROWSER, timedelta(hours=12))
        listed = {each["kind"]: each["id"] for each in ana.get("/tokens").json()["items"]}
        assert set(listed) == {"program", "sign-in", "browser"}
        bearer = {"Authorization": f"Bearer {stolen}"}
        assert nobody.get("/me", headers=bearer).status_code == 200
        assert ana.delete(f"/tokens/{listed['sign-in']}").status_code == 204
        assert nobody.get("/me", headers=bearer).status_code == 401
        clock.tick(hours=13)
        assert {each["kind"] for each in ana.get("/tokens").json()["items"]} == {"program"}


def test_a_browsers_sign_in_is_no_api_token(api: Room) -> None:
    _, token, _ = api.coordinator.accounts.sign_in_for_token(
        "ana", PASSWORDS["ana"], TokenKind.BROWSER, timedelta(hours=12)
    )
    with api.client() as nobody:
        assert nobody.get("/me", headers={"Authorization": f"Bearer {token}"}).status_code == 401
