"""What every method between parties keeps, for every requirement: one suite over both registries.

All parties run in memory. A vertical method gets the columns dealt out in several ways, a horizontal one the people.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import masquerade as mq
from contract.methods import SESSION_METHODS, entry_of, settings_of
from contract.people import (
    BOUNDED,
    CONJUNCTIONS,
    QID,
    SCHEMA,
    SCHEMAS,
    STEPWISE,
    Record,
    assert_kept_promises,
    assert_refusals,
    holds_of_everybody,
    people,
    requirements,
)
from masquerade.anonymize import hopeless_at_once
from masquerade.errors import Problem
from masquerade.methods import methods_between_parties, written_method
from masquerade.net import kind_of
from masquerade.net.memory import Wire, run_together
from masquerade.privacy import REQUIREMENTS, can_wrap
from masquerade.protocol import (
    ASSEMBLER,
    EVERYBODY,
    Assembly,
    Contract,
    Contribution,
    Proposal,
    SessionMethod,
    terms_of,
    written_requirement,
)
from privacy.definitions import PROVIDER, SENSITIVE, definition_of
from protocol.party_scripts import party_script


@dataclass(frozen=True)
class Session:
    """Who brings what: each column's holder, or with `EVERYBODY` each provider its own people against m of them."""

    holders: dict[str, str]
    m: int = 0

    @property
    def is_horizontal(self) -> bool:
        return EVERYBODY in self.holders.values()

    @property
    def parties(self) -> tuple[str, ...]:
        return ("north", "south", "west") if self.is_horizontal else tuple(sorted({*self.holders.values()}))

    def contract(self, method: SessionMethod, requirement: mq.Requirement, schema: mq.Schema) -> Contract:
        return Contract(
            parties=self.parties,
            columns=tuple(
                Contribution(name, holder, "sensitive" if name == SENSITIVE else "attribute")
                for name, holder in self.holders.items()
            ),
            requirements=tuple(written_requirement(part) for part in requirement.parts),
            method=written_method(method),
            attributes=terms_of(schema),
            class_name="class",
            provider=PROVIDER if self.is_horizontal else None,
            m=self.m,
        )

    def table_of(
        self, name: str, contract: Contract, frame: pa.Table, schema: mq.Schema
    ) -> tuple[mq.Table, list[bytes]]:
        """A party's table, with an identifier for each row; in a vertical session in an order of its own."""
        if self.is_horizontal:
            own = frame.filter(pc.equal(frame[PROVIDER], name))
        else:
            order = np.random.default_rng(self.parties.index(name)).permutation(frame.num_rows)
            own = frame.take(pa.array(order))
        ids = [f"id-{row}".encode() for row in own["row"].to_pylist()]
        return mq.Table(own.select(contract.columns_needed(name)), schema), ids


COLUMNS = (*QID, "row", SENSITIVE)
SESSIONS = {
    "vertical": {
        "two parties": Session(dict(zip(COLUMNS, ("anna", "anna", "berta", "anna", "berta"), strict=True))),
        "three parties": Session(dict(zip(COLUMNS, ("anna", "berta", "carla", "anna", "berta"), strict=True))),
        "all of it at one": Session(dict(zip(COLUMNS, ("anna", "anna", "anna", "berta", "anna"), strict=True))),
    },
    "horizontal": {f"m = {m}": Session(dict.fromkeys(COLUMNS, EVERYBODY), m) for m in (0, 1)},
}
MODELS = [definition_of(model).examples[0](QID) for model in REQUIREMENTS.plain]


def named(method: type[SessionMethod]) -> str:
    """Two methods may share a name, where parties hold their data in different ways."""
    return f"{method.arrangement} {method.name}"


def cases() -> Iterator[Any]:
    """Every model and every session with the defaults; other settings with the two that use the most of a method."""
    for method in methods_between_parties():
        name = named(method)
        entry = entry_of(name, SESSION_METHODS)
        for chosen in (*settings_of(method, entry.values), *entry.settings):
            for requirement in (*MODELS, *CONJUNCTIONS) if not chosen else (MODELS[0], CONJUNCTIONS[1]):
                sessions = SESSIONS[method.arrangement].items()
                for who, session in sessions if not chosen else [*sessions][1:2]:
                    if not can_be_asked(requirement, session):
                        continue
                    said = "".join(f", {key} = {value}" for key, value in chosen.items())
                    yield pytest.param(method, chosen, requirement, session, id=f"{name}{said}, {requirement}, {who}")


