"""What other sites, strangers and clumsy callers get: nothing."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from argon2 import PasswordHasher
from hypothesis import given, settings, strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from console.conftest import Site
from console.world import PASSWORD, World, served
from examples import examples
from fake_clock import FakeClock
from masquerade.console.frame import COOKIE, IDLE, LONGEST, Browsers, SignedOut, console_secret, own_path
from masquerade.errors import NotAllowed, ParameterError
from masquerade.service import Accounts, Role, Store

FOREIGN = ["https://evil.example", "null", "http://127.0.0.1", "https://", "file://", "http://[", ""]


@pytest.fixture
def client(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.address, timeout=900) as opened:
        yield opened


def signed_in(site: Site, user: str = "ana") -> dict[str, str]:
    return {"Cookie": f"{COOKIE}={site.cookie(user)}"}


@pytest.mark.parametrize("origin", [*FOREIGN, None])
def test_a_foreign_post_is_refused_and_changes_nothing(site: Site, client: httpx.Client, origin: str | None) -> None:
    from_there = {"Origin": origin} if origin is not None else {}
    form = {"user": "ana", "password": PASSWORD}
    refused = client.post("/console/sign-in", data=form, headers=from_there)
    assert (refused.status_code, refused.headers.get("set-cookie")) == (403, None)
    cookie = signed_in(site)
    assert client.post("/console/sign-out", headers={**from_there, **cookie}).status_code == 403
    assert client.get("/console/account", headers=cookie).status_code == 200  # still signed in


@pytest.mark.parametrize("origin", [*FOREIGN, None])
def test_a_foreign_websocket_is_refused(site: Site, origin: str | None) -> None:
    target = f"{site.address.replace('http', 'ws')}/console/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    headers = signed_in(site)
    with pytest.raises(InvalidStatus) as refused:
        connect(target, origin=origin, additional_headers=headers)  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403
    with connect(target, origin=site.address, additional_headers=headers) as own:  # type: ignore[arg-type]
        assert str(own.recv(timeout=900)).startswith("0{")


def test_a_foreign_page_cannot_poll_either(site: Site, client: httpx.Client) -> None:
    path = "/console/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    assert client.get(path, headers={"Origin": "https://evil.example", **signed_in(site)}).status_code == 403
    assert client.post(path, headers=signed_in(site)).status_code == 403


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(site: Site, client: httpx.Client) -> None:
    form, own = {"user": "ana", "password": PASSWORD, "next": "/console/account"}, {"Origin": site.address}
    answer = client.post("/console/sign-in", data=form, headers=own)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/account")
    parts = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict", "path=/console"} <= parts
    assert "secure" not in parts
    assert "mq_" not in answer.headers["set-cookie"]  # it holds a token, but not for everybody's eyes


@pytest.mark.system
def test_under_https_the_cookie_is_secure(tmp_path: Path) -> None:
    world = World(tmp_path)
    web = 'https = { certificate = "identity/bank/identity.pem", key = "identity/bank/key.pem" }\n'
    world.configuration.write_text(web + world.configuration.read_text())
    with served(world.configuration) as address:
        assert address.startswith("https://")
        form, own = {"user": "ana", "password": PASSWORD}, {"Origin": address}
        with httpx.Client(verify=False, timeout=900) as client:
            answer = client.post(f"{address}/console/sign-in", data=form, headers=own)
    world.close()
    assert "; Secure" in answer.headers["set-cookie"]
    assert "max-age=" in answer.headers["strict-transport-security"]


def test_neither_an_api_token_nor_a_forged_cookie_signs_in(site: Site, client: httpx.Client) -> None:
    token, _described = site.world.accounts.create_token(site.world.user("ana"), "for the API")
    for cookie in (token, "", "x" * 5000, site.cookie("ana")[:-2]):
        answer = client.get("/console/account", headers={"Cookie": f"{COOKIE}={cookie}"})
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/console/sign-in")
    cookie = site.cookie("ana")
    bearer = {"Authorization": f"Bearer {cookie}"}
    assert client.get("/api/v1/me", headers=bearer).status_code == 401
    assert client.get("/api/v1/me", headers=signed_in(site)).status_code == 401


def test_files_are_for_those_who_are_signed_in(site: Site, client: httpx.Client) -> None:
    session = site.world.published()
    for file in ("table.csv", "table.parquet", "report.html"):
        path = f"/console/sessions/{session.id}/{file}"
        assert client.get(path).status_code == 303
        assert client.get(path, headers=signed_in(site, "ben")).status_code == 404
        assert client.get(path, headers=signed_in(site)).status_code == 200
    for path in ("table.exe", "table.csv%00", "..%2f..%2fcoordinator.db", "table.csv/../../../console.key"):
        answer = client.get(f"/console/sessions/{session.id}/{path}", headers=signed_in(site))
        assert answer.status_code == 404


def test_the_report_can_do_nothing(site: Site, client: httpx.Client) -> None:
    session = site.world.published()
    headers = client.get(f"/console/sessions/{session.id}/report.html", headers=signed_in(site)).headers
    policy = headers["content-security-policy"]
    assert {"default-src 'none'", "sandbox", "frame-ancestors 'none'"} <= {each.strip() for each in policy.split(";")}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    page = client.get("/console/account", headers=signed_in(site)).headers
    assert "frame-ancestors 'none'" in page["content-security-policy"]
    assert page["cache-control"] == "no-store"


def test_texts_of_others_stay_texts(site: Site, client: httpx.Client) -> None:
    nasty = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    session = site.world.asked(purpose=nasty)
    page = client.get(f"/console/sessions/{session.id}", headers=signed_in(site)).text
    assert nasty not in page
    assert "<img src=x" not in page


def test_a_form_that_is_too_large_is_not_read(site: Site, client: httpx.Client) -> None:
    form = {"user": "ana", "password": PASSWORD, "more": "x" * 100_000}
    answer = client.post("/console/sign-in", data=form, headers={"Origin": site.address})
    assert (answer.status_code, answer.headers.get("set-cookie")) == (303, None)


def test_the_secret_is_its_owners_alone(site: Site, tmp_path: Path) -> None:
    kept = site.world.coordinator.settings.state / "console.key"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    secret = console_secret(tmp_path / "console.key")
    assert console_secret(tmp_path / "console.key") == secret
    assert [each.name for each in tmp_path.iterdir()] == ["console.key"]
    (tmp_path / "console.key").chmod(0o644)
    with pytest.raises(ParameterError, match="chmod 600 it"):
        console_secret(tmp_path / "console.key")
    (tmp_path / "other.key").touch(0o600)
    with pytest.raises(ParameterError, match=r"other\.key: not a secret of the console"):
        console_secret(tmp_path / "other.key")


class Door:
    """Browsers on a clock that is set by hand."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.store = Store.open("sqlite:///door.db", base=folder, clock=self.clock.now)
        self.accounts = Accounts(self.store, hasher=PasswordHasher(1, 8, 1))
        self.accounts.create("ana", PASSWORD)
        self.browsers = Browsers(self.store, self.accounts, console_secret(folder / "console.key"))


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path)
    yield made
    made.store.close()


