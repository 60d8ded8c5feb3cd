"""The attack: choose at which coefficients the next sums are opened, so that these are the sums of one known person.

All sites take the step that the opened sums tell. Who adds what outweighs everybody's part chooses that step, and on a
hyperplane through one person, far from anybody else, the Hessian of the others is her record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.data import Attribute, Schema, Table
from masquerade.errors import AnswerIsNo, PeerBrokeProtocol
from masquerade.methods import learning_methods, written_method
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol import ASSEMBLER, EVERYBODY, Assembly, Contract, Contribution, Learned, Participant
from masquerade.protocol.learn.cox import Deaths, Survival
from masquerade.protocol.learn.shared_numbers import RING, SharedNumbers
from masquerade.protocol.learn.step_checks import StepGuard, effective_number, kept_apart
from masquerade.protocol.learn.sums import Aggregation, Numbers

SITES, LIAR = ("anna", "berta", "carla"), "carla"
COLUMNS = ("age", "postcode", "income", "pressure")
SIZE = len(COLUMNS) + 1
HER = np.array([41.5, 4051.5, 141.0, 83.0])

Lie = Callable[[int, Numbers], Numbers]  # from the number of the sum and the liar's honest part


def people(seed: int, n: int = 80, blur: float = 20.0) -> tuple[Numbers, Numbers]:
    """Records, and an outcome that age decides, but for the blur; nobody is as old as she is."""
    random = np.random.default_rng(seed)
    x = np.column_stack([random.integers(20, 80, n), random.integers(1000, 9000, n), *random.normal(100, 20, (2, n))])
    return x, np.where(random.random(n) < 1 / (1 + np.exp(-(x[:, 0] - 50) / blur)), "ill", "well")


def table_of(x: Numbers, ill: Numbers) -> Table:
    cells = {name: x[:, at] for at, name in enumerate(COLUMNS)} | {"state": ill}
    return Table(pa.table(cells), Schema([Attribute(name, "continuous") for name in COLUMNS]))


def hers(seed: int = 1) -> tuple[Numbers, Numbers]:
    """The first site's records, she among them."""
    x, ill = people(seed)
    return np.vstack([x, HER]), np.append(ill, "ill")


def session(
    name: str = "logistic", sites: tuple[str, ...] = SITES, min_records: int = 10, **others: tuple[Numbers, Numbers]
) -> Any:
    """A whole session; `others` are some sites' other records."""
    method = learning_methods()[name](min_records=min_records)
    contract = Contract(
        sites,
        tuple(Contribution(each, EVERYBODY, "attribute") for each in COLUMNS),
        (),
        written_method(method),
        class_name="state",
        provider="provider",
    )
    records = {"anna": hers(), "berta": people(2), LIAR: people(3)} | others
    scripts: dict[str, Script[Any]] = {ASSEMBLER: method.assembler(Assembly(contract))}
    scripts |= {each: method.party(Participant(each, contract, table_of(*records[each]))) for each in sites}
    return run_together(scripts)[ASSEMBLER]


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Lie], list[Numbers]]]:
    """Make the liar add what it likes to each sum; gives the others' sums, as the liar has found them."""

    def begin(lie: Lie) -> list[Numbers]:
        found: list[Numbers] = []
        total = Aggregation.total

        def dishonest(sums: Aggregation, numbers: Numbers) -> Script[Numbers]:
            if LIAR in sums._peers:
                return (yield from total(sums, numbers))
            told = lie(len(found), numbers)
            opened = yield from total(sums, told)
            found.append(opened - told)
            return opened

        monkeypatch.setattr(Aggregation, "total", dishonest)
        return found

    return begin  # type: ignore[return-value]


def parts_of(numbers: Numbers) -> tuple[float, Numbers, Numbers]:
    """Value, gradient and Hessian of a sum."""
    hessian = np.zeros((SIZE, SIZE))
    upper = np.triu_indices(SIZE)
    hessian[upper] = hessian.T[upper] = numbers[1 + SIZE :]
    return float(numbers[0]), numbers[1 : 1 + SIZE], hessian


