"""Providers that each bring a schema of their own: what differs, lacks or is empty ends in one line that names it."""

from __future__ import annotations

import datetime
import gc
import weakref
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from leakage.granted_answers import dealt
from masquerade.data import Branch, Taxonomy
from masquerade.errors import BadInput, DataError, MasqueradeError, NotAllowed, ParameterError, PeerBrokeProtocol
from masquerade.net import Receive, Send
from masquerade.net.memory import Wire, run_together
from masquerade.progress import Stage
from masquerade.protocol import ASSEMBLER, Assembly, AttributeTerms, Contract, Contribution
from masquerade.protocol.providers.messages import Axes, ProviderRecords, Rows
from masquerade.protocol.providers.third_party import third_party
from protocol.party_scripts import party_script, session_scripts
from protocol.test_collaborate import HOUSES, JOBS, SCHEMA, collaborate, contract_of, requirement_of, rows, table_of

MODES = pytest.mark.parametrize("third", ["trusted", "secure"])
THREE = HOUSES[:3]


def play(contract: Contract, tables: dict[str, mq.Table], wire: Wire | None = None, **hooks: Any) -> Any:
    """As in the service, where the third party has no schema; `hooks` are of all providers."""
    return run_together(session_scripts(contract, tables, **hooks), wire)[ASSEMBLER]


def with_schema(table: mq.Table, *attributes: mq.Attribute) -> mq.Table:
    """The same records, of which some attributes mean something else."""
    changed = {attribute.name: attribute for attribute in attributes}
    return mq.Table(table.arrow, mq.Schema([changed.get(each.name, each) for each in SCHEMA]))


def one_line(error: MasqueradeError) -> str:
    assert len(error.lines) == 1
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize("choose", ["public", "certainty", "fitness"])
def test_a_third_party_without_a_schema_makes_the_same_release(choose: str) -> None:
    tables = dealt((60, 50, 40))
    terms = {"third_party": "trusted", "choose": choose, "keep_provider": True}
    contract = contract_of(requirement_of(5, 2), 1, tuple(tables), **terms)
    made = play(contract, tables)
    given = collaborate(contract, tables)
    assert made.table.column_names == given.table.column_names == ["job", "age", "ill", "provider"]
    assert rows(made.table) == rows(given.table)
    apart = {"information_kept": None}  # a provider compares with its own records, of 100 or more
    assert {**made.metrics, **apart} == pytest.approx({**given.metrics, **apart})


def test_weights_are_the_agreed_ones() -> None:
    """In the algorithms of one table too, whose weights are those of the schema."""
    tables = {
        name: with_schema(table, mq.Attribute("age", "continuous", weight=7.0))
        for name, table in dealt((40, 40, 40)).items()
    }
    measured = []
    for choose in ("public", "certainty"):
        plain_terms = contract_of(requirement_of(5, 1), 1, THREE, third_party="trusted", choose=choose)
        for terms in ((), (AttributeTerms("age", weight="3.0"),)):
            contract = msgspec.structs.replace(plain_terms, attributes=terms)
            measured.append(play(contract, tables).metrics)
        plain, heavy = measured[-2:]
        assert plain != heavy, choose
        assert {name for name in plain if plain[name] != heavy[name]} < set(plain)


def test_a_flat_taxonomy_is_made_of_everybodys_values() -> None:
    tables = {
        name: with_schema(table_of([(job, 30, "cold")] * 9), mq.Attribute("job", taxonomy="flat"))
        for name, job in zip(THREE, ("clerk", "baker", "smith"), strict=True)
    }
    release = play(contract_of(requirement_of(9, 1), 0, THREE, third_party="trusted", provider_aware=False), tables)
    assert Counter(release.table["job"].to_pylist()) == {"clerk": 9, "baker": 9, "smith": 9}
    tables["burgh"] = table_of([("baker", 30, "cold")] * 9)
    with pytest.raises(PeerBrokeProtocol, match="attribute job otherwise than abbey does: its taxonomy"):
        play(contract_of(requirement_of(9, 1), 0, THREE, third_party="trusted"), tables)


