"""A site drops out: the others repeat the round if nothing of it was opened, and stop if anything was."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from contract.learning import EXAMPLES
from contract.test_learning_methods import contract_of, tables_of
from masquerade.data import Table
from masquerade.errors import PeerBrokeProtocol, PeerError, PeerUnreachable
from masquerade.jobs import learn_job
from masquerade.methods import learning_methods
from masquerade.net import Message, Move, Script, Send, TolerantReceive, TolerantSend
from masquerade.net.memory import Vanished, Wire, run_together
from masquerade.net.script import decode
from masquerade.progress import Stage
from masquerade.protocol import (
    ASSEMBLER,
    Assembly,
    Contract,
    Learned,
    LearningMethod,
    LearningProposal,
    Participant,
    alone_at,
)
from masquerade.protocol.learn.frame import LearnedModel, SitesLost, fewest
from masquerade.protocol.learn.models import alike
from masquerade.protocol.learn.sums import MaskedSummands, SumOpening
from party_processes import parties_of

SITES = ("anna", "berta", "carla", "doris")
LOST = "carla"

Change = Callable[[Script[Any]], Script[Any]]


def session(
    drop_out: str, changed: dict[str, Change], name: str = "logistic", wire: Wire | None = None, **settings: Any
) -> Learned:
    method, contract, tables = scene(drop_out, name, **settings)
    scripts: dict[str, Script[Any]] = {ASSEMBLER: method.assembler(Assembly(contract))}
    for site, own in zip(contract.parties, tables, strict=True):
        script = method.party(Participant(site, contract, own))
        scripts[site] = changed.get(site, lambda each: each)(script)
    found: Learned = run_together(scripts, wire)[ASSEMBLER]
    return found


def scene(drop_out: str, name: str, **settings: Any) -> tuple[LearningMethod, Contract, list[Table]]:
    small = {"min_records": 1} if name == "cox" else {}  # of 24 patients
    method = learning_methods()[name](drop_out=drop_out, **small, **settings)
    contract = contract_of(method, EXAMPLES[name], SITES, "horizontal")
    table = EXAMPLES[name].table
    return method, contract, list(tables_of(contract, table.take(np.arange(24)) if name == "cox" else table))


@cache
def pooled(*sites: str) -> Any:
    """The model of some sites' records."""
    method, _, tables = scene("stop", "logistic")
    some = [each for site, each in zip(SITES, tables, strict=True) if site in sites]
    whole = Table(pa.concat_tables([each.arrow for each in some]), EXAMPLES["logistic"].table.schema)
    alone = contract_of(method, EXAMPLES["logistic"], SITES[:1], "horizontal")
    return method.learned_alone(alone_at(method, alone, whole)).model.as_json()


def vanishing(before: Callable[[Move, int], bool]) -> Change:
    """Make a party vanish before a move; the number counts its moves."""
    numbers = count()

    def change(move: Move) -> Script[Any]:
        if before(move, next(numbers)):
            raise Vanished
        return (yield move)

    return moving(change)


def moving(change: Callable[[Move], Script[Any]]) -> Change:
    """Let a party make other moves; its errors go to its script."""

    def run(script: Script[Any]) -> Script[Any]:
        answer, error = None, None
        while True:
            try:
                move = script.throw(error) if error is not None else script.send(answer)
            except StopIteration as end:
                return end.value
            try:
                answer, error = (yield from change(move)), None
            except PeerError as raised:
                error = raised

    return run


def before_the(kind: type[Message], which: int) -> Callable[[Move, int], bool]:
    """Whether a party is about to send a message of a kind for the nth time."""
    seen = iter(range(1000))
    return lambda move, _: isinstance(move, Send) and isinstance(move.message, kind) and next(seen) == which


@pytest.mark.parametrize("round_number", [0, 1, 2, 4])
def test_the_others_go_on_with_the_round_under_way(round_number: int) -> None:
    """Whatever was opened before, the model is in the end that of the others' records."""
    learned = session("go-on", {LOST: vanishing(before_the(MaskedSummands, round_number))})
    assert learned.dropped_out == (LOST,)
    assert learned.parties == ("anna", "berta", "doris")
    anna, berta, _, doris = map(len, scene("stop", "logistic")[2])
    assert learned.n_records == anna + berta + doris
    assert alike(learned.model.as_json(), pooled("anna", "berta", "doris"), 1e-3)


def test_a_session_that_loses_nobody_gives_the_model_of_all() -> None:
    learned = session("go-on", {})
    assert learned.dropped_out == ()
    assert alike(learned.model.as_json(), pooled(*SITES), 1e-3)


@pytest.mark.parametrize(("name", "settings"), [("svm", {}), ("cox", {"unit": 1.0})])
def test_others_start_over_if_nothing_was_opened(name: str, settings: dict[str, Any]) -> None:
    learned = session("start-over", {LOST: vanishing(before_the(MaskedSummands, 0))}, name, **settings)
    assert learned.dropped_out == (LOST,)


