"""The clients against a coordinator's real API, over real sockets."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
import sqlalchemy.event

import masquerade as mq
from library.live_api import PASSWORD, REQUEST, TABLE, LiveApi, eventually, live_api
from masquerade.library.client_results import Event, Session
from masquerade.net.identity import self_signed
from masquerade.service.request import read_request
from masquerade.service.store import Role, Status

RUN = (Status.NEGOTIATING, Status.AGREED, Status.QUEUED, Status.RUNNING)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    with live_api(tmp_path_factory.mktemp("api"), requests_per_minute=100_000) as server:
        yield server


@pytest.fixture
def client(api: LiveApi) -> Iterator[mq.Client]:
    with mq.Client(api.url, api.token) as connected:
        yield connected


def test_who_and_what_there_is(client: mq.Client) -> None:
    me = client.me()
    assert (me.name, me.role) == ("ana", "analyst")
    assert me.now is not None
    assert abs((me.now - datetime.now(UTC)).total_seconds()) < 3600
    bank, shop = client.providers()
    assert (bank.party, shop.party, bank.reachable) == ("bank", "shop", True)
    (dataset,) = bank.datasets
    assert (dataset.dataset, dataset.names, dataset.identifier, dataset.records) == (
        "people",
        ("age",),
        "ssn",
        1300,
    )


def test_a_preview_tells_what_stands_against_it(client: mq.Client) -> None:
    preview = client.preview(REQUEST)
    assert preview.contributors == {"age": ("bank",), "job": ("shop",)}
    assert preview.requirement == ("k-anonymity (k = 2) over age, job",)
    assert preview.problems == ()
    preview = client.preview({"attributes": ["age", "jib"]})
    assert any("purpose" in problem for problem in preview.problems)
    preview = client.preview({"purpose": "research", "attributes": ["age", "jib"]})
    assert any('"jib"' in problem for problem in preview.problems)


def as_dictionary(_folder: Path) -> object:
    return {**REQUEST, "deadline": datetime(2100, 1, 1, tzinfo=UTC)}


def as_file(folder: Path) -> object:
    text = 'purpose = "research"\nattributes = ["age", "job"]\ndeadline = 2100-01-01T00:00:00Z\n'
    text += '[[privacy]]\nmodel = "k-anonymity"\nqid = ["age", "job"]\nk = 2\n'
    (folder / "request.toml").write_text(text)
    return str(folder / "request.toml")


def as_section(folder: Path) -> object:
    text = '[request]\npurpose = "research"\nattributes = ["age", "job"]\ndeadline = 4102444800\n'
    text += '[[request.privacy]]\nmodel = "k-anonymity"\nqid = ["age", "job"]\nk = 2\n'
    (folder / "client.toml").write_text(text)
    return folder / "client.toml"


def as_request(_folder: Path) -> object:
    return read_request({**REQUEST, "deadline": 4102444800})


@pytest.mark.parametrize("wish", [as_dictionary, as_file, as_section, as_request])
def test_a_request_in_every_form(client: mq.Client, tmp_path: Path, wish: Callable[[Path], object]) -> None:
    session = client.request(wish(tmp_path))  # type: ignore[arg-type]
    assert (session.status, session.client, session.providers) == ("requested", "ana", ("bank", "shop"))
    assert session.request["deadline"] == 4102444800
    assert session.request["privacy"] == REQUEST["privacy"]
    assert not session.final
    assert client.session(session.id) == session


def test_every_problem_of_a_request_at_once(client: mq.Client, tmp_path: Path) -> None:
    before = len(client.sessions(limit=1000))
    (tmp_path / "client.toml").write_text('[request]\nattributes = ["age", "age"]\nbudget = -1\n')
    with pytest.raises(mq.ParameterError) as caught:
        client.request(tmp_path / "client.toml")
    assert len(caught.value.problems) == 3
    assert all(line.startswith(f"{tmp_path}/client.toml: request.") for line in caught.value.problems)
    with pytest.raises(mq.ParameterError) as caught:
        client.request(
            {"purpose": "research", "attributes": ["age", "jib", "jub"]}
        )  # the coordinator's own word
    assert len(caught.value.problems) == 2
    with pytest.raises(mq.ParameterError, match="no such file"):
        client.request(tmp_path / "nothing.toml")
    assert len(client.sessions(limit=1000)) == before


def test_sessions_page_after_page(client: mq.Client, api: LiveApi) -> None:
    made = [client.request(REQUEST).id for _ in range(5)]
    assert [each.id for each in client.sessions(limit=5)] == made[::-1]
    api.move(made[0], Status.CANCELLED)
    assert made[0] in [each.id for each in client.sessions(status="cancelled")]
    assert made[1] not in [each.id for each in client.sessions(status="cancelled")]
    with pytest.raises(mq.ParameterError):
        client.sessions(status="sleeping")
    with pytest.raises(mq.ParameterError, match="at least 1"):
        client.sessions(limit=0)
    with pytest.raises(mq.NotAllowed):
        client.sessions(everyone=True)


def test_events_are_seen_while_they_happen(client: mq.Client, api: LiveApi) -> None:
    session = client.request(REQUEST)
    seen = []
    for event in client.watch(session.id):
        seen.append((event.kind, event.status))
        if len(seen) == 1:  # each is told only after the one before was seen
            api.tell(session.id, "offer", {"party": "bank"})
        elif event.kind == "offer":
            api.move(session.id, Status.CANCELLED)
    assert seen == [("status", "requested"), ("offer", None), ("status", "cancelled")]
    assert [event.number for event in client.watch(session.id, after=2)] == [3]
    assert list(client.watch(session.id, after=3)) == []


def test_a_published_table_in_every_form(client: mq.Client, api: LiveApi, tmp_path: Path) -> None:
    session = client.request(REQUEST).id
    with pytest.raises(mq.NotFound):
        client.table(session)
    assert client.contract(session) is None
    api.publish(session)
    contract = client.contract(session)
    assert contract is not None
    assert contract["deal"]["user"] == "ana"
    assert client.offers(session) == ()
    heard: list[Event] = []
    assert client.wait(session, heard.append).published
    assert heard[-1].status == "published"
    table = client.table(session)
    assert table.to_pylist() == TABLE.to_pylist()
    release = client.download(session, tmp_path / "release.csv")
    assert (release.rows, release.summary["released"]) == (4, 4)
    assert pyarrow.csv.read_csv(tmp_path / "release.csv").num_rows == 4
    client.download(session, str(tmp_path / "release.parquet"))
    assert pyarrow.parquet.read_table(tmp_path / "release.parquet").to_pylist() == TABLE.to_pylist()
    assert client.report(session, tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == {"release.csv", "release.parquet", "report.html"}
    with pytest.raises(mq.ParameterError, match="cannot be written as"):
        client.download(session, tmp_path / "release.xlsx")
    with pytest.raises(mq.ParameterError, match="no folder"):
        client.report(session, tmp_path / "nowhere" / "report.html")


@pytest.mark.parametrize("name", ["release.csv", "release.parquet"])
def test_a_table_that_was_changed_is_not_taken(
    client: mq.Client, api: LiveApi, tmp_path: Path, name: str
) -> None:
    session = client.request(REQUEST).id
    api.publish(session)
    forged = TABLE.slice(1)
    api.new_release(session, forged)  # the files change, and what is stored of them does not
    with pytest.raises(mq.PeerBrokeProtocol, match="another table"):
        client.download(session, tmp_path / name)
    with pytest.raises(mq.PeerBrokeProtocol, match="another table"):
        client.table(session)
    assert list(tmp_path.iterdir()) == []


def test_another_users_session_is_none(client: mq.Client, api: LiveApi) -> None:
    api.coordinator.accounts.create("ben", PASSWORD)
    session = client.request(REQUEST).id
    api.publish(session)
    with mq.Client(api.url, user="ben", password=PASSWORD) as other:
        for call in (other.session, other.release, other.table, other.cancel, other.accept, other.offers):
            with pytest.raises(mq.NotFound):
                call(session)
        with pytest.raises(mq.NotFound):
            other.contract(session)
        with pytest.raises(mq.NotFound):
            next(other.watch(session))


def test_cancel_and_too_late(client: mq.Client) -> None:
    session = client.request(REQUEST).id
    assert client.cancel(session).status == "cancelled"
    with pytest.raises(mq.Conflict):
        client.cancel(session)
    with pytest.raises(mq.Conflict):
        client.accept(session)
    ended = client.wait(session)
    assert ended.problems
    assert "cancelled" in ended.problems[0]


def test_the_clients_word(client: mq.Client, api: LiveApi) -> None:
    one, two, three = (client.request(REQUEST).id for _ in range(3))
    for session in (one, two, three):
        api.hold(session)
        assert client.wait(session).status == "awaiting_client"
        with pytest.raises(mq.NotFound):
            client.release(session)
    assert client.accept(one).published
    assert client.withdraw(two).status == "cancelled"
    with pytest.raises(mq.ParameterError):
        client.relax(three, {"purpose": "another"})
    assert client.relax(three, {"attempts": 5}).request["attempts"] == 5
    # The old word is behind us: now only a new one counts.
    waiting = threading.Thread(target=api.publish, args=[three])
    waiting.start()
    assert client.wait(three).published
    waiting.join()


def test_what_a_session_waits_for_is_told(client: mq.Client, api: LiveApi) -> None:
    session = client.request(REQUEST).id
    api.tell(session, "approval", {"party": "shop", "reason": "of another time"})
    api.move(session, Status.NEGOTIATING)
    assert client.session(session).approvals == ()
    for party in ("bank", "shop", "bank"):
        api.tell(session, "approval", {"party": party, "reason": "a person has to look"})
    assert client.session(session).approvals == ("bank", "shop")
    api.hold(session)
    held = client.session(session)
    assert held.approvals == ()
    assert held.missed is not None
    assert (held.missed.error, held.missed.most_error) == (0.4, 0.1)
    assert client.accept(session).missed is None


@pytest.mark.parametrize("party", ["bank", ""])
def test_a_party_that_failed_the_session_is_an_error_of_its_own(
    client: mq.Client, api: LiveApi, party: str
) -> None:
    session = client.request(REQUEST).id
    cause = f"party {party or '?'}: nobody answers"
    api.move(session, Status.NEGOTIATING, Status.FAILED, cause=cause, reasons=[cause], failed_by=party)
    heard: list[Event] = []
    with pytest.raises(mq.PeerError) as caught:
        client.wait(session, heard.append)
    assert heard[-1].status == "failed"
    assert (caught.value.peer, caught.value.exit_code, caught.value.problems) == (party, 3, (cause,))
    assert str(caught.value) == cause
    assert getattr(caught.value, "session").id == session  # noqa: B009 # of a class that is not public

    async def awaited() -> None:
        async with mq.AsyncClient(api.url, api.token) as other:
            with pytest.raises(mq.PeerError) as caught:
                await other.wait(session)
            assert caught.value.peer == party

    asyncio.run(awaited())
    (listed,) = (each for each in client.sessions(limit=1000) if each.id == session)
    assert (listed.failed_by, listed.reasons) == (party, (cause,))


def test_other_ends_are_answers(client: mq.Client, api: LiveApi) -> None:
    session = client.request(REQUEST).id
    # An attempt failed because of a party, and the one after it for another reason.
    api.move(session, Status.NEGOTIATING, Status.AGREED, Status.QUEUED, Status.RUNNING)
    api.move(session, Status.QUEUED, cause="party bank: fell silent", failed_by="bank")
    api.move(session, Status.RUNNING, Status.FAILED, cause="the requirement cannot be reached")
    ended = client.wait(session)
    assert (ended.status, ended.failed_by) == ("failed", None)
    assert ended.problems == ("the requirement cannot be reached",)


def test_a_list_tells_as_much_as_each_session_and_costs_no_more(client: mq.Client, api: LiveApi) -> None:
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        asked.append(statement)

    def listed(count: int) -> tuple[list[Session], int]:
        asked.clear()
        sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", note)
        try:
            return client.sessions(limit=count), len(asked)
        finally:
            sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", note)

    def some() -> None:
        one, two, three, four = (client.request(REQUEST).id for _ in range(4))
        api.publish(one)
        api.move(two, Status.NEGOTIATING, Status.FAILED, cause="party bank: gone", failed_by="bank")
        api.hold(three)
        api.move(four, Status.NEGOTIATING)
        api.tell(four, "approval", {"party": "bank"})

    some()
    found, few = listed(4)
    assert [(each.status, each.rows) for each in found] == [
        ("negotiating", None),
        ("awaiting_client", None),
        ("failed", None),
        ("published", 4),
    ]
    assert found == [client.session(each.id) for each in found]
    for _ in range(3):
        some()
    found, many = listed(16)
    assert [each.rows for each in found] == [None, None, None, 4] * 4
    assert many == few


def test_rows_are_for_those_who_may_have_the_table(client: mq.Client, api: LiveApi) -> None:
    session = client.request(REQUEST).id
    api.publish(session)
    api.coordinator.accounts.create("root", PASSWORD, Role.ADMIN)
    with mq.Client(api.url, user="root", password=PASSWORD) as admin:
        (seen,) = (each for each in admin.sessions(everyone=True, limit=1000) if each.id == session)
        assert (seen.status, seen.rows) == ("published", None)
        assert admin.session(session).rows is None


def test_the_coordinators_word_on_a_file_names_file_and_key(client: mq.Client, tmp_path: Path) -> None:
    conf = tmp_path / "client.toml"
    conf.write_text(
        '[request]\npurpose = "research"\nattributes = ["age", "job"]\nrecipients = ["eve", "adam"]\n'
    )
    with pytest.raises(mq.ParameterError) as caught:
        client.request(conf)
    assert set(caught.value.problems) == {
        f'{conf}: request.recipients: there is no user "{name}"' for name in ("adam", "eve")
    }
    conf.write_text('[request]\npurpose = "research"\nattributes = ["age", "wealth"]\n')
    with pytest.raises(mq.ParameterError) as caught:
        client.request(str(conf))
    assert caught.value.problems[0].startswith(f'{conf}: request.attributes: no party offers "wealth"')
    assert client.preview(conf).problems == caught.value.problems
    conf.write_text('purpose = "research"\nattributes = ["age"]\n')  # a request alone, without its table
    (problem,) = client.preview(conf).problems
    assert problem.startswith(f"{conf}: attributes: all are bank's")


def test_signing_in_and_out(api: LiveApi) -> None:
    with mq.Client(api.url, user="ana", password=PASSWORD) as client:
        assert client.me().name == "ana"
        (token,) = [each for each in api.coordinator.accounts.tokens(api.user) if each.name == "sign-in"]
        api.coordinator.accounts.revoke(api.user, token.id)
        assert client.me().name == "ana"  # signed in again
        assert PASSWORD not in repr(client)
    tokens = [each for each in api.coordinator.accounts.tokens(api.user) if each.name == "sign-in"]
    assert len(tokens) == 2
    assert all(each.revoked for each in tokens)
    wrong = mq.Client(api.url, user="ana", password="not the password")
    with pytest.raises(mq.NotAllowed) as caught:
        wrong.me()
    assert "not the password" not in str(caught.value)
    wrong.close()
    with mq.Client(api.url, "mq_false") as false, pytest.raises(mq.NotAllowed, match="token is not valid"):
        false.providers()


def test_over_a_restart_of_the_coordinator(tmp_path: Path) -> None:
    with live_api(tmp_path / "api") as api, mq.Client(api.url, api.token) as client:
        session = client.request(REQUEST).id
        numbers: list[int] = []
        states: list[str | None] = []
        ended: list[object] = []

        def watch() -> None:
            for event in client.watch(session):
                numbers.append(event.number)
                states.append(event.status)
            ended.append(True)

        watching = threading.Thread(target=watch)
        watching.start()
        eventually(lambda: len(numbers) == 1)
        api.move(session, Status.NEGOTIATING)
        eventually(lambda: len(numbers) == 2)
        api.stop()
        api.start()
        api.move(session, *RUN[1:])
        eventually(lambda: len(numbers) == 5)
        api.stop()
        api.start()
        api.move(session, Status.FAILED, cause="bank: gone")
        watching.join(60)
        assert ended == [True]
        assert numbers == [1, 2, 3, 4, 5, 6]
        assert states[-1] == "failed"
        assert (
            client.wait(session).problems == ("bank: gone",) or client.session(session).cause == "bank: gone"
        )


def test_a_coordinator_that_stays_away(tmp_path: Path) -> None:
    with live_api(tmp_path / "api") as api, mq.Client(api.url, api.token) as client:
        session = client.request(REQUEST).id
        events = client.watch(session, patience=0.5)
        assert next(events).number == 1
        api.stop()
        with pytest.raises(mq.PeerUnreachable, match="coordinator"):
            next(events)
        with pytest.raises(mq.PeerUnreachable):
            next(client.watch(session))


def test_https_and_pins(tmp_path: Path) -> None:
    for name in ("web", "other"):
        self_signed(name).save(tmp_path / name)
    web = str(tmp_path / "web" / "identity.pem")
    https = (web, str(tmp_path / "web" / "key.pem"))
    with live_api(tmp_path / "api", https=https) as api:
        with mq.Client(api.url, api.token, ca=web) as client:
            assert client.me().name == "ana"
            session = client.request(REQUEST).id
            api.publish(session)
            assert client.wait(session).published
        for ca in (None, tmp_path / "other" / "identity.pem"):
            with (
                mq.Client(api.url, api.token, ca=ca) as client,
                pytest.raises(mq.PeerRefused, match="not trusted"),
            ):
                client.me()
        with (
            mq.Client(api.url.replace("https", "http"), api.token) as client,
            pytest.raises(mq.PeerUnreachable, match=r"hangs up without an answer; .* begins with https://"),
        ):
            client.me()
        with pytest.raises(mq.ParameterError, match="cannot be read"):
            mq.Client(api.url, api.token, ca=tmp_path / "nothing.pem")
        with pytest.raises(mq.ParameterError, match="not a certificate"):
            mq.Client(api.url, api.token, ca=tmp_path / "api" / "coordinator.toml")


def test_https_where_there_is_none(api: LiveApi) -> None:
    url = api.url.replace("http", "https")
    with mq.Client(url, api.token) as client, pytest.raises(mq.PeerError, match="TLS"):
        client.me()


def test_both_kinds_have_the_same_face() -> None:
    def face(kind: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(each).parameters) for name, each in methods if name[0] != "_"}

    assert face(mq.Client) == face(mq.AsyncClient)
    assert inspect.signature(mq.Client) == inspect.signature(mq.AsyncClient)


def test_everything_awaited(api: LiveApi, tmp_path: Path) -> None:
    async def course() -> None:
        async with mq.AsyncClient(api.url, user="ana", password=PASSWORD) as client:
            assert (await client.me()).name == "ana"
            assert len(await client.providers()) == 2
            assert (await client.preview(REQUEST)).problems == ()
            session = (await client.request(REQUEST)).id
            assert (await client.sessions(limit=1))[0].id == session
            assert (await client.session(session)).id == session
            assert await client.offers(session) == ()
            assert await client.contract(session) is None
            seen: list[str | None] = []

            async def watch() -> None:
                async for event in client.watch(session):
                    seen.append(event.status)

            watching = asyncio.create_task(watch())
            while not seen:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(api.hold, session)
            assert (await client.wait(session)).status == "awaiting_client"
            await client.accept(session)
            await asyncio.wait_for(watching, 60)
            assert seen[-2:] == ["awaiting_client", "published"]
            assert (await client.wait(session)).published
            assert (await client.release(session)).rows == 4
            assert (await client.table(session)).to_pylist() == TABLE.to_pylist()
            await client.download(session, tmp_path / "release.csv")
            await client.report(session, tmp_path / "report.html")
            other = (await client.request(REQUEST)).id
            await asyncio.to_thread(api.hold, other)
            assert (await client.relax(other, {"attempts": 4})).status == "negotiating"
            assert (await client.cancel(other)).status == "cancelled"
            third = (await client.request(REQUEST)).id
            await asyncio.to_thread(api.hold, third)
            assert (await client.withdraw(third)).status == "cancelled"
            with pytest.raises(mq.NotFound):
                await client.session("00" * 16)

    asyncio.run(course())
    assert {path.name for path in tmp_path.iterdir()} == {"release.csv", "report.html"}


def test_async_over_a_restart(tmp_path: Path) -> None:
    async def course() -> list[int]:
        async with mq.AsyncClient(api.url, api.token) as client:
            session = (await client.request(REQUEST)).id
            numbers = []
            async for event in client.watch(session):
                numbers.append(event.number)
                if len(numbers) == 1:
                    await asyncio.to_thread(api.stop)
                    await asyncio.to_thread(api.start)
                    await asyncio.to_thread(api.move, session, Status.NEGOTIATING, Status.CANCELLED)
            return numbers

    with live_api(tmp_path / "api") as api:
        assert asyncio.run(course()) == [1, 2, 3]
