"""How a session ends for a client: a table in every form, checked as it comes, or an error that says why."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

import masquerade as mq
from library.live_api import PASSWORD, REQUEST, TABLE, LiveApi
from masquerade.service import Event, Role, Status


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
    plain = (tmp_path / "release.csv").read_bytes()
    client.download(session, tmp_path / "release.csv", escape_formulas=True)  # of which it has none
    assert (tmp_path / "release.csv").read_bytes() == plain
    assert client.report(session, tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == {"release.csv", "release.parquet", "report.html"}
    with pytest.raises(mq.ParameterError, match="cannot be written as"):
        client.download(session, tmp_path / "release.xlsx")
    with pytest.raises(mq.ParameterError, match="no folder"):
        client.report(session, tmp_path / "nowhere" / "report.html")


@pytest.mark.parametrize("name", ["release.csv", "release.parquet"])
def test_a_table_that_was_changed_is_not_taken(client: mq.Client, api: LiveApi, tmp_path: Path, name: str) -> None:
    session = client.request(REQUEST).id
    api.publish(session)
    forged = TABLE.slice(1)
    api.new_release(session, forged)  # the files change, and what is stored of them does not
    with pytest.raises(mq.PeerBrokeProtocol, match="another table"):
        client.download(session, tmp_path / name)
    with pytest.raises(mq.PeerBrokeProtocol, match="another table"):
        client.table(session)
    assert list(tmp_path.iterdir()) == []


def test_rows_are_for_those_who_may_have_the_table(client: mq.Client, api: LiveApi) -> None:
    session = client.request(REQUEST).id
    api.publish(session)
    api.coordinator.accounts.create("root", PASSWORD, Role.ADMIN)
    with mq.Client(api.url, user="root", password=PASSWORD) as admin:
        (seen,) = (each for each in admin.sessions(everyone=True, limit=1000) if each.id == session)
        assert (seen.status, seen.rows) == ("published", None)
        assert admin.session(session).rows is None


@pytest.mark.parametrize("party", ["bank", ""])
def test_a_party_that_failed_the_session_is_an_error_of_its_own(client: mq.Client, api: LiveApi, party: str) -> None:
    session = client.request(REQUEST).id
    cause = f"party {party or '?'}: nobody answers"
    api.move(session, Status.NEGOTIATING, Status.FAILED, cause=cause, reasons=[cause], failed_by=party)
    heard: list[Event] = []
    with pytest.raises(mq.PeerError) as caught:
        client.wait(session, heard.append)
    assert heard[-1].status == "failed"
    assert (caught.value.peer, caught.value.exit_code, caught.value.lines) == (party, 3, (cause,))
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
