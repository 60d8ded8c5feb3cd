"""The coordinator with real nodes: from a request to a release, or to every reason why there is none."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from masquerade.audit import verify as verify_log
from masquerade.errors import Conflict, NotAllowed, NotFound, ParameterError
from masquerade.service import Coordinator, Status
from service.commands import masquerade
from service.coordinators import dataset_of, signed_by_all, started
from service_house import House, wait_until


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Three parties that let everybody ask, at a price; shared by all tests here."""
    prices = {
        "bank": {"price": {"per_attribute": 100, "per_record": 2}},
        "clinic": {"price": {"per_attribute": 10, "attributes": {"age": 7}}, "least_k": 3},
    }
    folder = tmp_path_factory.mktemp("house")
    yield from started(House(folder, ("bank", "clinic", "shop"), policies=prices))


def test_a_request_becomes_a_verified_release(house: House, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    asked = coordinator.ask(ana, house.request(show_progress=True, algorithm={"name": "tds"}))
    assert asked.status is Status.REQUESTED
    assert asked.providers == ("bank", "clinic")
    done = house.finished(coordinator, asked.id)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)

    release = coordinator.release(ana, done.id)
    table = coordinator.table(ana, done.id)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == release.rows == 160  # a tenth of 200 people is missing at each of the two
    assert list(rows[0]) == ["age", "job", "salary", "town", "income"]
    sizes = Counter((row["age"], row["job"]) for row in rows)
    assert min(sizes.values()) >= 4
    assert min(Counter((row["age"], row["town"]) for row in rows).values()) >= 3  # the clinic's own wish
    parquet = pyarrow.parquet.read_table(coordinator.table(ana, done.id, "parquet"))
    assert Counter(map(tuple, zip(*parquet.to_pydict().values(), strict=True))) == Counter(
        tuple(row.values()) for row in rows
    )

    summary = coordinator.summary(ana, done.id)
    assert summary["common_records"] == summary["released"] == 160
    assert all(each["holds"] for each in summary["requirements"])
    assert set(summary["bytes_sent"]) == set(summary["messages"]) == {"bank", "clinic"}
    assert all(sent > 0 for sent in [*summary["bytes_sent"].values(), *summary["messages"].values()])
    assert 0 <= summary["quality"]["error"] < 0.5
    assert summary["steps"]
    assert {"align", "protocol", "write", "report"} <= set(summary["seconds"])
    assert summary["seconds"]["write"] > 0
    assert summary["argmax"] == "secure"
    # 100 a column and 2 a record at the bank; 7 for age, 10 for town and 10 for the class at the clinic.
    charges = {"bank": 2 * 100 + 2 * 160, "clinic": 7 + 10 + 10}
    assert summary["cost"] == {"total": sum(charges.values()), "parties": charges}
    lines = [line for line in coordinator.ledger(ana) if line.session == done.id]
    assert {line.party: line.cents for line in lines} == charges
    assert "<html" in coordinator.report(ana, done.id).read_text()

    kinds = Counter(event.kind for event in coordinator.events(ana, done.id))
    assert kinds["counter"] >= 1
    assert kinds["offer"] == 2 * (kinds["counter"] + 1)
    assert kinds["contract"] == 1
    assert kinds["progress"] >= 1
    assert kinds["step"] == len(summary["steps"])
    assert kinds["quality"] == 1
    statuses = [event.data["to"] for event in coordinator.events(ana, done.id) if event.kind == "status"]
    held = ["awaiting_client"] if len(statuses) == 8 else []  # where so few people lose much
    way = ["requested", "negotiating", "agreed", "queued", "running", "assembling", *held, "published"]
    assert statuses == way
    offers = coordinator.offers(ana, done.id)
    assert [(each.party, each.round) for each in offers][:2] == [("bank", 1), ("clinic", 1)]
    contract = signed_by_all(coordinator, ana, done.id)
    assert set(contract["signatures"]) == {"bank", "clinic"}


def test_the_coordinators_audit_log_is_whole_and_holds_the_session(house: House, coordinator: Coordinator) -> None:
    ana, root = house.user("ana"), house.user("root", "admin")
    done = house.finished(coordinator, coordinator.ask(ana, house.request(attributes=["age", "job"])).id)
    assert done.status is Status.PUBLISHED
    certificate = house.settings().identity.certificate
    found = verify_log(house.settings().audit, certificates=[certificate])
    assert found.whole
    records = coordinator.audit_tail(root, 1000)
    messages = [
        each["fields"]
        for each in records
        if each["event"] == "message" and each["fields"]["session"] == done.contract_hash
    ]
    assert Counter((each["direction"], each["peer"], each["kind"]) for each in messages) == Counter(
        [
            (way, party, kind)
            for party in ("bank", "clinic")
            for way, kind in (("received", "columns"), ("sent", "received"))
        ]
    )
    with pytest.raises(NotAllowed):
        coordinator.audit_tail(ana, 10)