OTHER_JOBS = Taxonomy(Branch("any", tuple(Branch(leaf) for leaf in JOBS.leaves)))
OTHERWISE = {
    "bounds": (mq.Attribute("age", "continuous", lower=0, upper=100), "age", "its bounds differ"),
    "kind": (mq.Attribute("age", taxonomy=Taxonomy(Branch("*"))), "age", "its kind differs"),
    "tree": (mq.Attribute("job", taxonomy=OTHER_JOBS), "job", "its taxonomy differs"),
    "an order": (
        mq.Attribute("job", taxonomy=Taxonomy(Branch(JOBS.root.name, JOBS.root.children[::-1]), "backwards.csv")),
        "job",
        "its taxonomy differs",
    ),
}


def otherwise(case: str, who: str, houses: int) -> dict[str, mq.Table]:
    """One house's attribute means something else than that of the others."""
    tables = dealt((30,) * houses)
    ages = pa.array(["*"] * 30) if case == "kind" else tables[who].arrow["age"]
    changed = mq.Table(tables[who].arrow.set_column(1, "age", ages), SCHEMA)
    return {**tables, who: with_schema(changed, OTHERWISE[case][0])}


@pytest.mark.parametrize("case", OTHERWISE)
def test_who_generalises_otherwise_is_named_by_the_third_party(case: str) -> None:
    _, name, how = OTHERWISE[case]
    tables = otherwise(case, "clinic", 3)
    contract = contract_of(requirement_of(4, 1), 1, THREE, third_party="trusted")
    with pytest.raises(PeerBrokeProtocol, match=f"attribute {name} otherwise than abbey does: {how}") as caught:
        play(contract, tables)
    assert caught.value.peer == "clinic"
    one_line(caught.value)
    with pytest.raises(PeerBrokeProtocol) as caught:
        collaborate(contract, tables)  # also where the third party has a schema of its own
    assert caught.value.peer == "clinic"


@pytest.mark.parametrize("houses", [2, 3, 4])
@pytest.mark.parametrize("case", OTHERWISE)
def test_who_generalises_otherwise_is_named_by_the_others_before_anything_is_shown(case: str, houses: int) -> None:
    name, tables = OTHERWISE[case][1], otherwise(case, "burgh", houses)
    contract = contract_of(requirement_of(4, 2), 1, tuple(tables))
    scripts: dict[str, Any] = {each: party_script(each, contract, table) for each, table in tables.items()}
    digests = {each: next(script).message for each, script in scripts.items()}
    for each, script in scripts.items():
        move = next(script)
        with pytest.raises(MasqueradeError, match=f"attribute {name}") as caught:  # noqa: PT012 # one move after another
            while isinstance(move, Receive) and move.kind is Axes:
                move = script.send(digests[move.peer])
        one_line(caught.value)
        if each != "burgh":
            assert isinstance(caught.value, PeerBrokeProtocol)
            assert caught.value.peer == "burgh"
        elif houses == 2:  # nobody can tell whose fault it is
            assert isinstance(caught.value, PeerBrokeProtocol)
            assert caught.value.peer == "abbey"
        else:  # all others agree with each other
            assert isinstance(caught.value, ParameterError)
            assert "clinic" in str(caught.value)


def test_sources_weights_and_what_is_not_generalised_may_differ() -> None:
    tables = dealt((30, 30, 30))
    tables["clinic"] = with_schema(
        tables["clinic"],
        mq.Attribute("job", taxonomy=Taxonomy(JOBS.root, "/srv/elsewhere/jobs.yaml"), weight=4.0),
        mq.Attribute("ill", taxonomy="flat"),
    )
    secure, trusted = (
        play(contract_of(requirement_of(4, 2), 1, THREE, third_party=mode, keep_provider=True), tables)
        for mode in ("secure", "trusted")
    )
    assert rows(secure.table) == rows(trusted.table)


def test_dates_are_stored_as_everybody_likes() -> None:
    days = [datetime.date(1980, 1, 1) + datetime.timedelta(days=300 * at) for at in range(20)]
    stored = {
        "abbey": pa.array(days),
        "burgh": pa.array([datetime.datetime(day.year, day.month, day.day, 7) for day in days]),
        "clinic": pa.array([day.isoformat() for day in days]),
    }
    birth = mq.Attribute("age", "date")
    tables = {
        name: mq.Table(
            pa.table({"job": ["clerk"] * 20, "age": column, "ill": ["cold"] * 20}),
            mq.Schema([SCHEMA["job"], birth, SCHEMA["ill"]]),
        )
        for name, column in stored.items()
    }
    made = [
        play(contract_of(requirement_of(5, 1), 1, THREE, third_party=mode, keep_provider=True), tables)
        for mode in ("secure", "trusted")
    ]
    assert rows(made[0].table) == rows(made[1].table)
    assert made[0].summary["groups"] > 1