def joined(value: float, gradient: Numbers, hessian: Numbers) -> Numbers:
    return np.concatenate(([value], gradient, hessian[np.triu_indices(SIZE)]))


class Steering:
    """A lie that makes the second sums be opened on a hyperplane through her, of whom age and postcode are known."""

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.found: list[Numbers] = []

    def __call__(self, at: int, own: Numbers) -> Numbers:
        if at < 2:
            return own
        value, gradient, hessian = parts_of(own)
        value += self.weight * 2.0**60 / at  # it falls
        if at > 2:
            return joined(value, gradient, hessian)
        mean, deviation = self.moments()
        known = ((HER - mean) / deviation)[:2]
        aim = np.array([1.0, np.sqrt(2), 0.0, 0.0, 0.0])
        aim[-1] = -aim[:2] @ known
        return joined(value, gradient - self.weight * 2.0**20 * aim, hessian + self.weight * np.eye(SIZE))

    def moments(self) -> tuple[Numbers, Numbers]:
        """Mean and deviation over all, nearly: the liar's own are like the others'."""
        x = np.vstack([people(seed)[0] for seed in (1, 2, 3)])
        n, mean = self.found[0][0] + 80, (self.found[0][1:] + people(3)[0].sum(axis=0)) / (self.found[0][0] + 80)
        squares = np.zeros((SIZE - 1, SIZE - 1))
        squares[np.triu_indices(SIZE - 1)] = self.found[1]
        own = people(3)[0] - mean
        assert len(x) == n - 1
        return mean, np.sqrt((np.diag(squares) + (own**2).sum(axis=0)) / n)

    def record(self) -> Numbers | None:
        """What the liar takes for her record, if anything was opened there."""
        if len(self.found) < 4:
            return None
        mean, deviation = self.moments()
        hessian = parts_of(self.found[3])[2]
        return np.asarray(hessian[:-1, -1] / hessian[-1, -1] * deviation + mean)


@pytest.mark.parametrize("method", ["logistic", "svm"])
@pytest.mark.parametrize("weight", [2.0**80, 2.0**20])
def test_who_steers_a_step_by_large_sums_reads_nobody(lying: Any, method: str, weight: float) -> None:
    steering = Steering(weight)
    steering.found = lying(steering)
    with pytest.raises(PeerBrokeProtocol) as caught:
        session(method)
    assert caught.value.peer == ""  # of two others, nobody can tell which
    assert steering.record() is None


def shifted(which: int, change: Callable[[Numbers], Numbers]) -> Lie:
    return lambda at, own: change(own) if at == which else own


def changed(at: int, value: float = 0.0, gradient: float = 0.0, hessian: float = 0.0) -> Lie:
    """A sum to which the liar adds something: to the first coefficient's gradient, and to its place in the Hessian."""

    def change(own: Numbers) -> Numbers:
        its_value, its_gradient, its_hessian = parts_of(own)
        return joined(
            its_value + value, its_gradient + gradient * np.eye(SIZE)[0], its_hessian + hessian * np.eye(SIZE)
        )

    return shifted(at, change)


LIES = {
    "fewer than no records": shifted(0, lambda own: own - 1000 * np.eye(SIZE)[0]),
    "half a record": shifted(0, lambda own: own + 0.5 * np.eye(SIZE)[0]),
    "more records than announced": shifted(0, lambda own: own + 2.0**40 * np.eye(SIZE)[0]),
    "records that vary less than not at all": shifted(1, lambda own: -100 * own),
    "means far from where records vary": shifted(0, lambda own: own * np.array([1.0, 1000.0, 1.0, 1.0, 1.0])),
    "a smaller loss at 0": changed(2, value=-1.0),
    "a larger loss at 0": changed(2, value=1.0),
    "a larger Hessian at 0": changed(2, hessian=1.0),
    "a smaller Hessian at 0": changed(2, hessian=-1.0),
    "a gradient larger than any": changed(2, gradient=400.0),
    "a Hessian that is not positive": changed(3, hessian=-200.0),
    "a Hessian larger than at 0": changed(3, hessian=200.0),
    "a loss below 0": changed(3, value=-1000.0),
    "a loss that falls too far": changed(3, value=-30.0),
    "a loss that rises too far": changed(3, value=100.0),
    "a gradient that the loss does not have": changed(4, gradient=20.0),
}


