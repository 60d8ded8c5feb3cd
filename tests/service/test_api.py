"""What each route of the API does, over HTTP on a real server."""

from __future__ import annotations

import io
from datetime import timedelta
from hashlib import sha256
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from full_disk import no_file_above
from homes import home
from masquerade.errors import ParameterError
from masquerade.service import Request, Status, TokenKind, read_request
from masquerade.service.api.health import CachedHealth
from masquerade.service.api.request_body import EXAMPLE, SCHEMA
from masquerade.service.wire.problems import DATABASE_AWAY, PAGE, PROBLEM_TYPES
from service.api_server import PASSWORDS, REPORT, SUMMARY, TABLE, WISH, Room, room


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem that an answer tells, in the one form that all have."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    content: dict[str, Any] = answer.json()
    assert set(content) == {"type", "title", "status", "detail", "problems", "errors"}
    assert content["status"] == status
    assert content["type"] in {each.address for each in PROBLEM_TYPES if each.status == status}
    assert content["problems"][0] == content["detail"]
    assert all("\n" not in line for line in content["problems"])
    return content


# --- signing in, tokens ---


def test_signing_in_and_out(place: Room) -> None:
    with place.client() as nobody:
        answer = nobody.post("/sign-in", json={"user": "ana", "password": PASSWORDS["ana"]})
        assert answer.status_code == 200
        signed = answer.json()
        assert (signed["user"], signed["role"]) == ("ana", "analyst")
        bearer = {"Authorization": f"Bearer {signed['token']}"}
        assert nobody.get("/me", headers=bearer).json()["name"] == "ana"
        assert nobody.delete("/sign-in", headers=bearer).status_code == 204
        problem(nobody.get("/me", headers=bearer), 401)


def test_a_token_for_a_program(place: Room, ana: httpx.Client) -> None:
    for days, said in ((0, "days: must be at least 1"), ("2", "days: must be a whole number")):
        answer = ana.post("/tokens", json={"name": "notebook", "days": days})
        assert problem(answer, 422)["problems"] == [said]
    made = ana.post("/tokens", json={"name": "notebook", "days": 2})
    assert made.status_code == 201
    content = made.json()
    listed = {each["id"]: each for each in ana.get("/tokens").json()["items"]}
    assert listed[content["id"]]["name"] == "notebook"
    assert "token" not in listed[content["id"]]
    bearer = {"Authorization": f"Bearer {content['token']}"}
    with place.client() as nobody:
        assert nobody.get("/me", headers=bearer).status_code == 200
        assert ana.delete(f"/tokens/{content['id']}").status_code == 204
        problem(nobody.get("/me", headers=bearer), 401)
    assert content["id"] not in {each["id"] for each in ana.get("/tokens").json()["items"]}


def test_nobody_has_endless_tokens(place: Room) -> None:
    accounts, ben = place.coordinator.accounts, place.coordinator.store.users.get("ben")
    for number in range(99):  # and the tests' own
        accounts.create_token(ben, f"token {number}")
    with place.client("ben") as client:
        assert "revoke one" in problem(client.post("/tokens", json={"name": "one more"}), 409)["detail"]
        # Signing in goes on all the same, and keeps the youngest.
        for _ in range(102):
            accounts.sign_in_for_token("ben", PASSWORDS["ben"], TokenKind.SIGN_IN, timedelta(hours=1))
        assert client.post("/sign-in", json={"user": "ben", "password": PASSWORDS["ben"]}).status_code == 200
        kept = [each for each in client.get("/tokens").json()["items"] if each["kind"] == "sign-in"]
        assert len(kept) == 100


# --- providers and previews ---


def test_providers_come_in_pages_and_only_those_one_may_ask(place: Room, ana: httpx.Client) -> None:
    first = ana.get("/providers", params={"limit": 1}).json()
    assert [each["party"] for each in first["items"]] == ["bank"]
    second = ana.get("/providers", params={"limit": 1, "after": first["next"]}).json()
    assert [each["party"] for each in second["items"]] == ["clinic"]
    assert second["next"] is None
    with place.client("ben") as ben:
        assert [each["party"] for each in ben.get("/providers").json()["items"]] == ["bank", "clinic", "shop"]
        assert ben.get("/providers/shop").json()["datasets"][0]["columns"][0]["name"] == "colour"
    unknown, private = ana.get("/providers/nobody"), ana.get("/providers/shop")
    assert problem(unknown, 404)["detail"].replace("nobody", "shop") == problem(private, 404)["detail"]