@pytest.mark.parametrize(
    ("burgh", "problem"),
    [
        (
            mq.Table(pa.table({"job": ["?"], "age": [3], "ill": ["cold"]}), SCHEMA).complete(["job"]),
            "table: no complete row is left",
        ),
        (mq.Table(pa.table({"job": ["clerk"], "ill": ["cold"]}), SCHEMA), 'no column "age"'),
    ],
    ids=["no record", "no such column"],
)
@MODES
def test_a_provider_that_cannot_take_part_says_so_itself(third: str, burgh: mq.Table, problem: str) -> None:
    tables = dealt((30, 30, 30)) | {"burgh": burgh}
    wire = Wire()
    with pytest.raises(DataError, match=problem) as caught:
        play(contract_of(requirement_of(4, 1), 1, THREE, third_party=third), tables, wire)
    one_line(caught.value)
    assert not [heard for heard in wire.heard if heard.sender == "burgh"]


@MODES
def test_an_attribute_that_the_schema_lacks_is_named(third: str) -> None:
    tables = dealt((30, 30, 30))
    tables["burgh"] = mq.Table(tables["burgh"].arrow, mq.Schema([SCHEMA["job"], SCHEMA["ill"]]))
    handed: list[str] = []
    with pytest.raises(ParameterError, match='no attribute "age"') as caught:
        play(
            contract_of(requirement_of(4, 1), 1, THREE, third_party=third),
            {"burgh": tables["burgh"], **tables},
            before_showing=lambda: handed.append("burgh"),
        )
    one_line(caught.value)
    assert not handed
    with pytest.raises(ParameterError, match='no attribute "age"'):  # the third party's own, before it hears anybody
        next(
            third_party(
                Assembly(contract_of(requirement_of(4, 1), 1, THREE, third_party="trusted"), tables["burgh"].schema)
            )
        )


@MODES
def test_a_contract_that_cannot_work_is_refused_before_anything_leaves(third: str) -> None:
    tables = dealt((30, 30, 30))
    good = contract_of(requirement_of(4, 1), 1, THREE, third_party=third)
    columns = (*good.columns[:2], Contribution("provider", "*", "sensitive"))
    doubled = Contract(**{**{name: getattr(good, name) for name in good.__struct_fields__}, "columns": columns})
    close = contract_of(mq.TCloseness(["job", "age"], t=0.5, sensitive="ill"), 1, THREE, third_party=third)
    for contract, reason in ((doubled, 'named "provider"'), (close, "t-closeness cannot be tested")):
        for script in (party_script("abbey", contract, tables["abbey"]), third_party(Assembly(contract))):
            with pytest.raises(BadInput, match=reason) as caught:
                next(script)
            one_line(caught.value)


@pytest.mark.parametrize(
    ("choose", "aware", "allowed"),
    [("widest", True, '"certainty" or "fitness"'), ("fitness", False, '"certainty" or "widest"')],
)
def test_an_algorithm_that_there_is_not_is_refused_before_records_leave(choose: str, aware: bool, allowed: str) -> None:
    terms = {"third_party": "trusted", "choose": choose, "provider_aware": aware}
    contract = contract_of(requirement_of(4, 1), 1, THREE, **terms)
    for script in (party_script("abbey", contract, dealt((30, 30, 30))["abbey"]), third_party(Assembly(contract))):
        with pytest.raises(BadInput, match=f"choose.* must be {allowed}") as caught:
            next(script)
        one_line(caught.value)


@pytest.mark.parametrize("bounds", [(-1e30, 1e30), (0, 2**41), (float("-inf"), 5)])
@MODES
def test_bounds_that_cannot_be_halved_are_named_at_home(third: str, bounds: tuple[float, float]) -> None:
    age = mq.Attribute("age", "continuous", lower=bounds[0], upper=bounds[1])
    records = [("clerk", at % 5, "cold") for at in range(20)]
    tables = {name: with_schema(table_of(records), age) for name in THREE}
    with pytest.raises(DataError, match="attribute age: min and max must lie between") as caught:
        play(contract_of(requirement_of(4, 1), 1, THREE, third_party=third), tables)
    one_line(caught.value)


