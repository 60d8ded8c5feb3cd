"""Hospitals with real nodes learn a model: asked for, granted by name, signed, learned, kept and downloaded."""

from __future__ import annotations

import json
import random
import re
import stat
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from masquerade.cli.client import lines_of
from masquerade.errors import NotFound, ParameterError
from masquerade.jobs import predict
from masquerade.service import Coordinator, SessionRecord, SignedContract, Status, described, preview
from masquerade.service.coordinator.coordinator import summaries
from service.coordinators import signed_by_all, started
from service_hospitals import Hospitals
from service_house import write

LEARNS = {"learn": {"methods": ["logistic", "id3", "cox", "pp-cox"], "models": 100}}
SURVIVAL = {"class": None, "duration": "months", "event": "died"}


class Survivals(Hospitals):
    """Hospitals that also know how long they followed each patient, and not everybody's weight."""

    def write_table(self, party: str, people: int | None = None, *, change: str = "") -> None:
        super().write_table(party, people, change=change)
        rng = random.Random(party)
        header, *lines = (self.folder / f"{party}.csv").read_text().splitlines()
        told = []
        for line in lines:
            months = round(rng.expovariate(float(line.split(",")[1]) / 500), 1) + 1
            weight = "" if rng.random() < 0.2 else str(rng.randint(45, 110))
            told.append(f"{line},{months},{rng.choice(['yes', 'yes', 'no'])},{weight}")
        write(self.folder / f"{party}.csv", "\n".join([f"{header},months,died,weight", *told]) + "\n")

    def columns(self, party: str) -> str:
        usual = super().columns(party)
        return f"""{usual}
duration = "months"
event = "died"
missing = "mean"
attributes.weight = {{ type = "continuous" }}"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    policies: dict[str, Any] = {
        "north": {**LEARNS, "price": {"per_attribute": 100, "per_record": 0}},
        "south": {**LEARNS, "tables": False},
        "west": {"learn": {"methods": ["*"], "models": 100}},
    }
    yield from started(Survivals(tmp_path_factory.mktemp("hospitals"), policies=policies, people=100))


def asked(house: Hospitals, **changes: Any) -> dict[str, Any]:
    usual = {"attributes": ["age", "cost", "ward"], "algorithm": {"name": "logistic"}}
    request = house.request(**{**usual, **changes})
    return {key: each for key, each in request.items() if each is not None and key not in ("privacy", "m")}


def learned(house: Hospitals, coordinator: Coordinator, **changes: Any) -> SessionRecord:
    session = coordinator.ask(house.user("ana"), asked(house, **changes))
    return house.finished(coordinator, session.id)


def test_hospitals_learn_the_model_of_all_their_records(house: Hospitals, coordinator: Coordinator) -> None:
    done = learned(house, coordinator)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    ana = house.user("ana")
    model = json.loads(coordinator.table(ana, done.id, "json").read_text())
    everybody = [record for party in house.parties for record in house.records(party)]
    assert model["records"] == len(everybody)
    assert set(model["coefficients"]) == {"age", "cost", "ward"}
    check_gradient(model, everybody)

    contract = signed_by_all(coordinator, ana, done.id)
    deal = contract["deal"]
    assert deal["terms"]["method"]["name"] == "logistic"
    assert deal["terms"]["requirements"] == []
    assert deal["recipients"] == ["ana"]
    assert set(contract["signatures"]) == set(house.parties)
    summary = coordinator.summary(ana, done.id)
    (told,) = summaries(coordinator.store, ana.name, [done])
    lines = lines_of(told)
    assert f"  a model of {len(everybody):,} records" in lines
    assert not [line for line in lines if "to be published together" in line]
    assert "quality" not in {event.kind for event in coordinator.events(ana, done.id)}
    assert summary["metrics"]["auc"] > 0.5
    assert summary["kind"] == "horizontal"
    assert "m" not in summary
    assert summary["cost"]["parties"] == {"north": 4 * 100, "south": 0, "west": 0}
    assert "ROC curve" in coordinator.report(ana, done.id).read_text()
    with pytest.raises(NotFound, match="a model, which is there as json"):
        coordinator.table(ana, done.id, "csv")


def test_hospitals_learn_how_long_people_live(house: Hospitals, coordinator: Coordinator) -> None:
    import pandas as pd
    from lifelines import CoxPHFitter

    done = learned(house, coordinator, attributes=["age", "cost"], algorithm={"name": "cox"}, **SURVIVAL)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    ana = house.user("ana")
    model = json.loads(coordinator.table(ana, done.id, "json").read_text())
    everybody = [record for party in house.parties for record in house.records(party)]
    pooled = pd.DataFrame(
        {
            **{name: [float(each[name]) for each in everybody] for name in ("age", "cost")},
            "months": [float(each["months"]) for each in everybody],
            "died": [each["died"] == "yes" for each in everybody],
        }
    )
    whole = CoxPHFitter().fit(pooled, "months", "died").params_
    assert model["coefficients"]["age"] == pytest.approx(whole["age"], abs=1e-4)
    assert model["roles"] == {"duration": "months", "event": "died"}
    summary = coordinator.summary(ana, done.id)
    assert summary["curves"]["survival"]
    assert "Survival curves" in coordinator.report(ana, done.id).read_text()

    contract = signed_by_all(coordinator, ana, done.id)
    roles = {each["name"]: each["role"] for each in contract["deal"]["terms"]["columns"]}
    assert roles == {"age": "attribute", "cost": "attribute", "months": "duration", "died": "event"}


def test_a_model_of_mapped_records_is_learned_through_the_coordinator(
    house: Hospitals, coordinator: Coordinator
) -> None:
    done = learned(house, coordinator, attributes=["age", "cost"], algorithm={"name": "pp-cox"}, **SURVIVAL)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    summary = coordinator.summary(house.user("ana"), done.id)
    assert 0 < summary["metrics"]["concordance"] < 1

    model = coordinator.table(house.user("ana"), done.id, "json")
    session = json.loads(model.read_text())["session"]
    kept = sorted(house.folder.rglob(f"site-keys/{session}.json"))
    assert len(kept) == len(house.parties)
    assert {stat.S_IMODE(each.stat().st_mode) for each in kept} == {0o600}
    said = [predict(model, house.folder / "north.csv", site_key=each, times=[12]).table for each in kept]
    assert all(each.equals(said[0]) for each in said)
    shares = np.array(said[0]["survival_12"].to_pylist())
    assert shares.min() > 0
    assert shares.max() < 1
    matrix = json.loads(kept[0].read_text())["matrix"][0][0]
    others = [path for path in house.folder.rglob("*") if path.is_file() and path not in kept]
    assert not [path for path in others if str(matrix).encode() in path.read_bytes()]


def test_missing_numbers_are_filled_in_for_models_and_left_out_of_tables(
    house: Hospitals, coordinator: Coordinator
) -> None:
    done = learned(house, coordinator, attributes=["age", "weight"])
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    model = json.loads(coordinator.table(house.user("ana"), done.id, "json").read_text())
    everybody = [record for party in house.parties for record in house.records(party)]
    assert any(not each["weight"] for each in everybody)
    assert model["records"] == len(everybody)
    known = [float(each["weight"]) for each in everybody if each["weight"]]
    mean = sum(known) / len(known)
    scores = np.array(
        [
            model["intercept"]
            + model["coefficients"]["age"] * float(each["age"])
            + model["coefficients"]["weight"] * float(each["weight"] or mean)
            for each in everybody
        ]
    )
    had = np.array([each["survived"] == model["classes"][1] for each in everybody])
    assert abs((had - 1 / (1 + np.exp(-scores))).sum()) < 1e-3  # the likelihood's gradient


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"duration": None}, "duration: missing; cox needs the column of the duration"),
        ({"class": "survived"}, "class: cox has no use for it"),
        ({"algorithm": {"name": "logistic"}}, "duration: logistic has no use for it"),
        ({"duration": "ward"}, 'duration: "ward" of north is categorical; a duration is a number'),
        ({"duration": "weeks"}, 'duration: no party offers "weeks"'),
        ({"duration": "died"}, "event: names the column of another role too"),
        ({"attributes": ["age", "months"]}, 'duration: "months" is among the attributes too'),
        ({"attributes": ["age", "disease"]}, '"disease" of north is declared as sensitive; a model takes'),
        ({"most_ncp": 0.5}, "most_ncp: belongs to requests for tables; cox learns a model"),
    ],
)
def test_what_no_model_of_survival_can_have_is_refused(
    house: Hospitals, coordinator: Coordinator, changes: dict[str, Any], said: str
) -> None:
    wanted = {"attributes": ["age"], "algorithm": {"name": "cox"}, **SURVIVAL, **changes}
    with pytest.raises(ParameterError, match=re.escape(said)):
        coordinator.ask(house.user("ana"), asked(house, **wanted))


def test_durations_and_events_are_for_models_alone(house: Hospitals, coordinator: Coordinator) -> None:
    wanted = house.request(attributes=["age", "ward", "disease", "months"])
    with pytest.raises(ParameterError, match='"months" of north is the duration of models of survival'):
        coordinator.ask(house.user("ana"), wanted)


def test_a_steward_reads_what_a_model_shows_before_signing(house: Hospitals, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    written = coordinator.contract(ana, learned(house, coordinator).id)
    made = preview(SignedContract.read(json.dumps(written).encode()), "north")
    assert made.columns == ()
    assert any("at every step loss, gradient and Hessian" in line for line in made.peers_learn)
    text = "\n".join(described(made))
    assert "no record is released: the parties learn a model" in text
    assert "the release goes to ana" in text


def check_gradient(model: dict[str, Any], records: list[dict[str, str]]) -> None:
    """At the coefficients of the pooled records the likelihood's gradient is 0."""
    scores = np.array(
        [
            model["intercept"]
            + model["coefficients"]["age"] * float(each["age"])
            + model["coefficients"]["cost"] * float(each["cost"])
            + model["coefficients"]["ward"][each["ward"]]
            for each in records
        ]
    )
    had = np.array([each["survived"] == model["classes"][1] for each in records])
    left = had - 1 / (1 + np.exp(-scores))
    assert abs(left.sum()) < 1e-3
    assert abs(left @ np.array([float(each["age"]) for each in records])) < 0.1