def test_a_preview_stores_nothing(ana: httpx.Client) -> None:
    before = len(ana.get("/sessions").json()["items"])
    seen = ana.post("/previews", json={**WISH}).json()
    assert seen["contributors"] == {"age": ["clinic"], "job": ["bank"]}
    assert seen["parties"] == ["bank", "clinic"]
    assert seen["problems"] == []
    assert "k-anonymity" in seen["requirement"][0]
    wrong = ana.post("/previews", json={"attributes": ["colour"]}).json()
    assert any("purpose" in line for line in wrong["problems"])
    assert len(ana.get("/sessions").json()["items"]) == before


# --- sessions ---


def test_asking_for_a_table(ana: httpx.Client) -> None:
    made = ana.post("/sessions", json={**WISH, "user": "root"})
    assert made.status_code == 201
    session = made.json()
    assert made.headers["location"] == f"/api/v1/sessions/{session['id']}"
    assert session["status"] == "requested"
    assert session["client"] == session["request"]["user"] == "ana", "what is written as the user is not believed"
    assert session["created"].endswith("Z")
    assert ana.get(f"/sessions/{session['id']}").json() == session


def test_every_problem_of_a_request_at_once(ana: httpx.Client) -> None:
    told = problem(ana.post("/sessions", json={"atributes": ["age"], "budget": -1, "attempts": "many"}), 422)
    assert len(told["problems"]) >= 3
    assert any('did you mean "attributes"?' in line for line in told["problems"])
    told = problem(ana.post("/sessions", json={**WISH, "attributes": ["age", "job", "jbo"]}), 422)
    assert "jbo" in told["detail"]


def test_what_is_misspelt_and_what_nobody_offers_at_once(ana: httpx.Client) -> None:
    """A suggestion goes from the name that no party offers to the one that they do, never back."""
    wish = {**WISH, "attributes": ["agee", "job"], "budget": -1, "deadline": "2001-01-31T12:00:00Z"}
    told = problem(ana.post("/sessions", json=wish), 422)["problems"]
    assert sorted(told) == [
        'request: attributes: no party offers "agee" (did you mean "age"?)',
        "request: budget: must be a whole number of cents, of at least 0; got -1",
        *[line for line in told if line.startswith("request: deadline: 2001-01-31T12:00:00Z has passed")],
        'request: privacy[1].qid: "age" is not among the attributes, but "agee" is: write the same in both places',
    ]
    assert len(told) == 4
    assert len(ana.post("/previews", json=wish).json()["problems"]) == 4


@pytest.mark.parametrize("unread", ["class", "kind", "providers"])
def test_nothing_follows_from_a_key_that_cannot_be_read(ana: httpx.Client, unread: str) -> None:
    """Who would take part depends on it."""
    told = problem(ana.post("/sessions", json={**WISH, "attributes": ["job"], "privacy": [], unread: 7}), 422)
    assert len(told["problems"]) == 1
    assert told["detail"].startswith(f"request: {unread}: must be")


def test_sessions_come_in_pages_the_newest_first(place: Room) -> None:
    place.add_user("pia")
    made = [place.ask("pia").id for _ in range(5)]
    with place.client("pia") as pia:
        seen: list[str] = []
        after: dict[str, str] = {}
        for _ in range(3):
            page = pia.get("/sessions", params={"limit": 2, **after}).json()
            seen += [each["id"] for each in page["items"]]
            after = {"after": page["next"]}
        assert seen == made[::-1]
        assert page["next"] is None
        pia.post(f"/sessions/{made[0]}/cancel")
        cancelled = pia.get("/sessions", params={"status": "cancelled"}).json()["items"]
        assert [each["id"] for each in cancelled] == [made[0]]
        problem(pia.get("/sessions", params={"everyone": True}), 403)
        # Somebody else's session is no place to go on from.
        problem(pia.get("/sessions", params={"after": place.ask("ana").id}), 404)