@MODES
def test_the_last_word_is_asked_for_when_all_is_ready_and_before_anything_is_handed_in(third: str) -> None:
    tables = dealt((30, 30, 30))
    contract = contract_of(requirement_of(4, 1), 1, THREE, third_party=third)
    asked: list[str] = []

    def refuse() -> None:
        asked.append("burgh")
        raise NotAllowed("the session was cancelled")

    refusing = {"burgh": party_script("burgh", contract, tables["burgh"], before_showing=refuse)}
    wire = Wire()
    with pytest.raises(NotAllowed):
        run_together(session_scripts(contract, tables) | refusing, wire)
    assert asked == ["burgh"]
    assert not [heard for heard in wire.heard if (heard.sender, heard.receiver) == ("burgh", ASSEMBLER)]
    # What is wrong with the records is found before: nothing is noted as released that never leaves.
    asked.clear()
    wrong = mq.Table(pa.table({"job": ["Xerxes"], "age": [3], "ill": ["cold"]}), SCHEMA)
    refusing = {"burgh": party_script("burgh", contract, wrong, before_showing=refuse)}
    with pytest.raises(DataError, match="is no leaf of taxonomy"):
        run_together(session_scripts(contract, tables) | refusing)
    assert not asked


@MODES
def test_a_provider_can_be_ended_wherever_it_is(third: str) -> None:
    """Closed at each of its moves up to handing in, it never says that it hands in."""
    tables = dealt((12, 12))
    contract = contract_of(requirement_of(3, 2), 1, HOUSES[:2], third_party=third)
    ended: list[int] = []

    def until(script: Any, last: int) -> Any:
        heard, moves = None, 0
        while True:
            try:
                move = script.send(heard)
            except StopIteration as end:
                return end.value
            moves += 1
            is_handing_in = isinstance(move, Send) and isinstance(move.message, ProviderRecords | Rows)
            if moves == last or is_handing_in:
                script.close()
                ended.append(moves)
                raise NotAllowed("handing in" if is_handing_in else "ended")
            heard = yield move

    for last in (1, 2, 3, 5, 10, 20, 40, 10_000):
        handed: list[str] = []
        abbey = party_script("abbey", contract, tables["abbey"], before_showing=lambda: handed.append("abbey"))  # noqa: B023
        with pytest.raises(NotAllowed) as caught:
            run_together(session_scripts(contract, tables) | {"abbey": until(abbey, last)})
        # Without a third party the word is asked for before the first answer, and again before the rows leave.
        asked = int(third == "secure") + int(str(caught.value) == "handing in")
        assert handed == ["abbey"] * asked
        if str(caught.value) == "handing in":
            break
    assert str(caught.value) == "handing in"
    assert len(ended) > (2 if third == "secure" else 0)


def test_a_long_computation_can_be_stopped_where_it_tells_its_stage() -> None:
    tables = dealt((60, 60, 60))
    contract = contract_of(requirement_of(4, 1), 1, THREE, third_party="trusted")
    told: list[Stage] = []

    def stop(stage: Stage) -> None:
        told.append(stage)
        if len(told) == 2:
            raise NotAllowed("the session was cancelled")

    with pytest.raises(NotAllowed):
        run_together(session_scripts(contract, tables) | {ASSEMBLER: third_party(Assembly(contract, on_stage=stop))})
    assert len(told) == 2
    assert [(stage.name, stage.tried > 0) for stage in told] == [("cutting", True)] * 2


@MODES
def test_nothing_is_kept_of_the_records_when_it_is_over(third: str) -> None:
    random = np.random.default_rng(1)
    tables = dealt((40, 40, 40))
    contract = contract_of(requirement_of(4, 2), 1, THREE, third_party=third)
    kept = [weakref.ref(table) for table in tables.values()]
    release = play(contract, tables)
    assert release.table.num_rows == 120
    tables["burgh"] = mq.Table(tables["burgh"].arrow.take(pa.array(random.permutation(40))), SCHEMA)
    kept.append(weakref.ref(tables["burgh"]))
    with pytest.raises(NotAllowed):
        play(contract, tables, before_showing=refused)
    del tables
    gc.collect()
    assert [each() for each in kept] == [None] * 4


def refused() -> None:
    raise NotAllowed("no")
