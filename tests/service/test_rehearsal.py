"""A preview says what the parties' policies and ledgers would answer, and no more than the request would be told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import masquerade as mq
from masquerade.service import Coordinator, Ledger, RequestPreview, Status
from masquerade.service.agree.answering import answer
from masquerade.service.agree.terms import Refusal
from masquerade.service.coordinator import rehearsal
from masquerade.service.coordinator.rehearsal import less
from service.coordinators import started
from service.parties import BANK, NOW, policy, request
from service_house import House

STRICT = {"allow_rerelease": False}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    policies = {"bank": {**STRICT, "purposes": ["research"]}, "clinic": {**STRICT, "purposes": ["research"]}}
    yield from started(House(tmp_path_factory.mktemp("house"), policies=policies))


@pytest.fixture
def coordinator(house: House) -> Iterator[Coordinator]:
    with house.coordinator() as coordinator:
        house.known(coordinator, house.user("ana"))
        yield coordinator


def previewed(house: House, coordinator: Coordinator, **wish: Any) -> RequestPreview:
    return coordinator.preview(house.user("ana"), house.request(**wish))


def told(house: House, coordinator: Coordinator, **wish: Any) -> tuple[str, ...]:
    """What the request itself is told."""
    done = house.finished(coordinator, coordinator.ask(house.user("ana"), house.request(**wish)).id)
    return coordinator.reasons(done) if done.status is Status.REFUSED else ()


def ledgers(house: House) -> list[int]:
    return [len(Ledger.load(house.folder / f"{party}-state" / "ledger.jsonl").shown) for party in ("bank", "clinic")]


def test_a_policys_refusal_is_foretold_once_with_who_says_it(house: House, coordinator: Coordinator) -> None:
    found = previewed(house, coordinator, purpose="gardening")
    assert found.asked
    assert found.refusals == told(house, coordinator, purpose="gardening")
    (sentence,) = found.refusals
    assert sentence.endswith("(bank, clinic)")


def test_what_the_ledgers_refuse_is_foretold_and_enters_nothing(house: House, coordinator: Coordinator) -> None:
    first: dict[str, Any] = {"algorithm": {"name": "tds"}}
    assert previewed(house, coordinator, **first).refusals == ()
    assert told(house, coordinator, **first) == ()
    assert previewed(house, coordinator, **first).refusals == ()  # the same again
    sessions, before = len(coordinator.sessions(house.user("ana"))), ledgers(house)
    assert before == [1, 1]
    other: dict[str, Any] = {"algorithm": {"name": "mondrian"}}
    found = previewed(house, coordinator, **other)
    assert any("already released" in each for each in found.refusals)
    assert (len(coordinator.sessions(house.user("ana"))), ledgers(house)) == (sessions, before)
    assert found.possible is not None
    assert found.possible["algorithm"]["name"] == "tds"
    assert found.changes
    assert previewed(house, coordinator, **other, purpose="gardening").possible is None  # it stays as it is
    assert found.refusals == told(house, coordinator, **other)
    assert told(house, coordinator, algorithm=found.possible["algorithm"]) == ()


def test_a_user_asks_a_few_times_a_minute(
    house: House, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "_A_MINUTE", 2)
    budgets = [coordinator.preview(house.user("ana"), house.request(budget=each)) for each in (7, 8, 7, 9)]
    assert [each.asked for each in budgets] == [True, True, True, False]  # the third was asked a moment ago


def test_without_anybody_to_ask_nothing_is_foretold(house: House) -> None:
    with Coordinator(house.settings(), network=house.memory.network) as resting:
        found = resting.preview(house.user("ana"), house.request(purpose="gardening"))
    assert (found.asked, found.refusals) == (False, ())


# --- what could be asked instead ---


def test_what_all_parties_could_accept_keeps_the_columns_that_each_of_them_leaves() -> None:
    asked = request(algorithm={"name": "mondrian"}, providers={"age": "bank"})
    kept = [name for name in asked.attributes if name not in ("age", "town")]
    first, *_ = less(
        asked,
        [
            {"attributes": [name for name in asked.attributes if name != "age"]},
            {"attributes": [name for name in asked.attributes if name != "town"], "normalize": "none"},
        ],
    )
    assert [*first.attributes] == kept
    assert first.normalize == "none"
    assert not {"age", "town"} & {name for part in first.privacy for name in part.qid}
    assert (first.user, first.purpose, first.budget) == (asked.user, asked.purpose, asked.budget)


def test_a_request_of_which_nothing_is_left_is_none() -> None:
    assert not [*less(request(), [{"attributes": []}])]


def test_columns_that_a_method_cannot_take_are_named_as_what_is_in_the_way() -> None:
    kinds = mq.Schema([mq.Attribute("job", taxonomy="flat"), mq.Attribute("salary", "continuous")])
    asked = request(algorithm={"name": "id3"}, privacy=[], attributes=["age", "job", "salary"])
    refused = answer(policy(learn={"methods": ["id3"]}), asked, BANK, Ledger(), NOW, kinds)
    assert isinstance(refused, Refusal)
    assert refused.instead == {"attributes": ["age", "job"]}