def test_the_first_site_may_drop_out_who_tells_the_coefficients() -> None:
    learned = session("go-on", {"anna": vanishing(before_the(MaskedSummands, 3))})
    assert alike(learned.model.as_json(), pooled("berta", "carla", "doris"), 1e-3)


OPENED = "dropped out: sums over its records had been opened"
OPENING = "dropped out: a sum over its records was being opened"


@pytest.mark.parametrize(
    ("drop_out", "kind", "which", "name", "told"),
    [
        ("start-over", MaskedSummands, 1, "logistic", OPENED),
        ("start-over", MaskedSummands, 0, "cox", OPENED),  # the unit of time, which is not agreed on again
        ("start-over", SumOpening, 0, "logistic", OPENING),
        ("go-on", SumOpening, 0, "logistic", OPENING),
        ("go-on", LearnedModel, 0, "logistic", ""),
        ("stop", MaskedSummands, 0, "logistic", "vanished"),
    ],
    ids=["start over once opened", "unit agreed", "start over amid", "go on amid", "after the last sum", "default"],
)
def test_no_sum_is_made_again_that_was_opened(
    drop_out: str, kind: type[Message], which: int, name: str, told: str
) -> None:
    with pytest.raises(PeerUnreachable, match=f"carla: {told}"):
        session(drop_out, {LOST: vanishing(before_the(kind, which))}, name)


def test_wherever_a_site_drops_out_no_sum_is_opened_with_and_without_it() -> None:
    """At every seventh of its moves: the others end with a model of their own, or with its name."""
    ends: set[str] = set()
    for number in range(0, 90, 7):
        wire = Wire()
        try:
            learned = session("go-on", {LOST: vanishing(lambda _, at, number=number: at == number)}, wire=wire)
            expected = pooled(*(site for site in SITES if site not in learned.dropped_out))
            assert alike(learned.model.as_json(), expected, 1e-3)
            ends.add("model" if learned.dropped_out else "done before")
        except PeerUnreachable as error:
            ends.add(f"stopped by {error.peer}")
        assert_no_site_opens_after_it_refused(wire)
    assert {"model", "stopped by carla"} <= ends <= {"model", "stopped by carla", "done before"}


def assert_no_site_opens_after_it_refused(wire: Wire) -> None:
    """Whoever has sent a seed that not everybody answered opens nothing more."""
    for site in SITES:
        refused = False
        for heard in (each for each in wire.heard if each.sender == site):
            if heard.kind == "learn-sites-lost":
                refused |= decode(heard.data, [SitesLost]).opening  # type: ignore[attr-defined]
            assert not (refused and heard.kind in ("sum-masked", "sum-opening", "learn-model"))


def tampered(change: Callable[[Send], Iterator[Send]]) -> Change:
    """Let a party send something else."""

    def other(move: Move) -> Script[Any]:
        if isinstance(move, Send):
            yield from change(move)
            return None
        return (yield move)

    return moving(other)


def test_a_liar_that_has_read_a_sum_gets_none_without_the_lost_site() -> None:
    """Carla opens the first sum to Berta alone and is gone; Berta says that she has seen nothing."""

    def to_berta_alone(move: Send) -> Iterator[Send]:
        if isinstance(move.message, SumOpening):
            yield TolerantSend(("berta",), move.message)
            raise Vanished
        yield move

    def denied(move: Send) -> Iterator[Send]:
        if isinstance(move.message, SitesLost):
            move = TolerantSend(move.peers, msgspec.structs.replace(move.message, rounds=0, opening=False))
        yield move

    wire = Wire()
    with pytest.raises(PeerUnreachable, match="carla: dropped out: a sum over its records was being opened"):
        session("go-on", {LOST: tampered(to_berta_alone), "berta": tampered(denied)}, wire=wire)
    assert sum(each.kind == "sum-masked" for each in wire.heard if each.sender == "anna") == 3  # one to each


def test_a_site_that_somebody_still_reaches_is_not_left_out() -> None:
    """Berta claims to have lost Carla, who is here."""
    claimed = iter([True])

    def claims(move: Send) -> Iterator[Send]:
        if isinstance(move.message, MaskedSummands) and next(claimed, False):
            yield TolerantSend(("anna", "doris"), SitesLost((LOST,), 0, False))
            yield TolerantSend((LOST,), move.message)
        else:
            yield move

    with pytest.raises(PeerUnreachable, match="cannot be reached by every site") as caught:
        session("go-on", {"berta": tampered(claims)})
    assert caught.value.problems[0].reported_by == "berta"


@pytest.mark.parametrize(
    ("lost", "told"),
    [(("nobody",), "has lost somebody who is no site"), (("anna", "carla", "doris"), "would go on without us")],
)
def test_odd_claims_name_their_author(lost: tuple[str, ...], told: str) -> None:
    def claims(move: Send) -> Iterator[Send]:
        yield TolerantSend(move.peers, SitesLost(lost, 0, False))

    with pytest.raises(PeerError, match=told) as caught:
        session("go-on", {"berta": tampered(claims)})
    assert caught.value.peer == "berta"


