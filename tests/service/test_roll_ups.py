"""A further request about tables that were released before is answered from the earlier release, or refused."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from masquerade.cli.client import ROLLED_UP, lines_of, written_lines
from masquerade.console.session_parts import kind_facts
from masquerade.service import Coordinator, Ledger, SessionRecord, Status, described, preview
from masquerade.service.agree.negotiation import Refused, negotiate
from masquerade.service.agree.terms import Refusal
from masquerade.service.coordinator.session_moves import contract_of
from service.coordinators import signed_by_all, started
from service.parties import BANK, offer, policy, request
from service_hospitals import Hospitals
from service_house import House

STRICT = {"allow_rerelease": False}
FIRST = {"attributes": ["age", "job", "salary", "town", "disease"], "show_progress": True}


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    policies = {
        "bank": {**STRICT, "price": {"per_attribute": 100}},
        "clinic": {**STRICT, "purposes": ["research", "teaching"]},
    }
    yield from started(House(tmp_path_factory.mktemp("house"), policies=policies))


@pytest.fixture
def coordinator(house: House) -> Iterator[Coordinator]:
    with house.coordinator() as coordinator:
        house.known(coordinator, house.user("ana"))
        yield coordinator


def asked(house: House, coordinator: Coordinator, user: str = "ana", **wish: Any) -> SessionRecord:
    return house.finished(coordinator, coordinator.ask(house.user(user), house.request(**wish)).id)


def k(number: int, *qid: str) -> list[dict[str, Any]]:
    return [{"model": "k-anonymity", "qid": list(qid), "k": number}]


def rows(coordinator: Coordinator, house: House, session: SessionRecord, user: str = "ana") -> list[dict[str, str]]:
    return list(csv.DictReader(coordinator.table(house.user(user), session.id).read_text().splitlines()))


def ledger(house: House, party: str) -> Ledger:
    return Ledger.load(house.folder / f"{party}-state" / "ledger.jsonl")


def test_a_larger_k_and_fewer_columns_are_rolled_up(house: House, coordinator: Coordinator) -> None:
    first = asked(house, coordinator, **FIRST)
    assert (first.status, first.cause) == (Status.PUBLISHED, None)
    wish = {"attributes": ["disease", "job", "age"], "privacy": k(30, "age", "job")}
    second = asked(house, coordinator, "ben", **wish)  # another analyst, who has not seen the first
    assert (second.status, second.cause) == (Status.PUBLISHED, None)

    ben = house.user("ben")
    table = rows(coordinator, house, second, "ben")
    assert list(table[0]) == ["disease", "job", "age", "income"]
    assert len(table) == 160
    assert min(Counter((row["age"], row["job"]) for row in table).values()) >= 30
    earlier = rows(coordinator, house, first)
    for name in ("disease", "income"):
        assert Counter(row[name] for row in table) == Counter(row[name] for row in earlier)

    (session,) = coordinator.summaries(ben, [second])
    summary = coordinator.summary(ben, second.id)
    assert session.rolled_up_from == summary["rolled_up_from"] == first.terms_hash
    assert all(each["holds"] for each in summary["requirements"])
    assert summary["messages"] == {}
    assert summary["cost"]["parties"] == {"bank": 100, "clinic": 0}
    report = coordinator.report(ben, second.id).read_text()
    assert "rolled" in report
    played = {each["name"]: each for each in summary["attacks"]}
    assert played["prosecutor"]["value"] <= 1 / 30
    assert all(each["meaning"] and each["records"] == [] for each in played.values())
    assert "What could still go wrong" in report

    contract = signed_by_all(coordinator, ben, second.id)
    assert contract["deal"]["terms"]["source"] == first.terms_hash
    assert set(contract["signatures"]) == {"bank", "clinic"}
    for party in house.parties:
        lines = ledger(house, party).records
        assert [each.terms.source for each in lines] == [None, first.terms_hash]
        assert lines[1].recipients == ("ben",)

    assert "  rolled up from an earlier release of the same tables" in "\n".join(lines_of(session))
    assert written_lines(second.id, {"product": "table", "rows": 160, **summary})[1:2] == [ROLLED_UP]
    assert any("rolled up" in str(fact) for _, fact in kind_facts(second))
    assert "roll_up" in {event.kind for event in coordinator.events(ben, second.id)}
    seen = preview(contract_of(second), "bank")
    assert seen.rolled_up_from == first.terms_hash
    assert any("nothing leaves this machine anew" in line for line in described(seen))

    again = asked(house, coordinator, "ben", **wish)
    assert coordinator.summaries(ben, [again])[0].cached


def test_a_roll_up_names_the_method_of_the_earlier_release(house: House, coordinator: Coordinator) -> None:
    first = asked(house, coordinator, **FIRST, algorithm={"name": "tds"})
    assert (first.status, first.cause) == (Status.PUBLISHED, None)
    second = asked(house, coordinator, privacy=k(30, "age", "job"))  # names no method
    ana = house.user("ana")
    earlier, summary = (coordinator.summary(ana, each.id) for each in (first, second))
    assert summary["rolled_up_from"] == first.terms_hash
    assert summary["algorithm"] == earlier["algorithm"]
    assert earlier["algorithm"]["name"] == "tds"
    assert summary["merged_by"]["name"] in ("mondrian", "tds")
    (session,) = coordinator.summaries(ana, [second])
    assert session.algorithm is None  # no method is run for it
    assert "method: " not in "\n".join(lines_of(session))


def test_two_roll_ups_do_not_refuse_each_other(house: House, coordinator: Coordinator) -> None:
    first = asked(house, coordinator, **FIRST)
    for number, qid in ((10, ("age", "job")), (40, ("salary", "town")), (7, ("age", "job"))):
        done = asked(house, coordinator, privacy=k(number, *qid))
        assert (done.status, done.cause) == (Status.PUBLISHED, None)
        assert coordinator.summary(house.user("ana"), done.id)["rolled_up_from"] == first.terms_hash


def test_policies_are_asked_as_ever(house: House, coordinator: Coordinator) -> None:
    assert asked(house, coordinator, **FIRST).status is Status.PUBLISHED
    refused = asked(house, coordinator, purpose="marketing", privacy=k(30, "age", "job"))
    assert refused.status is Status.REFUSED
    assert 'purpose "marketing" is not allowed' in (refused.cause or "")
    taught = asked(house, coordinator, purpose="teaching", privacy=k(30, "age", "job"))
    assert taught.status is Status.PUBLISHED


def test_what_does_not_follow_from_the_first_is_refused(house: House, coordinator: Coordinator) -> None:
    assert asked(house, coordinator, attributes=["age", "job", "town"]).status is Status.PUBLISHED
    refused = asked(house, coordinator, attributes=["age", "job", "salary", "town"])
    assert refused.status is Status.REFUSED
    assert "could be combined with it" in (refused.cause or "")
    assert all(len(ledger(house, party).records) == 1 for party in house.parties)


def test_a_release_that_is_gone_cannot_be_rolled_up(house: House, coordinator: Coordinator) -> None:
    first = asked(house, coordinator, **FIRST)
    coordinator.files.remove(coordinator.store.releases.of(first.id).table_path)
    refused = asked(house, coordinator, privacy=k(30, "age", "job"), attributes=["age", "job"])
    assert refused.status is Status.REFUSED
    told = coordinator.summaries(house.user("ana"), [refused])[0].reasons
    assert any("ask for its columns and its requirement once more, and then for this" in each for each in told)
    assert asked(house, coordinator, **FIRST).status is Status.PUBLISHED  # made anew, of the same terms
    done = asked(house, coordinator, privacy=k(30, "age", "job"), attributes=["age", "job"])
    assert done.status is Status.PUBLISHED


def test_a_requirement_that_merging_does_not_reach_fails(house: House, coordinator: Coordinator) -> None:
    assert asked(house, coordinator, **FIRST).status is Status.PUBLISHED
    failed = asked(house, coordinator, privacy=k(170, "age", "job"))
    assert failed.status is Status.FAILED
    assert "even the group of all records has 160 records" in (failed.cause or "")


def test_the_trees_that_the_specializations_told_are_used(house: House, coordinator: Coordinator) -> None:
    """Values below one node become that node, where the contract let the coordinator see it."""
    first = asked(house, coordinator, **FIRST)
    second = asked(house, coordinator, privacy=k(100, "age", "job", "salary", "town"), show_progress=True)
    assert (second.status, second.cause) == (Status.PUBLISHED, None)
    old, new = (rows(coordinator, house, each) for each in (first, second))
    assert {row["job"] for row in new} <= {row["job"] for row in old} | {"*"}


@pytest.mark.parametrize(
    ("bank", "clinic", "found"),
    [
        (None, "aa", "aa"),  # the bank allows any further release
        ("aa", "aa", "aa"),
        ("aa", "bb", None),  # of no release have both a part
        ("aa", None, None),
    ],
)
def test_all_that_is_against_a_request_must_be_one_earlier_release(
    bank: str | None, clinic: str | None, found: str | None
) -> None:
    wish = request()
    offers = offer(policy(), wish, BANK)
    first = Refusal("bank", ("released before",), earlier=bank) if bank is not None else offers
    ended = negotiate(wish, [first, Refusal("clinic", ("no",), earlier=clinic)])
    assert isinstance(ended, Refused)
    assert ended.earlier == found


def test_hospitals_roll_up_what_coalitions_cannot_undo(tmp_path: Any) -> None:
    policies = dict.fromkeys(("north", "south", "west"), STRICT)
    with Hospitals(tmp_path, policies=policies) as house:
        house.start_nodes()
        with house.coordinator() as coordinator:
            house.known(coordinator, house.user("ana"))
            first = asked(house, coordinator)
            assert (first.status, first.cause) == (Status.PUBLISHED, None)
            fewer = asked(house, coordinator, attributes=["age", "disease"], privacy=k(5, "age"))
            assert (fewer.status, fewer.cause) == (Status.PUBLISHED, None)
            old, new = (rows(coordinator, house, each) for each in (first, fewer))
            assert Counter(row["age"] for row in new) == Counter(row["age"] for row in old)
            assert coordinator.summary(house.user("ana"), fewer.id)["m"] == 1
            larger = asked(house, coordinator, privacy=k(20, "age", "ward"))
            assert (larger.status, larger.cause) == (Status.PUBLISHED, None)
            summary = coordinator.summary(house.user("ana"), larger.id)
            (certain,) = [each for each in summary["requirements"] if each["model"].endswith("providers")]
            assert certain["holds"]
            assert certain["value"] >= 20
            assert set(rows(coordinator, house, larger)[0]) == {"age", "ward", "disease", "survived"}
            diverse = [{"model": "l-diversity", "qid": ["age", "ward"], "sensitive": "disease", "l": 3}]
            failed = asked(house, coordinator, privacy=diverse)
            assert failed.status is Status.FAILED
            assert "does not tell who provided which record" in (failed.cause or "")