def test_the_same_model_again_comes_from_the_cache(house: Hospitals, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    first, again = learned(house, coordinator), learned(house, coordinator)
    assert again.id != first.id
    files = [coordinator.table(ana, each.id, "json").read_bytes() for each in (first, again)]
    assert files[0] == files[1]


def test_another_model_does_not_stand_in_the_way_of_a_table_nor_of_a_model(
    house: Hospitals, coordinator: Coordinator
) -> None:
    two = ["north", "west"]
    assert learned(house, coordinator, parties=two).status is Status.PUBLISHED
    tables = coordinator.ask(house.user("ana"), house.request(parties=two))
    assert house.finished(coordinator, tables.id).status is Status.PUBLISHED


def test_a_policy_grants_models_by_name_and_may_refuse_tables(house: Hospitals, coordinator: Coordinator) -> None:
    done = learned(house, coordinator, algorithm={"name": "svm"})
    assert done.status is Status.REFUSED
    assert 'models by "svm" are not allowed; allowed: logistic, id3, cox, pp-cox' in str(done.cause)
    tables = coordinator.ask(house.user("ana"), house.request())
    refused = house.finished(coordinator, tables.id)
    assert refused.status is Status.REFUSED
    assert "tables are not published; models that may be learned: logistic, id3, cox, pp-cox" in str(refused.cause)


def test_only_the_columns_of_a_model_must_fit_it(house: Hospitals, coordinator: Coordinator) -> None:
    """A tree counts values, and the hospitals also have numbers without intervals."""
    done = learned(house, coordinator, attributes=["ward"], algorithm={"name": "id3"})
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    refused = learned(house, coordinator, attributes=["ward", "age"], algorithm={"name": "id3"})
    assert refused.status is Status.REFUSED
    assert '"age": id3 counts values: give a taxonomy of intervals' in str(refused.cause)
    assert '"cost"' not in str(refused.cause)


def test_too_few_people_for_a_model_end_the_session_and_no_figure_is_told(
    house: Hospitals, coordinator: Coordinator
) -> None:
    done = learned(house, coordinator, attributes=["ward"], algorithm={"name": "id3", "min_records": 500})
    assert done.status is Status.FAILED
    assert "a model rests on at least 500 records (min_records), and there are fewer" in str(done.cause)


def test_what_a_model_cannot_have_is_refused_when_it_is_asked_for(house: Hospitals, coordinator: Coordinator) -> None:
    ana = house.user("ana")
    with pytest.raises(ParameterError, match="class: missing; logistic needs the column of the class"):
        coordinator.ask(ana, {key: value for key, value in asked(house).items() if key != "class"})
    privacy = [{"model": "k-anonymity", "qid": ["age"], "k": 5}]
    with pytest.raises(ParameterError, match="learns a model, of which k-anonymity says nothing"):
        coordinator.ask(ana, {**asked(house), "privacy": privacy})


def test_every_node_keeps_the_model_in_its_ledger_and_log(house: Hospitals, coordinator: Coordinator) -> None:
    learned(house, coordinator)
    for party in house.parties:
        text = "".join(
            path.read_text(errors="ignore")
            for path in house.folder.rglob("*")
            if path.is_file() and party in str(path) and "ledger" in path.name
        )
        assert "logistic" in text