def can_be_asked(requirement: mq.Requirement, session: Session) -> bool:
    """Providers wrap what is asked in m-privacy."""
    return not session.is_horizontal or all(map(can_wrap, requirement.parts))


def refusals(
    method: type[SessionMethod],
    chosen: dict[str, Any],
    requirement: mq.Requirement,
    session: Session,
    schema: mq.Schema,
) -> list[Problem]:
    made = method(**chosen).fitted(requirement.parts, session.m, "class")
    return [*made.refusals(Proposal(requirement.parts, session.m, session.parties, session.holders, schema))]


@pytest.mark.parametrize(("method", "chosen", "requirement", "session"), [*cases()])
def test_contract(
    method: type[SessionMethod], chosen: dict[str, Any], requirement: mq.Requirement, session: Session
) -> None:
    fitting = (BOUNDED,) if any(part.within_boundaries for part in requirement.parts) else (SCHEMA, STEPWISE)
    schemas = [each for each in fitting if not refusals(method, chosen, requirement, session, each)]
    if not schemas:
        return
    schema, entry = schemas[0], entry_of(named(method), SESSION_METHODS)
    made = method(**chosen).fitted(requirement.parts, session.m, "class")
    contract, records, wire = session.contract(made, requirement, schema), people_for(requirement), Wire()
    frame = pa.Table.from_pylist(records)
    on_one_table = mq.MPrivacy(session.m, requirement, PROVIDER) if session.is_horizontal else requirement
    scripts: dict[str, Any] = {ASSEMBLER: made.assembler(Assembly(contract, schema))}
    for name in session.parties:
        scripts[name] = party_script(name, contract, *session.table_of(name, contract, frame, schema))
    violated = [part for part in on_one_table.parts if not holds_of_everybody(part, records)]
    if hopeless_at_once(violated, entry.leaves_out(made)):
        with pytest.raises(mq.RequirementUnreachable):
            run_together(scripts, wire)
        return
    try:
        results = run_together(scripts, wire)
    except mq.RequirementUnreachable:
        assert violated
        return
    release = results[ASSEMBLER]

    assert_kept_promises(release.table, records, on_one_table.parts, release.verdicts)
    assert release.table.column_names == [*QID, "row", "class", SENSITIVE]
    assert release.table.num_rows + release.suppressed == release.rows == len(records), "nobody is lost"
    in_order = release.table.sort_by("row")
    alone = entry.alone(made, mq.Table(frame, schema), contract, on_one_table)
    if alone is not None:
        assert in_order.select(alone.column_names).to_pylist() == alone.sort_by("row").to_pylist()
    assert {each.kind for each in wire.seen_by(ASSEMBLER)} <= entry.to_assembler
    last_words = {each.sender: each.kind for each in wire.seen_by(ASSEMBLER)}  # of each party to the assembler
    assert set(last_words.values()) <= {kind_of(each) for each in made.ends_with}
    sent = {each.kind for each in wire.heard if ASSEMBLER not in (each.sender, each.receiver)}
    assert sent <= entry.between_parties
    for name in session.parties:
        shown = made.disclosure(contract, name, schema, show_steps=True)
        assert [each.name for each in shown.columns] == [each.name for each in contract.columns_of(name)]
        assert shown.peers_learn


def people_for(requirement: mq.Requirement) -> list[Record]:
    """Few where a test takes many gates: parties build a circuit for each width of the counts."""
    has_logarithms = any(isinstance(part, mq.EntropyLDiversity) for part in requirement.parts)
    return people(15, seed=20) if has_logarithms else people(36, seed=36)


@pytest.mark.parametrize("method", methods_between_parties(), ids=named)
def test_every_refusal_has_its_words(method: type[SessionMethod]) -> None:
    entry = entry_of(named(method), SESSION_METHODS)
    said = {
        str(problem)
        for chosen in (*settings_of(method, entry.values), *entry.settings)
        for requirement in requirements()
        if not any(part.wraps for part in requirement.parts)  # a session has m for that
        for session in SESSIONS[method.arrangement].values()
        if can_be_asked(requirement, session)
        for schema in SCHEMAS
        for problem in refusals(method, chosen, requirement, session, schema)
    }
    assert_refusals(said, entry.refuses)


@pytest.mark.parametrize("model", REQUIREMENTS.plain)
def test_some_method_takes_every_model(model: str) -> None:
    requirement = definition_of(model).examples[0](QID)
    taken = any(
        not refusals(method, {}, requirement, session, STEPWISE)
        for method in methods_between_parties()
        for session in SESSIONS[method.arrangement].values()
        if can_be_asked(requirement, session)
    )
    assert taken
