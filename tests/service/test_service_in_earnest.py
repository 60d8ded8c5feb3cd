"""The service as it is run in earnest: HTTPS, PostgreSQL, the console in a browser, several users, and its end.

One house for all of it, because building one takes longer than any of the questions.
"""

from __future__ import annotations

import csv
import os
import shutil
import signal
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from playwright.sync_api import sync_playwright

import masquerade as mq
from conftest import PASSWORD as DATABASE_PASSWORD
from masquerade.console.frame import COOKIE
from masquerade.errors import NotFound, PeerError, PeerRefused
from masquerade.service import Accounts, Scope
from service_house import PASSWORD, House, Process, wait_until, write

if TYPE_CHECKING:
    from conftest import Postgres

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_numbers = count()


def web_certificate(folder: Path, name: str) -> Path:
    """A certificate as a server on this machine has it, and its key beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return folder / f"{name}.pem"


def with_postgres(folder: Path, postgres: Postgres) -> House:
    """A coordinator that keeps its state in PostgreSQL, and a bank that keeps its people there."""
    schema = f"earnest_{next(_numbers)}"
    postgres.sql(f"CREATE SCHEMA {schema} AUTHORIZATION steward;")
    url = f"{postgres.as_steward(quote(DATABASE_PASSWORD, safe=''))}?options=-csearch_path%3D{schema}"
    web_certificate(folder, "web")
    # A negotiation with a frozen party outlives a browser that starts slowly.
    timings = "[timings]\nretry = 0.2\ncomeback = 3\nrefresh = 1\nsilence = 20\nanswer = 300"
    keys = f'database = "{url}"\nhttps = {{ certificate = "web.pem", key = "web.key" }}\n{timings}'
    house = House(folder, coordinator_keys=keys, console=True, processes=True)
    rows = list(csv.DictReader((folder / "bank.csv").read_text().splitlines()))
    values = ", ".join(f"('{row['ssn']}', '{row['job']}', {row['salary']})" for row in rows)
    postgres.sql(
        f"CREATE TABLE {schema}.customers (ssn text PRIMARY KEY, job text, salary integer, secret text);"
        f"INSERT INTO {schema}.customers (ssn, job, salary) VALUES {values};"
        f"GRANT USAGE ON SCHEMA {schema} TO guest; GRANT SELECT ON {schema}.customers TO guest;"
    )
    conf = folder / "bank.toml"
    query = f"SELECT ssn, job, salary FROM {schema}.customers"
    source = f'source = "{postgres.trusted}"\nquery = "{query}"'
    write(conf, conf.read_text().replace('source = "bank.csv"', source))
    (folder / "bank.csv").unlink()
    return house


def test_the_whole_path_over_https_with_postgresql_and_users_who_see_their_own(
    tmp_path: Path, postgres: Postgres
) -> None:
    with with_postgres(tmp_path, postgres) as house:
        house.start_nodes()
        server = house.serve()
        url, web = server.ready["address"], tmp_path / "web.pem"
        assert url.startswith("https://127.0.0.1:")
        tokens = {}
        for name, role in (("ana", "analyst"), ("ben", "analyst"), ("eve", "analyst"), ("root", "admin")):
            with house.store() as store:
                scopes = [each for each in Scope if each is not Scope.ADMIN or role == "admin"]
                tokens[name] = Accounts(store).create_token(house.user(name, role), "tests", scopes=scopes)[0]

        only_this_certificate_will_do(url, tokens["ana"], tmp_path)
        with (
            mq.Client(url, tokens["ana"], ca=web) as ana,
            mq.Client(url, tokens["ben"], ca=web) as ben,
            mq.Client(url, tokens["eve"], ca=web) as eve,
            mq.Client(url, tokens["root"], ca=web) as root,
        ):
            wait_until(lambda: len(ana.providers()) == 2, "both parties have published")
            wish = house.request(recipients=["ana", "ben"])
            assert ana.preview(wish).problems == ()
            done = ana.wait(ana.request(wish).id)
            assert (done.status, done.problems) == ("published", ())
            table = ana.table(done.id)
            assert table.num_rows == 160
            assert table.column_names == ["age", "job", "salary", "town", "income"]

            # A recipient has it, an admin has its course, and nobody else knows that it exists.
            assert ben.table(done.id).equals(table)
            ben.download(done.id, tmp_path / "ben.parquet")
            assert root.session(done.id).status == "published"
            for stranger in (eve, root):
                for look in (stranger.release, stranger.table):
                    with pytest.raises(NotFound):
                        look(done.id)
                with pytest.raises(NotFound):
                    stranger.download(done.id, tmp_path / "stolen.csv")
                assert not (tmp_path / "stolen.csv").exists()
            for look in (eve.session, eve.offers, eve.contract, eve.cancel, eve.accept, eve.withdraw):
                with pytest.raises(NotFound):
                    look(done.id)
            with pytest.raises(NotFound):
                list(eve.watch(done.id))
            assert eve.sessions() == []

            # The cache gives her a table of her own, with her own recipients, and no way to the others'.
            hers = eve.wait(eve.request(house.request(recipients=["eve"])).id)
            assert hers.terms_hash == done.terms_hash
            assert eve.table(hers.id).equals(table)
            for look in (ana.session, ben.table, ana.release):
                with pytest.raises(NotFound):
                    look(hers.id)

        the_console_keeps_them_apart_too(url, web, done.id)
        held = interrupted_while_people_watch(house, server, url, web, tokens["ana"])

        # It comes back, with all that it knew, and carries on.
        server = house.serve()
        with mq.Client(server.ready["address"], tokens["ana"], ca=web) as ana:
            assert ana.table(done.id).equals(table)
            assert ana.wait(held).status == "awaiting_client"  # it would lose nearly all of a column
            assert ana.accept(held).status == "published"
        assert server.stop() == 0
        logs = "".join((tmp_path / f"{name}.log").read_text() for name in ("coordinator", "bank", "clinic"))
        for secret in (DATABASE_PASSWORD, quote(DATABASE_PASSWORD, safe=""), PASSWORD, *tokens.values()):
            assert secret not in logs
        assert "Traceback" not in logs
        assert not list((tmp_path / "coordinator-state").glob("*.db"))  # its memory is elsewhere


def only_this_certificate_will_do(url: str, token: str, folder: Path) -> None:
    other = web_certificate(folder, "other")
    with mq.Client(url, token, ca=folder / "web.pem") as client:
        assert client.me().name == "ana"
    for wrong in (other, folder / "ca.pem", None):
        with mq.Client(url, token, ca=wrong) as client, pytest.raises(PeerRefused, match="not trusted"):
            client.me()
    with mq.Client(url.replace("https:", "http:"), token) as client, pytest.raises(PeerError):
        client.me()


def the_console_keeps_them_apart_too(url: str, web: Path, session: str) -> None:
    files = [f"/console/sessions/{session}/{name}" for name in ("table.csv", "table.parquet", "report.html")]
    for user, status in (("ana", 200), ("ben", 200), ("eve", 404), ("root", 404), (None, 303)):
        with _browser(url, web) as browser:
            if user is not None:
                cookie = _signed_in(browser, url, user)
                assert "Secure" in cookie
                assert "HttpOnly" in cookie
            for path in files:
                assert browser.get(path).status_code == status, (user, path)
            page = browser.get(f"/console/sessions/{session}").text
            assert ("published" in page) is (user in ("ana", "ben", "root")), user


def interrupted_while_people_watch(house: House, server: Process, url: str, web: Path, token: str) -> str:
    """Ctrl-C while streams are open, a browser looks on, and a party does not answer; the session that waits."""
    bank = house.nodes["bank"].process
    os.kill(bank.pid, signal.SIGSTOP)
    try:
        headers = {"Authorization": f"Bearer {token}"}
        context = ssl.create_default_context(cafile=str(web))
        with httpx.Client(base_url=url, headers=headers, verify=context, timeout=900) as http:
            wish = house.request(privacy=[{"model": "k-anonymity", "qid": ["age", "job"], "k": 6}])
            held: str = http.post("/api/v1/sessions", json=wish).json()["id"]
            ends: list[str] = []
            begun = threading.Barrier(3)

            def follow() -> None:
                path, accept = f"/api/v1/sessions/{held}/events", {"Accept": "text/event-stream"}
                try:
                    with http.stream("GET", path, headers=accept) as answer:
                        lines = answer.iter_lines()
                        next(lines)
                        begun.wait(180)
                        for _ in lines:
                            pass
                    ends.append("whole")
                except httpx.HTTPError as error:
                    ends.append(type(error).__name__)

            watching = [threading.Thread(target=follow) for _ in range(2)]
            for each in watching:
                each.start()
            begun.wait(180)
            looking_on(server, url, held)
            for each in watching:
                each.join(180)
            assert ends == ["whole", "whole"]  # told that it is over, and not cut off
            assert server.ended() == 0
    finally:
        os.kill(bank.pid, signal.SIGCONT)
    return held


def looking_on(server: Process, url: str, session: str) -> None:
    """A signed-in browser on the session's page, which changes by itself, when the coordinator is told to end."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: `make test` adds it")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(120_000)
        page.goto(f"{url}/console/sign-in")
        page.get_by_label("Name").fill("ana")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Sessions").wait_for()
        page.goto(f"{url}/console/sessions/{session}")
        page.get_by_text("negotiating", exact=False).first.wait_for()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(180) == 0
        browser.close()


def _browser(url: str, web: Path) -> httpx.Client:
    return httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=str(web)), timeout=900)


def _signed_in(browser: httpx.Client, url: str, user: str) -> str:
    answer = browser.post("/console/sign-in", data={"user": user, "password": PASSWORD}, headers={"Origin": url})
    assert COOKIE in answer.cookies, answer.status_code
    return answer.headers["set-cookie"]