def test_admins_see_every_course_and_no_release(place: Room, ana: httpx.Client, root: httpx.Client) -> None:
    session = place.published("ana")
    everyone = root.get("/sessions", params={"everyone": True, "limit": 200}).json()["items"]
    assert session.id in {each["id"] for each in everyone}
    assert root.get("/sessions").json()["items"] == []
    assert root.get(f"/sessions/{session.id}").json()["rows"] is None
    assert ana.get(f"/sessions/{session.id}").json()["rows"] == 2
    assert root.get(f"/sessions/{session.id}/events").status_code == 200
    for path in ("release", "release/table", "release/report"):
        problem(root.get(f"/sessions/{session.id}/{path}"), 404)


def test_a_refusal_tells_every_reason(place: Room, ana: httpx.Client) -> None:
    store = place.coordinator.store
    session = place.moved(place.ask(), Status.NEGOTIATING)
    store.offers.add(session.id, "bank", 1, {}, 0, ["purpose research is not allowed; ask for another"])
    store.offers.add(session.id, "clinic", 1, {"k": 5}, 700)
    store.sessions.advance(session, Status.REFUSED, "bank: purpose research is not allowed; ask for another")
    told = ana.get(f"/sessions/{session.id}").json()
    assert told["status"] == "refused"
    assert told["reasons"] == ["bank: purpose research is not allowed; ask for another"]
    offers = ana.get(f"/sessions/{session.id}/offers").json()["items"]
    assert [(each["party"], each["price_cents"], len(each["reasons"])) for each in offers] == [
        ("bank", 0, 1),
        ("clinic", 700, 0),
    ]


def test_a_contract_once_there_is_one_and_cancelling_once(place: Room, ana: httpx.Client) -> None:
    unsigned = place.ask().id
    problem(ana.get(f"/sessions/{unsigned}/contract"), 404)
    assert ana.post(f"/sessions/{unsigned}/cancel").json()["status"] == "cancelled"
    assert "already" in problem(ana.post(f"/sessions/{unsigned}/cancel"), 409)["detail"]
    session = place.agreed()
    contract = ana.get(f"/sessions/{session.id}/contract").json()
    assert set(contract["keys"]) == {"bank", "clinic"}
    assert contract["deal"]["purpose"] == "research"


def test_the_client_decides_on_a_table_that_missed_its_quality(place: Room, ana: httpx.Client) -> None:
    held = [place.held().id for _ in range(3)]
    problem(ana.get(f"/sessions/{held[0]}/release"), 404)  # nothing is published before
    accepted = ana.post(f"/sessions/{held[0]}/decision", json={"decision": "accept"}).json()
    assert (accepted["status"], accepted["rows"]) == ("published", 2)
    assert ana.get(f"/sessions/{held[0]}/release").status_code == 200
    withdrawn = ana.post(f"/sessions/{held[1]}/decision", json={"decision": "withdraw"}).json()
    assert withdrawn["status"] == "cancelled"
    problem(ana.get(f"/sessions/{held[1]}/release"), 404)
    relaxed = ana.post(
        f"/sessions/{held[2]}/decision", json={"decision": "relax", "request": {"budget": 200_000}}
    ).json()
    assert relaxed["status"] in ("requested", "negotiating")
    assert relaxed["request"]["budget"] == 200_000
    problem(ana.post(f"/sessions/{held[2]}/decision", json={"decision": "accept"}), 409)


@pytest.mark.parametrize(
    "body",
    [
        {"decision": "relax"},
        {"decision": "accept", "request": {}},
        {"decision": "perhaps"},
        {"decision": "accept", "really": True},
        {},
        [],
    ],
)
def test_decisions_that_are_none(place: Room, ana: httpx.Client, body: Any) -> None:
    problem(ana.post(f"/sessions/{place.ask().id}/decision", json=body), 422)


# --- releases ---