@pytest.mark.parametrize("lie", LIES)
def test_sums_that_no_records_have_end_the_session_and_name_the_liar(lying: Any, lie: str) -> None:
    lying(LIES[lie])
    with pytest.raises(PeerBrokeProtocol) as caught:
        session(sites=("anna", LIAR))
    assert caught.value.peer == LIAR


def test_records_invented_so_that_the_fit_goes_there_end_it(lying: Any) -> None:
    """Any site may have such records; but no site then adds up few of its own."""
    random = np.random.default_rng(5)
    invented = np.tile(HER, (20_000, 1)) + random.normal(size=(20_000, 4)) * [20, 2000, 20, 20]
    plane = (invented[:, 0] - HER[0]) / 20 + (invented[:, 1] - HER[1]) / 2000
    invented_records = invented, np.where(plane > 0, "ill", "well")
    found = lying(lambda _, own: own)
    with pytest.raises(AnswerIsNo) as caught:
        session(sites=("anna", LIAR), carla=invented_records)
    assert [each.key for each in caught.value.problems] == [("algorithm", "min_records")]
    assert len(found) > 4
    for each in found[2:]:
        trace, largest = (f(np.linalg.eigvalsh(parts_of(each)[2])) for f in (np.sum, np.max))
        assert trace > 1.2 * largest  # of one record alone they would be the same


@pytest.mark.parametrize("method", ["logistic", "svm"])
def test_honest_sites_finish(method: str) -> None:
    learned: Learned = session(method)
    assert learned.n_records == 241


def ranks_of_differences(lying: Any, min_records: int) -> set[int]:
    """Of every two Hessians that an honest session opens: how many records they differ by, if fewer than columns."""
    found = lying(lambda _, own: own)
    session("svm", ("anna", LIAR), min_records, anna=people(1, 300, blur=3), carla=people(3, 300, blur=3))
    hessians = [parts_of(each)[2] for each in found[2:]]
    assert len(hessians) > 3
    return {int(np.linalg.matrix_rank(a - b, tol=1e-9)) for a, b in combinations(hessians, 2)}


def test_no_few_records_cross_a_margin_between_two_steps(lying: Any) -> None:
    """What a margin counts at one step and not at the next would be read in the difference of two sums."""
    assert ranks_of_differences(lying, 10) <= {0, SIZE}
    assert ranks_of_differences(lying, 1) & {1, 2, 3}


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(1, 6))
def test_sets_that_a_site_counts_are_the_same_or_differ_by_many(seed: int, least: int, steps: int) -> None:
    random = np.random.default_rng(seed)
    costs, counted = random.random(40), []
    wanted = random.random(40) < 0.5
    for _ in range(steps):
        wanted = wanted ^ (random.random(40) < random.choice([0.0, 0.05, 0.5]))
        counted.append(kept_apart(wanted, costs, counted, least))
    differences = [np.count_nonzero(a ^ b) for a, b in combinations(counted, 2)]
    assert all(each == 0 or each >= least for each in differences)


# --- Cox regression -----------------------------------------------------------------------------------------
# Its sums are opened from shares, which the liar may change, too.


def survival_session(deaths: int = 20) -> Learned:
    method = learning_methods()["cox"](unit=1.0)
    roles: dict[str, Any] = {"age": "attribute", "pressure": "attribute", "months": "duration", "dead": "event"}
    contract = Contract(
        ("anna", LIAR),
        tuple(Contribution(name, EVERYBODY, role) for name, role in roles.items()),
        (),
        written_method(method),
        provider="provider",
    )
    scripts: dict[str, Script[Any]] = {ASSEMBLER: method.assembler(Assembly(contract))}
    for me, name in enumerate(contract.parties):
        random = np.random.default_rng(me)
        cells = {"age": random.normal(50, 10, 40), "pressure": random.normal(100, 20, 40)}
        cells |= {"months": random.integers(1, 9, 40), "dead": (np.arange(40) < deaths).astype(int)}
        table = Table(pa.table(cells), Schema([Attribute(each, "continuous") for each in ("age", "pressure")]))
        scripts[name] = method.party(Participant(name, contract, table))
    found: Learned = run_together(scripts)[ASSEMBLER]
    return found