def is_in(door: Door, cookie: str, *, acting: bool = True) -> bool:
    try:
        return door.browsers.user(cookie, acting=acting).name == "ana"
    except SignedOut:
        return False


def test_who_does_nothing_for_a_while_is_signed_out(door: Door) -> None:
    cookie, _ = door.browsers.sign_in("ana", PASSWORD)
    for _ in range(4):
        door.clock.move(IDLE - timedelta(minutes=1))
        assert is_in(door, cookie)
    door.clock.move(IDLE - timedelta(minutes=1))
    assert is_in(door, cookie, acting=False)  # a page that looks by itself
    door.clock.move(timedelta(minutes=2))
    assert not is_in(door, cookie)


def test_nobody_stays_for_ever(door: Door) -> None:
    cookie, _ = door.browsers.sign_in("ana", PASSWORD)
    end = door.clock.now() + LONGEST
    while door.clock.now() < end - IDLE / 2:
        assert is_in(door, cookie)
        door.clock.move(IDLE / 2)
    door.clock.move(end - door.clock.now())
    assert not is_in(door, cookie)


def test_a_sign_in_ends_with_the_account_the_password_and_the_sign_out(door: Door) -> None:
    cookies = [door.browsers.sign_in("ana", PASSWORD)[0] for _ in range(3)]
    door.browsers.sign_out(cookies[0])
    assert [is_in(door, cookie) for cookie in cookies] == [False, True, True]
    door.accounts.disable("ana")
    assert not is_in(door, cookies[1])
    door.accounts.enable("ana")
    assert is_in(door, cookies[1])
    door.accounts.set_role("ana", Role.ADMIN)
    assert door.browsers.user(cookies[1]).role is Role.ADMIN  # as the account is now
    door.accounts.set_password("ana", "quite another one")
    assert not is_in(door, cookies[1])
    with pytest.raises(NotAllowed):
        door.browsers.sign_in("ana", PASSWORD)


@settings(deadline=None, max_examples=examples(200))
@given(st.text(max_size=40) | st.builds("/console/{}".format, st.text(max_size=40)) | st.none())
def test_a_link_leads_to_the_console_and_nowhere_else(wanted: str | None) -> None:
    target = own_path(wanted)
    there = urlsplit(target)
    assert (there.scheme, there.netloc) == ("", "")
    assert target.startswith("/console/")
    assert "\\" not in target


@pytest.mark.parametrize("wanted", ["//evil.example", "/console/../..//evil.example", "https://evil.example/console/"])
def test_a_link_to_elsewhere_is_not_followed(wanted: str) -> None:
    assert own_path(wanted) == "/console/sessions"