def test_a_release(place: Room, ana: httpx.Client) -> None:
    session = place.published("ana", {"bank": 300, "clinic": 20})
    told = ana.get(f"/sessions/{session.id}/release").json()
    assert told["rows"] == 2
    assert told["summary"]["requirements"] == SUMMARY["requirements"]
    assert told["summary"]["cost"] == {"total": 320, "parties": {"bank": 300, "clinic": 20}}
    assert str(place.coordinator.settings.state) not in str(told)
    table = ana.get(f"/sessions/{session.id}/release/table")
    assert table.text == TABLE
    assert sha256(table.content).hexdigest() == told["sha256"]
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert table.headers["content-disposition"] == f'attachment; filename="release-{session.id}.csv"'
    parquet = ana.get(f"/sessions/{session.id}/release/table", params={"format": "parquet"})
    assert pq.read_table(io.BytesIO(parquet.content)).column_names == ["age", "job"]
    report = ana.get(f"/sessions/{session.id}/release/report")
    assert report.text == REPORT
    policy = report.headers["content-security-policy"]
    assert "sandbox" in policy
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    problem(ana.get(f"/sessions/{session.id}/release/table", params={"format": "../release"}), 422)
    # Part of a file is not given: a release comes whole.
    part = ana.get(f"/sessions/{session.id}/release/table", headers={"Range": "bytes=0-3"})
    assert (part.status_code, part.text) == (200, TABLE)
    (place.coordinator.settings.releases / session.id / "release.csv").unlink()
    gone = problem(ana.get(f"/sessions/{session.id}/release/table"), 404)
    assert str(place.coordinator.settings.state) not in str(gone)


# --- ledger, admin ---


def test_the_ledger(place: Room, root: httpx.Client) -> None:
    place.add_user("leo")
    for _ in range(2):
        place.published("leo", {"bank": 100, "clinic": 50})
    with place.client("leo") as leo:
        first = leo.get("/ledger", params={"limit": 3}).json()
        assert [each["cents"] for each in first["items"]] == [100, 50, 100]
        assert first["owed"] == 300
        last = leo.get("/ledger", params={"limit": 3, "after": first["next"]}).json()
        assert [each["party"] for each in last["items"]] == ["clinic"]
        assert last["next"] is None
        assert leo.get("/ledger", params={"party": "bank"}).json()["owed"] == 200
        assert leo.get("/ledger", params={"user": "leo"}).status_code == 200
        problem(leo.get("/ledger", params={"user": "ana"}), 403)
    assert root.get("/ledger", params={"user": "leo"}).json()["owed"] == 300


def test_accounts_are_for_admins(place: Room, ana: httpx.Client, root: httpx.Client) -> None:
    new = {"name": "zoe", "password": "a long password"}
    for answer in (
        ana.get("/users"),
        ana.get("/users/ana"),
        ana.post("/users", json=new),
        ana.patch("/users/ana", json={"role": "admin"}),
        ana.get("/audit"),
    ):
        problem(answer, 403)
    made = root.post("/users", json=new)
    assert made.status_code == 201
    assert made.headers["location"] == "/api/v1/users/zoe"
    problem(root.post("/users", json=new), 409)
    with place.client() as nobody:
        signed = nobody.post("/sign-in", json={"user": "zoe", "password": new["password"]}).json()
        bearer = {"Authorization": f"Bearer {signed['token']}"}
        assert root.patch("/users/zoe", json={"role": "admin"}).json()["role"] == "admin"
        assert nobody.get("/users", headers=bearer).status_code == 200
        assert root.patch("/users/zoe", json={"disabled": True}).json()["disabled"] is True
        problem(nobody.get("/me", headers=bearer), 401)
        assert root.patch("/users/zoe", json={"disabled": False}).status_code == 200
        assert nobody.get("/me", headers=bearer).status_code == 200
        root.patch("/users/zoe", json={"password": "another long password"})
        problem(nobody.get("/me", headers=bearer), 401)  # whoever had the old password may have made tokens
    names = [each["name"] for each in root.get("/users", params={"limit": 200}).json()["items"]]
    assert names == sorted(names)
    assert "zoe" in names
    assert "hash" not in root.get("/users").text
    problem(root.patch("/users/nobody", json={"disabled": True}), 404)


