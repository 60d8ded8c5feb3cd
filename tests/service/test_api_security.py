"""Whoever tries to get at what is not theirs: other people's sessions, files, tokens, or another page's rights."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from fake_clock import FakeClock
from masquerade.net.identity import issue, make_authority
from masquerade.service import Status
from masquerade.service.accounts import Lockout
from service.api_server import PASSWORDS, TABLE, WISH, Room, make_coordinator, raw, room, served

TRAVERSALS = (
    "..",
    "../../coordinator.db",
    "..%2f..%2fcoordinator.db",
    "%2e%2e%2f%2e%2e%2fcoordinator.db",
    "..%5c..%5ccoordinator.db",
    "%2fetc%2fpasswd",
    "....//",
    "%00",
    "0" * 31,
    "0" * 33,
    "G" * 32,
    "0f" * 16 + "%0a",
    "0f" * 16 + "%0d%0aX-Evil:%201",
)


# --- what belongs to others ---


def test_nobody_reaches_anothers_session(place: Room, ana: httpx.Client, ben: httpx.Client) -> None:
    published, held = place.published("ana"), place.held("ana")
    nothing = "0f" * 16
    for path in ("", "/offers", "/contract", "/events", "/release", "/release/table", "/release/report"):
        theirs, nobodys = (ben.get(f"/sessions/{each}{path}") for each in (published.id, nothing))
        assert theirs.status_code == nobodys.status_code == 404
        # A session of others and one that there is not look the same.
        assert theirs.text.replace(published.id, nothing) == nobodys.text
        assert ana.get(f"/sessions/{published.id}{path}").status_code == 200
    for path, body in (
        ("cancel", None),
        ("decision", {"decision": "accept"}),
        ("decision", {"decision": "withdraw"}),
        ("decision", {"decision": "relax", "request": {"budget": 1}}),
    ):
        assert ben.post(f"/sessions/{held.id}/{path}", json=body).status_code == 404
    assert place.coordinator.store.sessions.get(held.id).status is Status.AWAITING_CLIENT
    assert published.id not in ben.get("/sessions").text


def test_a_recipient_has_the_release_and_decides_nothing(place: Room, ana: httpx.Client, ben: httpx.Client) -> None:
    made = ana.post("/sessions", json={**WISH, "recipients": ["ana", "ben"]}).json()
    assert ben.get(f"/sessions/{made['id']}").status_code == 200
    assert ben.post(f"/sessions/{made['id']}/cancel").status_code == 403


def test_a_cached_table_is_checked_for_each_user(place: Room, ana: httpx.Client, ben: httpx.Client) -> None:
    releases = place.coordinator.store.releases
    made = place.published("ana")
    assert made.terms_hash is not None
    # ben asks for the same, and nobody has signed anything for ben.
    other = place.ask("ben")
    assert releases.cached(made.terms_hash, "ben") is None
    assert ben.get(f"/sessions/{other.id}/release/table").status_code == 404
    # Once the parties signed the same terms for ben, the table is served in a session of ben's own.
    signed = place.agreed("ben")
    cached = releases.cached(made.terms_hash, "ben")
    assert cached is not None
    releases.publish_cached(signed, cached)
    assert ben.get(f"/sessions/{signed.id}/release/table").text == TABLE
    assert ben.get(f"/sessions/{made.id}/release/table").status_code == 404
    assert ana.get(f"/sessions/{signed.id}/release/table").status_code == 404


# --- paths ---


@pytest.mark.parametrize("name", TRAVERSALS)
def test_no_path_leads_out(place: Room, ana: httpx.Client, name: str) -> None:
    for path in (
        f"/sessions/{name}/release/table",
        f"/sessions/{name}/release/report",
        f"/sessions/{name}",
        f"/providers/{name}",
        f"/tokens/{name}",
    ):
        request = f"GET /api/v1{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {place.tokens['ana']}\r\n"
        answer = raw(place, f"{request}Connection: close\r\n\r\n".encode())
        status = int(answer.split(b" ", 2)[1])
        assert 400 <= status < 500, answer
        assert b"x-evil" not in answer.split(b"\r\n\r\n")[0].lower()
        assert b"SQLite format" not in answer
        assert b"root:" not in answer


def test_the_name_of_a_download_is_ours_and_no_answer_sets_a_cookie(place: Room, ana: httpx.Client) -> None:
    session = place.published()
    for path in ("table", "table?format=parquet", "report"):
        answer = ana.get(f"/sessions/{session.id}/release/{path}")
        shown = answer.headers["content-disposition"]
        assert shown.startswith("attachment; filename=")
        assert session.id in shown
        assert not any(each in shown for each in ("/", ".."))
        assert "set-cookie" not in answer.headers
    signed = ana.post("/sign-in", json={"user": "ana", "password": PASSWORDS["ana"]})
    for answer in (ana.get("/me"), signed, ana.get("/nothing")):
        assert "set-cookie" not in answer.headers


# --- tokens ---


def test_a_token_comes_in_the_header_alone(place: Room) -> None:
    token = place.tokens["ana"]
    with place.client() as nobody:
        assert nobody.get("/me", params={"token": token}).status_code == 422
        assert nobody.get("/me", params={"access_token": token}).status_code == 422
        assert nobody.get("/me", headers={"Cookie": f"token={token}; session={token}"}).status_code == 401
        assert nobody.get("/me", headers={"X-Api-Key": token}).status_code == 401
        for scheme in (
            f"Basic {token}",
            token,
            f"bearer{token}",
            "Bearer",
            f"Bearer {token}x",
            f"Bearer {token} {token}",
        ):
            assert nobody.get("/me", headers={"Authorization": scheme}).status_code == 401, scheme.split(" ")[0]
        assert nobody.get("/me", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_tokens_are_not_replayed(place: Room) -> None:
    with place.client() as nobody:
        signed = nobody.post("/sign-in", json={"user": "ana", "password": PASSWORDS["ana"]}).json()
        bearer = {"Authorization": f"Bearer {signed['token']}"}
        made = nobody.post("/tokens", json={"name": "n"}, headers=bearer).json()
        other = {"Authorization": f"Bearer {made['token']}"}
        assert nobody.delete("/sign-in", headers=bearer).status_code == 204
        for _ in range(2):
            assert nobody.get("/me", headers=bearer).status_code == 401
            assert nobody.post("/sessions", json={**WISH}, headers=bearer).status_code == 401
            assert nobody.delete("/sign-in", headers=bearer).status_code == 401
        assert nobody.get("/me", headers=other).status_code == 200  # a token of its own
        with place.client("ben") as ben:  # nobody revokes another's token
            assert ben.delete(f"/tokens/{made['id']}").status_code == 404
        assert nobody.delete("/sign-in", headers=other).status_code == 204
        assert nobody.get("/me", headers=other).status_code == 401


def test_expired_tokens(tmp_path: Path) -> None:
    clock = FakeClock()
    with room(tmp_path / "room", clock) as place, place.client() as nobody:
        signed = nobody.post("/sign-in", json={"user": "ana", "password": PASSWORDS["ana"]}).json()
        bearer = {"Authorization": f"Bearer {signed['token']}"}
        clock.tick(hours=11.9)
        assert nobody.get("/me", headers=bearer).status_code == 200
        clock.tick(hours=0.2)
        expired = nobody.get("/me", headers=bearer)
        assert expired.status_code == 401
        assert expired.headers["www-authenticate"].startswith("Bearer")
        unknown = nobody.get("/me", headers={"Authorization": "Bearer mq_unknown"})
        assert unknown.text == expired.text


# --- guessing ---


def test_guessing_tells_nothing_and_has_to_wait(tmp_path: Path) -> None:
    clock = FakeClock()
    with make_coordinator(tmp_path / "room", clock) as coordinator:
        failures = Lockout().failures
        with served(coordinator) as place, place.client() as nobody:
            told = set()
            for user in ("ana", "nobody at all"):
                for _ in range(failures + 1):
                    answer = nobody.post("/sign-in", json={"user": user, "password": "guess"})
                    assert answer.status_code == 401
                    told.add(answer.text)
            right = nobody.post("/sign-in", json={"user": "ana", "password": PASSWORDS["ana"]})
            assert right.status_code == 401  # it has to wait, and it looks the same
            assert len(told | {right.text}) == 1
            with place.client("root") as root:
                assert root.get("/users/ana").json()["wrong_guesses"] == failures
                assert root.patch("/users/ana", json={"unlock": True}).json()["wrong_guesses"] == 0
            assert nobody.post("/sign-in", json={"user": "ana", "password": PASSWORDS["ana"]}).status_code == 200


# --- other pages (CSRF, CORS, framing) ---


def test_another_page_can_do_nothing(place: Room) -> None:
    evil = {"Origin": "https://evil.example", "Cookie": f"token={place.tokens['ana']}"}
    with place.client(**evil) as page:
        # What a form of another page can send: no header of its own, and no JSON.
        form = page.post("/sessions", data={"purpose": "research"})
        assert form.status_code in (401, 422)
        text = page.post("/sign-in", content=b'{"user": "ana"}', headers={"Content-Type": "text/plain"})
        assert text.status_code == 422
        for answer in (form, text, page.get("/me")):
            assert not [name for name in answer.headers if name.startswith("access-control-")]
        asked = page.options("/sessions", headers={"Access-Control-Request-Method": "POST"})
        assert asked.status_code == 405
        assert not [name for name in asked.headers if name.startswith("access-control-")]
    # Even with the token, JSON must be called JSON.
    with place.client("ana") as ana:
        content = b'{"name": "n", "days": 1}'
        assert ana.post("/tokens", content=content, headers={"Content-Type": "text/plain"}).status_code == 422


@pytest.mark.parametrize("path", ["/me", "/nothing", "/sign-in", "/docs", "/openapi.json", "/sessions?nothing=1"])
def test_every_answer_has_its_headers(place: Room, ana: httpx.Client, path: str) -> None:
    answer = ana.get(path)
    names = ("cache-control", "x-content-type-options", "x-frame-options", "referrer-policy")
    assert [answer.headers[name] for name in names] == ["no-store", "nosniff", "DENY", "no-referrer"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "strict-transport-security" not in answer.headers  # over plain HTTP it means nothing


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "PROPFIND"])
def test_other_methods(ana: httpx.Client, method: str) -> None:
    answer = ana.request(method, "/sessions")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"
    assert "authorization" not in answer.text.lower()


# --- HTTPS ---


def test_over_https(tmp_path: Path) -> None:
    authority = make_authority()
    web = issue(authority, "web")
    certificate, key = tmp_path / "web.pem", tmp_path / "web.key"
    certificate.write_bytes(web.certificate)
    key.write_bytes(web.key)
    with make_coordinator(tmp_path / "room") as coordinator, served(coordinator, (certificate, key)) as place:
        context = ssl.create_default_context(cadata=authority.certificate.decode())
        context.check_hostname = False  # the trial's certificates name parties, not hosts
        bearer = {"Authorization": f"Bearer {place.tokens['ana']}"}
        with httpx.Client(base_url=f"{place.url}/api/v1", headers=bearer, verify=context, timeout=900) as ana:
            answer = ana.get("/me")
            assert answer.status_code == 200
            assert answer.headers["strict-transport-security"].startswith("max-age=")
        with httpx.Client(timeout=900) as stranger, pytest.raises(httpx.ConnectError):
            stranger.get(f"{place.url}/api/v1/me")