def test_a_collector_that_sees_a_site_takes_no_model_without_it() -> None:
    def without(move: Send) -> Iterator[Send]:
        if isinstance(move.message, LearnedModel):
            move = TolerantSend(move.peers, msgspec.structs.replace(move.message, without=(LOST,)))
        yield move

    with pytest.raises(PeerBrokeProtocol, match="berta: went on without carla, which is here"):
        session("go-on", {"berta": tampered(without)})


def test_two_of_four_are_too_few() -> None:
    gone = vanishing(before_the(MaskedSummands, 0)), vanishing(before_the(MaskedSummands, 0))
    with pytest.raises(PeerUnreachable, match="2 of 4 sites are left, and 3 are needed"):
        session("go-on", {"carla": gone[0], "doris": gone[1]})


def test_a_liar_in_two_groups_finds_too_few_honest_sites_for_both() -> None:
    """Groups of the fewest sites, with one liar in both, have more honest sites than there are."""
    for n in range(4, 40):
        assert 3 <= fewest(n) < n
        assert 2 * (fewest(n) - 1) > n - 1


@pytest.mark.parametrize(
    ("name", "drop_out", "n", "told"),
    [
        ("logistic", "go-on", 3, "of 3 parties 3 must be left"),
        ("cox", "go-on", 4, "can only stop or start-over: each step needs"),
        ("pp-svm", "start-over", 4, "mapped by two matrices"),
        ("id3", "go-on", 4, "computes on shares"),
    ],
)
def test_what_cannot_go_on_is_refused_with_the_reason(name: str, drop_out: str, n: int, told: str) -> None:
    method = learning_methods()[name](drop_out=drop_out)
    refused = list(method.refusals(LearningProposal(parties=SITES[:n], roles=EXAMPLES[name].roles)))
    assert [problem.key for problem in refused] == [("drop_out",)]
    assert told in refused[0].text


def test_whoever_may_drop_out_reads_what_it_would_tell() -> None:
    method, contract, _ = scene("go-on", "logistic")
    shown = method.disclosure(contract, "anna", None, show_steps=False)
    assert any("if anna drops out" in each for each in shown.peers_learn)


def test_tolerant_moves_skip_what_is_left_over() -> None:
    def talks() -> Script[None]:
        yield TolerantSend(("anna",), SumOpening(b"old"))
        yield TolerantSend(("anna",), SitesLost((), 0, False))

    def listens() -> Script[Any]:
        return (yield TolerantReceive("berta", SitesLost, skips=True))

    assert run_together({"berta": talks(), "anna": listens()})["anna"] == SitesLost((), 0, False)


JOB = """[parties.anna]
source = "anna.csv"
[parties.berta]
source = "berta.csv"
[parties.carla]
source = "carla.csv"
[parties.doris]
source = "doris.csv"
[attributes.age]
type = "continuous"
[attributes.dose]
type = "continuous"
[roles]
class = "died"
[algorithm]
name = "logistic"
drop_out = "go-on"
[output]
report = false
"""


@pytest.mark.system
def test_a_killed_process_costs_its_records_and_not_the_model(tmp_path: Path) -> None:
    """Carla's table is large: she is stopped while she prepares it, and killed when all are there without her sum."""
    random = np.random.default_rng(3)
    tables = {}
    for site in SITES:
        n = 300_000 if site == LOST else 60
        age, dose = random.normal(60, 10, n), random.normal(2, 1, n)
        died = np.where(random.random(n) < 1 / (1 + np.exp(6 - age / 10)), "yes", "no")
        tables[site] = pa.table({"age": age, "dose": dose, "died": died})
        csv.write_csv(tables[site], tmp_path / f"{site}.csv")
    (tmp_path / "job.toml").write_text(JOB)
    there: dict[str, int] = {}  # the processes by name

    def kill(party: str, stage: Stage) -> None:
        if stage == Stage("adding up gradients") and len(there) < len(SITES):
            there[party] = parties_of(os.getpid())[SITES.index(party)]
            if party == LOST:
                os.kill(there[LOST], signal.SIGSTOP)
            if len(there) == len(SITES):
                os.kill(there[LOST], signal.SIGKILL)

    for _ in range(5):  # on a busy machine we may hear of her when she is done already
        there.clear()
        try:
            done = learn_job(tmp_path / "job.toml", on_party=kill)
        except PeerUnreachable as error:
            if error.peer != LOST:
                raise
        else:
            if done.summary["dropped_out"]:
                break
    assert done.summary["dropped_out"] == [LOST]
    assert done.summary["records"] == 180
    assert set(done.bytes_sent) == set(SITES) - {LOST}
    csv.write_csv(pa.concat_tables([tables[site] for site in SITES if site != LOST]), tmp_path / "others.csv")
    pooled_job = '[data]\nsource = "others.csv"\n' + JOB[JOB.index("[attributes.age]") :]
    (tmp_path / "pooled.toml").write_text(pooled_job.replace('drop_out = "go-on"\n', ""))
    alone = learn_job(tmp_path / "pooled.toml")
    assert alike(done.learned.model.as_json(), alone.learned.model.as_json(), 1e-3)