def test_an_admin_sees_the_end_of_the_audit_log_and_cannot_lock_everybody_out(place: Room, root: httpx.Client) -> None:
    for change in ({"role": "analyst"}, {"disabled": True}):
        problem(root.patch("/users/root", json=change), 409)
        assert root.get("/me").json()["role"] == "admin"
    place.coordinator.settings.audit.write_text('{"number": 1}\n{"number": 2}\n')
    assert root.get("/audit", params={"limit": 1}).json()["items"] == [{"number": 2}]


# --- health, metrics, unknown places ---


def test_health_names_no_party(place: Room) -> None:
    assert place.get("/health/live").json() == {"status": "live"}
    ready = place.get("/health/ready")
    assert ready.status_code == 200
    assert ready.json()["parties"] == 3
    assert "bank" not in ready.text


def test_health_is_503_while_no_file_can_be_written(place: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home(CachedHealth), "_FRESH", 0.0)
    with no_file_above(4096):
        ready = place.get("/health/ready")
    assert (ready.status_code, ready.json()["files"]) == (503, "cannot be written")
    assert place.get("/health/ready").status_code == 200


def test_metrics_are_for_this_machine_or_an_admin(place: Room, ana: httpx.Client) -> None:
    session = place.ask()
    ana.get(f"/sessions/{session.id}")
    here = place.get("/metrics")
    assert here.status_code == 200
    for told in ("masquerade_http_requests_total", "masquerade_queue_length", 'route="/sessions/{id}"'):
        assert told in here.text
    assert session.id not in here.text, "a route is named without its identifiers"
    through = {"X-Forwarded-For": "203.0.113.7"}  # a proxy passes on what comes from elsewhere
    problem(place.get("/metrics", **through), 401)
    for user, status in (("ana", 403), ("root", 200)):
        bearer = {"Authorization": f"Bearer {place.tokens[user]}"}
        assert place.get("/metrics", **through | bearer).status_code == status
    problem(place.get("/metrics", **through, Authorization="Bearer mq_no"), 401)


def test_places_that_there_are_not(place: Room, ana: httpx.Client) -> None:
    problem(ana.get("/nothing"), 404)
    problem(ana.get("/sessions/"), 404)  # nobody is redirected: a token would travel along
    problem(place.get("/nothing"), 404)
    refused = ana.delete("/tokens")
    assert "allowed: GET, POST" in problem(refused, 405)["detail"]
    assert refused.headers["allow"] == "GET, POST"
    told = problem(ana.get("/sessions", params={"stauts": "queued"}), 422)
    assert 'did you mean "status"?' in told["detail"]
    problem(ana.get("/sessions?limit=1&limit=2"), 422)


def test_every_kind_of_problem_is_explained_where_its_type_leads(place: Room) -> None:
    page = place.get(PAGE)
    assert page.status_code == 200
    for each in PROBLEM_TYPES:
        assert each.address == f"{PAGE}#{each.name}"
        assert f'id="{each.name}"' in page.text
        assert f"{each.title}: {each.status}" in page.text
    assert "script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_database_that_does_not_answer(tmp_path: Any) -> None:
    with room(tmp_path / "room") as place, place.client("ana") as ana:
        assert ana.get("/me").status_code == 200
        place.coordinator.store.close()
        database = place.coordinator.settings.state / "coordinator.db"
        for file in database.parent.glob("coordinator.db*"):
            file.unlink()
        database.mkdir()  # what is there now is no database
        answer = ana.get("/me")
        told = problem(answer, 503)
        assert "database" in told["detail"]
        assert told["type"] == DATABASE_AWAY.address
        assert answer.headers["retry-after"] == "5"
        for word in ("sqlite", "SELECT", str(tmp_path)):
            assert word not in answer.text
        ready = place.get("/health/ready")
        assert ready.status_code == 503
        assert (ready.json()["database"], ready.json()["parties"]) == ("does not answer", 3)
        assert ready.json()["running"] is None
        assert place.get("/health/live").status_code == 200
        database.rmdir()


# --- the body's schema and what reads it are two things: they are held against each other ---


def test_the_schema_knows_the_keys_of_a_request() -> None:
    assert set(SCHEMA["properties"]) == {field.alias or name for name, field in Request.model_fields.items()}
    read_request(EXAMPLE)
    with pytest.raises(ParameterError):
        read_request({key: value for key, value in EXAMPLE.items() if key not in SCHEMA["required"]})