SURVIVAL_LIES = {
    "more records than announced": shifted(0, lambda own: own + 2.0**40 * np.eye(3)[0]),
    "deaths of nobody": shifted(2, lambda own: own + 100 * np.eye(len(own))[0]),
    "deaths of fewer than nobody": shifted(2, lambda own: own - 100 * np.eye(len(own))[0]),
    "attributes of the dead that nobody has": shifted(3, lambda own: own + 100),
}


@pytest.mark.parametrize("lie", SURVIVAL_LIES)
def test_sums_of_survival_that_no_records_have_name_the_liar(lying: Any, lie: str) -> None:
    lying(SURVIVAL_LIES[lie])
    with pytest.raises(PeerBrokeProtocol) as caught:
        survival_session()
    assert caught.value.peer == LIAR


@pytest.mark.parametrize(("which", "size"), [(0, 1 << 62), (1, -(1 << 60)), (2, 1 << 62)])
def test_who_steers_cox_regression_by_its_shares_is_named(
    monkeypatch: pytest.MonkeyPatch, which: int, size: int
) -> None:
    """Gradient or Hessian of the first step, or the gradient of the second. Of less than that, records may be."""
    opened, asked = SharedNumbers.opened, 0

    def dishonest(shared: SharedNumbers, shares: Any, dropped: int) -> Script[Any]:
        nonlocal asked
        if shared.me == 1:
            shares = RING.add(shares, np.full(shares.shape, size % 2**64, np.uint64)) if asked == which else shares
            asked += 1
        return (yield from opened(shared, shares, dropped))

    monkeypatch.setattr(SharedNumbers, "opened", dishonest)
    with pytest.raises(PeerBrokeProtocol) as caught:
        survival_session()
    assert caught.value.peer == LIAR


def test_few_deaths_of_a_site_are_not_added_up(lying: Any) -> None:
    """What the attributes of the dead add up to would be those of the few."""
    found = lying(lambda _, own: own)
    with pytest.raises(AnswerIsNo) as caught:
        survival_session(deaths=3)
    assert [each.key for each in caught.value.problems] == [("algorithm", "min_records")]
    assert len(found) <= 3  # number and means, products, the table of deaths


def test_a_step_of_cox_regression_rests_on_many_records_of_each_site(lying: Any) -> None:
    assert survival_session().n_records == 80
    guard = StepGuard(0, ("anna", LIAR), 10, 100)
    records = Survival(np.append(np.zeros(40), 1.0)[:, None], np.append(np.arange(40) // 4, 9), np.ones(41, bool))
    deaths = Deaths(np.arange(10), np.append(np.full(9, 4), 5))
    exposed = deaths.until(records.steps)
    assert exposed.tolist() == [*np.repeat(np.arange(4, 41, 4), 4)[:36], *[41] * 5]
    guard.insist_on_many([exposed.astype(float)], records.x[:, 0])
    with pytest.raises(AnswerIsNo):
        guard.insist_on_many([exposed * np.exp(5 * records.x[:, 0])], 5 * records.x[:, 0])


def test_a_site_with_few_records_adds_nothing_up(lying: Any) -> None:
    found = lying(lambda _, own: own)
    x, ill = people(3, 9)
    with pytest.raises(AnswerIsNo) as caught:
        session(carla=(x, ill))
    assert [each.key for each in caught.value.problems] == [("algorithm", "min_records")]
    assert not found


def test_the_effective_number_is_that_of_equal_weights() -> None:
    assert effective_number(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_number(np.array([1.0, 1e-9])) == pytest.approx(1)
    assert effective_number(np.zeros(3)) == 0
