"""Hospitals with real nodes publish together: from a request to a release that withstands coalitions."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from masquerade.errors import ParameterError
from masquerade.service import Coordinator, SessionRecord, Status
from service.commands import masquerade
from service.coordinators import dataset_of, signed_by_all, started
from service_hospitals import WARDS, Hospitals
from service_house import wait_until


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    policies = {
        "north": {"price": {"per_attribute": 100, "per_record": 2}},
        "south": {"least_k": 7},
        "west": {"least_m": 2, "methods": {"mondrian": {"third_party": ["secure"]}}},
    }
    yield from started(Hospitals(tmp_path_factory.mktemp("hospitals"), policies=policies))


def test_hospitals_publish_together_with_the_strictest_of_all(house: Hospitals, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    asked = coordinator.ask(ana, house.request())
    assert asked.providers == ("north", "south", "west")
    done = house.finished(coordinator, asked.id)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)

    rows = released(coordinator, done)
    assert len(rows) == 120 + 120 + 60  # every record, whoever has it
    assert list(rows[0]) == ["age", "ward", "disease", "survived"]  # as asked, the class last
    everybody = [record for party in house.parties for record in house.records(party)]
    for column in ("disease", "survived"):
        assert Counter(row[column] for row in rows) == Counter(record[column] for record in everybody)

    contract = signed_by_all(coordinator, ana, done.id)
    terms = contract["deal"]["terms"]
    assert terms["m"] == 2  # west's least, although one was asked for
    assert {part["k"] for part in terms["requirements"] if "k" in part} == {7}  # south's least
    assert set(contract["signatures"]) == set(house.parties)
    check(rows, everybody, k=7, values=2)

    summary = coordinator.summary(ana, done.id)
    assert (summary["kind"], summary["m"], summary["third_party"]) == ("horizontal", 2, "secure")
    assert "common_records" not in summary
    assert all(each["holds"] for each in summary["requirements"])
    assert 0 <= summary["quality"]["error"] < 0.5
    # 100 for each of age, ward, disease and survived, and 2 for each of 200 records (120, rounded up to hundreds).
    assert summary["cost"]["parties"] == {"north": 4 * 100 + 2 * 200, "south": 0, "west": 0}
    counters = [event for event in coordinator.events(ana, done.id) if event.kind == "counter"]
    assert counters[-1].data["requirements"][-1] == "all of it against any 2 colluding providers"
    progress = [event for event in coordinator.events(ana, done.id) if event.kind == "progress"]
    stages = {each["doing"] for event in progress for each in event.data["parties"].values()}
    assert not any("groups" in stage for stage in stages)
    assert "m-privacy" in coordinator.report(ana, done.id).read_text()


def test_a_part_of_the_hospitals_may_be_named(house: Hospitals, coordinator: Coordinator) -> None:
    done = publish(house, coordinator, parties=["south", "north"], m=1)
    assert done.providers == ("north", "south")
    assert len(released(coordinator, done)) == 240
    contract = signed_by_all(coordinator, house.user("ana"), done.id)
    assert contract["deal"]["terms"]["m"] == 1


def test_a_trusted_third_party_is_given_the_records_where_all_allow_it(
    house: Hospitals, coordinator: Coordinator
) -> None:
    done = publish(house, coordinator, parties=["north", "south"], algorithm={"third_party": "trusted"})
    rows = released(coordinator, done)
    assert len(rows) == 240
    check(rows, [*house.records("north"), *house.records("south")], k=7, values=2)
    refused = ended(house, coordinator, algorithm={"third_party": "trusted"})
    assert refused.status is Status.REFUSED
    assert coordinator.reasons(refused) == ('third_party "trusted" is not allowed; allowed: secure (west)',)


def test_what_nobody_can_withstand_fails_at_once(house: Hospitals, coordinator: Coordinator) -> None:
    failed = ended(house, coordinator, privacy=[k_of(500)])
    assert failed.status is Status.FAILED
    assert failed.attempts == 1
    assert failed.cause is not None
    # The texts of the agreement alone: k, and how many may collude.
    assert (
        "k = 500 cannot be reached: of all providers' records together some coalition of 2 providers leaves"
        in failed.cause
    )


OTHER_KIND = 'belongs to a vertical request; this one has kind = "horizontal"'


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"m": -1}, "m: must be a whole number from 0 to 1000: the number of providers that may collude; got -1"),
        ({"kind": "both"}, 'kind: must be one of "vertical", "horizontal"; got "both"'),
        ({"parties": ["north"]}, "parties: a horizontal session needs at least two; leave it out to ask all who can"),
        (
            {"parties": ["north", "nord"]},
            'parties: there is no provider "nord" (did you mean "north"?); there are north, south, west',
        ),
        ({"providers": {"age": "north"}}, f"providers: {OTHER_KIND}"),
        ({"algorithm": {"argmax": "plain"}}, "algorithm.argmax: belongs to tds; mondrian does without it"),
        ({"argmax": "plain"}, "argmax: belongs to [algorithm], as a key of tds"),
        (
            {"attributes": ["age", "warp"], "privacy": [], "class": None},
            'attributes: no party offers "warp" (did you mean "ward"?)',
        ),
        (
            {"privacy": [{"model": "m-privacy", "m": 1}]},
            "privacy[1]: m-privacy is no entry here; a horizontal request has m, and a policy least_m",
        ),
        ({"kind": "vertical"}, 'm: belongs to a horizontal request; this one has kind = "vertical"'),
    ],
)
def test_mistakes_are_told_before_anybody_is_asked(
    house: Hospitals, coordinator: Coordinator, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ParameterError) as told:
        coordinator.ask(house.user("ana"), house.request(**changes))
    assert f"request: {problem}" in told.value.lines


def test_a_model_that_cannot_be_tested_in_secret_is_refused(house: Hospitals, coordinator: Coordinator) -> None:
    wish = {"model": "t-closeness", "qid": ["age", "ward"], "sensitive": "disease", "t": 0.6}
    with pytest.raises(ParameterError) as told:
        coordinator.ask(house.user("ana"), house.request(privacy=[k_of(5), wish]))
    assert told.value.lines == (
        "request: privacy: t-closeness cannot be tested where nobody sees all counts; use one of k-anonymity, "
        "l-diversity, recursive-l-diversity, alpha-k-anonymity, confidence-bounding, p-sensitive-k-anonymity, "
        "constrained-k-anonymity, or m = 0, which leaves no "
        'coalition to be found, or third_party = "trusted" with choose = "certainty"',
    )
    done = publish(
        house, coordinator, privacy=[k_of(5), wish], algorithm={"third_party": "trusted"}, parties=["north", "south"]
    )
    requirements = coordinator.summary(house.user("ana"), done.id)["requirements"]
    assert {each["model"] for each in requirements} == {"m-privacy", "k-anonymity", "t-closeness"}
    assert all(each["holds"] for each in requirements)


def test_a_preview_says_who_would_publish_together(house: Hospitals, coordinator: Coordinator) -> None:
    seen = coordinator.preview(house.user("ana"), house.request(m=2))
    assert seen.problems == ()
    assert seen.parties == ("north", "south", "west")
    assert seen.contributors["disease"] == ("north", "south", "west")
    assert seen.requirement[-1] == "all of it against any 2 colluding providers"


def test_a_person_sees_what_leaves_before_it_is_signed(house: Hospitals, coordinator: Coordinator) -> None:
    ana = house.user("ana")

    house.write_node("south", needs_approval=True, purposes=["approval"])
    wait_until(lambda: dataset_of(coordinator, "south").purposes == ("approval",), "south publishes its new policy")
    try:
        asked = coordinator.ask(ana, house.request(privacy=[k_of(11)], purpose="approval"))
        wait_until(
            lambda: any(event.kind == "approval" for event in coordinator.events(ana, asked.id)), "south asks a person"
        )
        conf = str(house.folder / "south.toml")
        (waiting,) = json.loads(masquerade("party", "preview", conf, "--json"))["waiting"]
        assert waiting["columns"] == ["age", "ward", "disease"]
        shown = json.loads(masquerade("party", "preview", conf, waiting["deal"], "--json"))
        assert shown["kind"] == "horizontal"
        assert shown["protocol"]["m"] == "2"
        assert {each["name"]: each["form"] for each in shown["columns"]} == {
            "age": "generalised", "ward": "generalised", "disease": "as it is"
        }  # fmt: skip
        text = masquerade("party", "preview", conf, waiting["deal"])
        assert "for all of its complete records, published together" in text
        assert "identifiers, in any form" in text
        masquerade("party", "approve", conf, waiting["deal"])
        done = house.finished(coordinator, asked.id)
        assert (done.status, done.cause) == (Status.PUBLISHED, None)
    finally:
        house.write_node("south")
        wait_until(lambda: dataset_of(coordinator, "south").purposes == ("*",), "south publishes its old policy")


def test_boundaries_of_a_request_hold_for_all_hospitals(house: Hospitals, coordinator: Coordinator) -> None:
    """They are in the contract that all sign, and whoever cannot be released within them is counted."""
    limits = {"age": {"max_width": 16, "weight": 2}}
    done = publish(house, coordinator, boundaries=limits)
    rows = released(coordinator, done)
    summary = coordinator.summary(coordinator.store.users.get("ana"), done.id)
    assert summary["suppressed"] == 300 - len(rows)
    assert summary["metrics"]["violations"] == 0
    contract = signed_by_all(coordinator, house.user("ana"), done.id)
    assert contract["deal"]["terms"]["attributes"] == [{"name": "age", "max_width": "16", "weight": "2"}]
    for age in {row["age"] for row in rows}:
        low, high = (float(end) for end in age.strip("[)").split(", "))
        assert high - low <= 16, age


def publish(house: Hospitals, coordinator: Coordinator, **changes: Any) -> SessionRecord:
    done = ended(house, coordinator, **changes)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    return done


def ended(house: Hospitals, coordinator: Coordinator, **changes: Any) -> SessionRecord:
    asked = coordinator.ask(house.user("ana"), house.request(**changes))
    return house.finished(coordinator, asked.id)


def released(coordinator: Coordinator, session: SessionRecord) -> list[dict[str, str]]:
    table = coordinator.table(coordinator.store.users.get("ana"), session.id)
    return list(csv.DictReader(table.read_text().splitlines()))


def k_of(k: int) -> dict[str, Any]:
    return {"model": "k-anonymity", "qid": ["age", "ward"], "k": k}


def covers(row: dict[str, str], record: dict[str, str]) -> bool:
    """Whether a released row can be that of a record, cell by cell."""
    interval = re.fullmatch(r"\[(\S+), (\S+)\)", row["age"])
    age = float(interval[1]) <= int(record["age"]) < float(interval[2]) if interval else row["age"] == record["age"]
    ward = row["ward"] in (record["ward"], "Any ward") or record["ward"] in WARDS.get(row["ward"], ())
    return age and ward and row["disease"] == record["disease"] and row["survived"] == record["survived"]


def check(rows: list[dict[str, str]], records: list[dict[str, str]], *, k: int, values: int) -> None:
    """Counted here, against outsiders; test_coordinator_leakage.py, which knows the providers, counts coalitions."""
    assert all(any(covers(row, record) for row in rows) for record in records)
    groups = Counter((row["age"], row["ward"]) for row in rows)
    assert min(groups.values()) >= k
    for group in groups:
        assert len({row["disease"] for row in rows if (row["age"], row["ward"]) == group}) >= values
