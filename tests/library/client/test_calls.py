"""The client against a coordinator's real API: requests in every form, and sessions on their way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy.event

import masquerade as mq
from library.live_api import PASSWORD, REQUEST, LiveApi
from masquerade.net import self_signed
from masquerade.service import Coordinator, Session, Status, read_request


def test_who_and_what_there_is(client: mq.Client) -> None:
    me = client.me()
    assert (me.name, me.role) == ("ana", "analyst")
    assert me.now is not None
    assert abs((me.now - datetime.now(UTC)).total_seconds()) < 3600
    bank, shop = client.providers()
    assert (bank.party, shop.party, bank.reachable) == ("bank", "shop", True)
    (dataset,) = bank.datasets
    assert (dataset.dataset, dataset.names, dataset.identifier, dataset.records) == ("people", ("age",), "ssn", 1300)


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
    assert len(caught.value.lines) == 3
    assert all(line.startswith(f"{tmp_path}/client.toml: request.") for line in caught.value.lines)
    with pytest.raises(mq.ParameterError) as caught:
        client.request({"purpose": "research", "attributes": ["age", "jib", "jub"]})  # the coordinator's own word
    assert len(caught.value.lines) == 2
    with pytest.raises(mq.ParameterError, match="no such file"):
        client.request(tmp_path / "nothing.toml")
    assert len(client.sessions(limit=1000)) == before


def test_the_coordinators_word_on_a_file_names_file_and_key(client: mq.Client, tmp_path: Path) -> None:
    conf = tmp_path / "client.toml"
    conf.write_text('[request]\npurpose = "research"\nattributes = ["age", "job"]\nrecipients = ["eve", "adam"]\n')
    with pytest.raises(mq.ParameterError) as caught:
        client.request(conf)
    assert set(caught.value.lines) == {
        f'{conf}: request.recipients: there is no user "{name}"' for name in ("adam", "eve")
    }
    conf.write_text('[request]\npurpose = "research"\nattributes = ["age", "wealth"]\n')
    with pytest.raises(mq.ParameterError) as caught:
        client.request(str(conf))
    assert caught.value.lines[0].startswith(f'{conf}: request.attributes: no party offers "wealth"')
    assert client.preview(conf).problems == caught.value.lines
    conf.write_text('purpose = "research"\nattributes = ["age"]\n')  # a request alone, without its table
    (problem,) = client.preview(conf).problems
    assert problem.startswith(f"{conf}: attributes: all are bank's")


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


def test_a_list_tells_as_much_as_each_session_and_costs_no_more(
    client: mq.Client, api: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    listing: set[int] = set()  # threads that look sessions up; others work on sessions meanwhile

    def watched(look_up: Callable[..., Any]) -> Callable[..., Any]:
        def looked_up(*arguments: Any, **options: Any) -> Any:
            listing.add(threading.get_ident())
            try:
                return look_up(*arguments, **options)
            finally:
                listing.discard(threading.get_ident())

        return looked_up

    monkeypatch.setattr(Coordinator, "sessions", watched(Coordinator.sessions))
    monkeypatch.setattr(Coordinator, "summaries", watched(Coordinator.summaries))

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if threading.get_ident() in listing:
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
    assert many == few > 0


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


def test_a_client_with_a_key_signs_what_it_asks(api: LiveApi, tmp_path: Path) -> None:
    ana = self_signed("ana")
    ana.save(tmp_path / "identity")
    with mq.Client(api.url, api.token, identity=tmp_path / "identity") as client:
        asked = read_request(client.request(REQUEST).request)
        assert asked.signed is not None
        assert asked.signed.problem(ana.certificate, asked.signed.time) is None
        assert asked.signed.request["user"] == "ana"
        held = client.request(REQUEST)
        api.hold(held.id)
        relaxed = read_request(client.relax(held.id, {"attempts": 5}).request)
        assert relaxed.signed is not None
        assert relaxed.signed.request["attempts"] == 5
        assert relaxed.signed.nonce != asked.signed.nonce