def test_steps_are_told_only_where_the_contract_grants_them(house: House, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    asked = coordinator.ask(ana, house.request(attributes=["age", "town", "job"]))
    done = house.finished(coordinator, asked.id)
    assert done.status is Status.PUBLISHED
    assert "steps" not in coordinator.summary(ana, done.id)
    assert "step" not in {event.kind for event in coordinator.events(ana, done.id)}


def test_the_same_terms_come_from_the_cache_and_are_charged_again(house: House, coordinator: Coordinator) -> None:
    ana, ben = house.user("ana"), house.user("ben")
    wish = house.request(attributes=["age", "salary"], privacy=[{"model": "k-anonymity", "qid": ["age"], "k": 9}])
    first = house.finished(coordinator, coordinator.ask(ana, wish).id)
    second = house.finished(coordinator, coordinator.ask(ben, wish).id)
    assert (first.status, second.status) == (Status.PUBLISHED, Status.PUBLISHED)
    assert first.terms_hash == second.terms_hash
    assert first.contract_hash != second.contract_hash
    assert coordinator.release(ben, second.id).sha256 == coordinator.release(ana, first.id).sha256
    statuses = [event.data for event in coordinator.events(ben, second.id) if event.kind == "status"]
    assert statuses[-1]["from"] == "agreed"
    assert statuses[-1]["cached"] is True
    assert coordinator.summary(ben, second.id)["cost"] == coordinator.summary(ana, first.id)["cost"]
    with pytest.raises(NotFound):  # it is served to whoever agreed to the terms, in a session of their own
        coordinator.release(ben, first.id)
    with pytest.raises(NotFound):
        coordinator.session(ben, first.id)


def test_a_refusal_lists_every_reason_of_every_party(house: House, coordinator: Coordinator) -> None:
    house.write_node("bank", purposes=["accounting"], methods={"tds": {"adversary": ["semi-honest"]}})
    house.write_node("shop", purposes=["marketing"], share_class=False)
    ana = house.user("ana")
    wish = house.request(
        attributes=["job", "colour"],
        algorithm={"adversary": "malicious"},
        privacy=[{"model": "k-anonymity", "qid": ["job", "colour"], "k": 3}],
    )
    del wish["class"]
    wait_until(lambda: dataset_of(coordinator, "bank").purposes == ("accounting",), "the bank publishes its new policy")
    wait_until(lambda: dataset_of(coordinator, "shop").purposes == ("marketing",), "the shop publishes its new policy")
    try:
        done = house.finished(coordinator, coordinator.ask(ana, wish).id)
        assert done.status is Status.REFUSED
        reasons = coordinator.reasons(done)
        assert [each.rpartition(" ")[2] for each in reasons] == ["(bank)", "(bank)", "(shop)"]
        assert 'purpose "research" is not allowed' in reasons[0]
        assert 'adversary "malicious" is not allowed' in reasons[1]
        assert 'purpose "research" is not allowed' in reasons[2]
        assert done.cause == "; ".join(reasons)
        refusals = {each.party: each.reasons for each in coordinator.offers(ana, done.id)}
        assert len(refusals["bank"]) == 2
        assert len(refusals["shop"]) == 1
    finally:
        house.write_node("bank")
        house.write_node("shop")
        wait_until(lambda: dataset_of(coordinator, "bank").purposes == ("*",), "the bank publishes its old policy")
        wait_until(lambda: dataset_of(coordinator, "shop").purposes == ("*",), "the shop publishes its old policy")


def test_a_budget_that_does_not_do_is_refused_with_every_price(house: House, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    done = house.finished(coordinator, coordinator.ask(ana, house.request(budget=5)).id)
    assert done.status is Status.REFUSED
    assert (done.cause or "").startswith("request: costs up to ")
    assert done.cause.endswith("; the budget is 5")
    assert coordinator.ledger(ana, session=done.id) == []


def test_what_no_data_can_satisfy_fails_at_once_and_is_not_tried_again(house: House, coordinator: Coordinator) -> None:
    ana = house.user("ana")

    def wish(k: int) -> dict[str, Any]:
        return house.request(privacy=[{"model": "k-anonymity", "qid": ["age", "job"], "k": k}])

    done = house.finished(coordinator, coordinator.ask(ana, wish(200)).id)
    assert (done.status, done.attempts) == (Status.FAILED, 1)
    part = "k-anonymity (k = 200) over age, job"
    assert done.cause == f"{part} cannot be reached: even the group of all common records violates it"
    # What the parties' numbers of records show is not even tried.
    done = house.finished(coordinator, coordinator.ask(ana, wish(201)).id)
    assert (done.status, done.attempts) == (Status.REFUSED, 0)
    assert done.cause == (
        "request: k-anonymity (k = 201) over age, job cannot be reached: "
        "bank has at most 200 records, and no more can be common"
    )


def test_a_missed_quality_waits_for_the_client(house: House, coordinator: Coordinator) -> None:
    ana, root = house.user("ana"), house.user("root", "admin")
    wish = house.request(
        most_error="0", attributes=["town", "job"], privacy=[{"model": "k-anonymity", "qid": ["town", "job"], "k": 20}]
    )
    accepted, withdrawn, relaxed, cancelled = (
        house.finished(coordinator, coordinator.ask(ana, wish).id) for _ in range(4)
    )
    for each in (accepted, withdrawn, relaxed, cancelled):
        assert each.status is Status.AWAITING_CLIENT
        with pytest.raises(NotFound):
            coordinator.release(ana, each.id)
        assert coordinator.ledger(ana, session=each.id) == []
    with pytest.raises(NotAllowed):
        coordinator.accept(root, accepted.id)
    quality = [event.data for event in coordinator.events(ana, accepted.id) if event.kind == "quality"]
    assert quality[0]["error"] > quality[0]["most_error"] == 0

    assert coordinator.accept(ana, accepted.id).status is Status.PUBLISHED
    assert coordinator.release(ana, accepted.id).rows > 0
    assert {line.party for line in coordinator.ledger(ana, session=accepted.id)} == {"bank", "clinic"}
    with pytest.raises(Conflict):
        coordinator.accept(ana, accepted.id)

    assert coordinator.withdraw(ana, withdrawn.id).status is Status.CANCELLED
    assert coordinator.cancel(ana, cancelled.id).status is Status.CANCELLED
    for each in (withdrawn, cancelled):
        with pytest.raises(NotFound):
            coordinator.release(ana, each.id)
        assert coordinator.ledger(ana, session=each.id) == []

    for bad, word in (({"purpose": "fun"}, "purpose"), ({"attributes": ["job"]}, "attributes"), ({"k": 1}, "k")):
        with pytest.raises(ParameterError, match=word):
            coordinator.relax(ana, relaxed.id, bad)
    with pytest.raises(
        ParameterError, match=r"most_error: the classification error of the table that is held is 0\.\d+, so 0"
    ):
        coordinator.relax(ana, relaxed.id, {"budget": wish.get("budget", 0)})
    refused = coordinator.relax(ana, relaxed.id, {"budget": 1})
    assert refused.status is Status.NEGOTIATING
    waiting = house.finished(coordinator, relaxed.id, Status.AWAITING_CLIENT)
    assert (waiting.request, "budget" in (waiting.cause or "")) == (relaxed.request, True)
    assert coordinator.summaries(ana, [waiting])[0].missed is not None
    coordinator.relax(ana, relaxed.id, {"attempts": 5})  # no other table comes of it
    waiting = house.finished(coordinator, relaxed.id, Status.AWAITING_CLIENT)
    assert "the parties insist on k-anonymity" in (waiting.cause or "")
    done = coordinator.relax(ana, relaxed.id, {"most_error": "0.9"})  # the table that is held meets it
    assert done.status is Status.PUBLISHED
    assert coordinator.release(ana, done.id).rows > 0
    assert done.request["most_error"] == "0.9"


def test_limits_without_a_class_are_judged_before_anything_is_charged(house: House, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    wish = {"class": None, "attributes": ["age", "job"], "most_ncp": 0, "most_query_error": 0}
    held = house.finished(coordinator, coordinator.ask(ana, house.request(**wish)).id)
    assert held.status is Status.AWAITING_CLIENT
    assert coordinator.ledger(ana, session=held.id) == []
    missed = coordinator.summaries(ana, [held])[0].missed
    assert missed is not None
    assert (missed.error, missed.most_error) == (None, None)
    assert missed.ncp is not None
    assert missed.query_error is not None
    assert (missed.ncp > 0, missed.query_error > 0) == (True, True)
    with pytest.raises(ParameterError) as caught:
        coordinator.relax(ana, held.id, {"most_ncp": missed.ncp})
    assert [problem.key for problem in caught.value.problems] == [("most_query_error",)]
    done = coordinator.relax(ana, held.id, {"most_ncp": missed.ncp, "most_query_error": missed.query_error + 0.01})
    assert done.status is Status.PUBLISHED
    summary = coordinator.summary(ana, done.id)
    assert {"ncp": missed.ncp, "query_error": missed.query_error}.items() <= summary["quality"].items()
    assert summary["query_error"]["over"] == "each party's own columns"


def test_each_party_notes_what_it_gained_and_nobody_else_is_told(house: House, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    done = house.finished(coordinator, coordinator.ask(ana, house.request()).id)
    assert done.status is Status.PUBLISHED
    for party in ("bank", "clinic"):
        log = house.folder / f"{party}-state" / "audit.jsonl"

        def gains(log: Path = log) -> list[dict[str, Any]]:
            records = [json.loads(line) for line in log.read_text().splitlines()]
            return [each["fields"] for each in records if each["event"] == "gain"]

        first = wait_until(gains, f"{party} has measured its gain")[0]
        assert float(first["gain"]) == pytest.approx(float(first["alone"]) - float(first["together"]))
    told = str(coordinator.summary(ana, done.id)) + str(coordinator.events(ana, done.id))
    assert "gain" not in told.replace("against", "").replace("information-gain", "")


def test_a_party_that_wants_a_person_to_look_is_waited_for(house: House, coordinator: Coordinator) -> None:
    ana, conf = house.user("ana"), str(house.folder / "shop.toml")

    def wish(k: int) -> dict[str, Any]:
        qid = ["job", "colour"]
        wanted = house.request(attributes=qid, privacy=[{"model": "k-anonymity", "qid": qid, "k": k}])
        del wanted["class"]
        return wanted

    def waits(session: str) -> bool:
        return "approval" in {event.kind for event in coordinator.events(ana, session)}

    house.write_node("shop", needs_approval=True, purposes=["research"])
    wait_until(lambda: dataset_of(coordinator, "shop").purposes == ("research",), "the shop publishes its new policy")
    try:
        asked, unwanted = coordinator.ask(ana, wish(6)), coordinator.ask(ana, wish(7))
        for each in (asked, unwanted):
            wait_until(lambda each=each: waits(each.id), "the shop waits for a person")  # type: ignore[misc]
            assert coordinator.session(ana, each.id).status is Status.NEGOTIATING
        waiting = json.loads(masquerade("party", "preview", conf, "--json"))["waiting"]
        shown = {
            each["deal"]: json.loads(masquerade("party", "preview", conf, each["deal"][:12], "--json"))
            for each in waiting
        }
        by_k = {
            k: deal
            for deal, told in shown.items()
            for k in (6, 7)
            if f"k-anonymity (k = {k}) over colour, job" in told["requirements"]
        }
        assert set(by_k) == {6, 7}
        told = shown[by_k[6]]
        assert (told["party"], told["user"], told["purpose"]) == ("shop", "ana", "research")
        assert [each["name"] for each in told["columns"]] == ["colour"]
        assert told["recipients"] == ["ana"]
        masquerade("party", "approve", conf, by_k[6], "--json")
        masquerade("party", "refuse", conf, by_k[7], "--reason", "ask the data office first", "--json")
        assert house.finished(coordinator, asked.id).status is Status.PUBLISHED
        done = house.finished(coordinator, unwanted.id)
        assert done.status is Status.REFUSED
        assert coordinator.reasons(done) == ("a person has refused it: ask the data office first (shop)",)
        assert coordinator.ledger(ana, session=unwanted.id) == []
        assert json.loads(masquerade("party", "preview", conf, "--json"))["waiting"] == []
    finally:
        house.write_node("shop")
        wait_until(lambda: dataset_of(coordinator, "shop").purposes == ("*",), "the shop publishes its old policy")


def test_recipients_get_the_release_and_admins_its_course(house: House, coordinator: Coordinator) -> None:
    ana, ben, eve = house.user("ana"), house.user("ben"), house.user("eve")
    root = house.user("root", "admin")
    wish = house.request(attributes=["age", "job", "salary"], recipients=["ana", "ben"])
    done = house.finished(coordinator, coordinator.ask(ana, wish).id)
    assert done.status is Status.PUBLISHED
    assert coordinator.table(ben, done.id).read_bytes() == coordinator.table(ana, done.id).read_bytes()
    assert coordinator.session(root, done.id).id == done.id
    assert coordinator.events(root, done.id)
    for stranger in (root, eve):
        for look in (coordinator.release, coordinator.table, coordinator.report, coordinator.summary):
            with pytest.raises(NotFound):
                look(stranger, done.id)
    with pytest.raises(NotFound):
        coordinator.events(eve, done.id)
    with pytest.raises(NotAllowed):
        coordinator.sessions(eve, everyone=True)
    assert done.id in {each.id for each in coordinator.sessions(root, everyone=True, limit=100)}
    assert coordinator.sessions(eve) == []
