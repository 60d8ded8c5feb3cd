"""The attack: learn the disease of single people from models, which no requirement of a table is about.

A policy that insists on groups of 10 and on three diseases in each grants trees. An analyst asks for one with the
disease as its class, for one of other columns after the other, and for one beside a table. The coordinator and the bank
help: they break sessions off once the model is known, and say of each that it was declined. The clinic is an honest
node.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from masquerade.service import Ledger, Request
from masquerade.service.agree.answering import accepts
from masquerade.service.agree.terms import Offer
from masquerade.service.ledger import record_of
from masquerade.service.wire.control import Noted
from service.parties import CLINIC, NOW, L, dealt, offer, policy, reasons, request
from service.party_nodes import Folder, World, refused, run, wish, world

TREE: dict[str, Any] = {"class": "income", "privacy": [], "algorithm": {"name": "id3"}, "show_progress": True}
GRANTED = {"methods": ["id3"], "models": 2}


def tree(*attributes: str, **changes: Any) -> Request:
    return wish(**TREE | {"attributes": [*attributes]} | changes)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write_conf("bank", learn=GRANTED | {"models": 1000}, show_progress=True)
    folder.write_conf("clinic", learn=GRANTED, show_progress=True)
    return folder


async def learned_and_declined(here: World, asked: Request) -> None:
    """Both parties know the model; the coordinator ends the session then, and says that its client declined it."""
    contract = await here.coordinator.signed(asked)
    async with here.coordinator.held(contract):
        pass
    for party in contract.parties:
        await here.coordinator.ended(party, contract)
    name = contract.hash.hex()
    await here.coordinator.https["clinic"].call("POST", f"/v1/sessions/{name}/decline", answer=Noted)


def test_every_run_counts_however_it_ends_also_after_a_restart(folder: Folder) -> None:
    async def all_that_are_granted() -> None:
        async with world(folder) as here:
            await learned_and_declined(here, tree("job", "town"))
            one_more = await here.coordinator.signed(tree("town", "job"))
            await learned_and_declined(here, tree("job", "town"))  # the same again is another run
            said = refused(await here.coordinator.prepare("clinic", one_more)).reasons
            assert said == ("2 models of this snapshot of patients were learned before; the policy grants 2",)

    async def one_more() -> None:
        async with world(folder) as here:
            said = refused(await here.coordinator.offer("clinic", tree("town", "job"))).reasons
            assert said == ("2 models of this snapshot of patients were learned before; the policy grants 2",)
            again = await here.coordinator.offer("clinic", tree("job", "town"))
            assert isinstance(again, Offer), "the coordinator may still have that one"
            contract = await here.coordinator.signed(tree("job", "town"))
            refused(await here.coordinator.prepare("clinic", contract))

    run(all_that_are_granted())
    run(one_more())
    assert len(Ledger.load(folder.state("clinic") / "ledger.jsonl").shown) == 2


def asked(**changes: Any) -> Request:
    return request(**{"attributes": ["job", "age", "town"], "privacy": [], "algorithm": {"name": "id3"}} | changes)


def test_a_sensitive_column_is_predicted_only_where_the_policy_names_it() -> None:
    survival = {"kind": "horizontal", "attributes": ["town"], "class": None, "duration": "age", "event": "disease"}
    for wanted in ({"class": "disease"}, {**survival, "algorithm": {"name": "cox"}}):
        assert reasons(policy(learn={"methods": ["*"]}, least_m=0), asked(**wanted)) == (
            '"disease" is sensitive; a model may predict it only where the policy names it; named: none',
        )
    named = policy(learn={"methods": ["id3"], "class": ["disease"]})
    assert offer(named, asked(**{"class": "disease"})).holds_class
    few = policy(learn={"methods": ["id3"], "columns": ["town"]})
    assert reasons(few, asked()) == ('"age" may not be in a model; allowed: town',)
    assert reasons(few, asked(**{"attributes": ["job", "town"], "class": "age"})) == (
        '"age" may not be in a model; allowed: town',
    )


def test_a_model_rests_on_as_many_people_as_a_group_of_a_table() -> None:
    guarded = policy(
        learn={"methods": ["id3"]}, least_k=20, privacy=[{"model": "k-anonymity", "qid": ["age"], "k": 30}]
    )
    granting = policy(learn={"methods": ["id3"], "min_records": 5})
    deal = dealt(asked(), bank=granting, clinic=guarded)
    assert deal.terms.method["min_records"] == 30
    assert dealt(asked(attributes=["job", "town"]), bank=granting, clinic=guarded).terms.method["min_records"] == 20
    assert dealt(asked(), bank=granting, clinic=granting).terms.method["min_records"] == 10, "as asked for"
    lax = dealt(asked(), bank=granting, clinic=granting)
    assert accepts(guarded, lax, CLINIC, Ledger(), NOW) == ("the deal has min_records = 10; the policy insists on 30",)


def test_what_a_table_guards_is_not_predicted_as_well() -> None:
    grants = policy(learn={"methods": ["id3"], "class": ["disease"]})
    diverse = {"model": L, "qid": ["age", "town"], "sensitive": "disease", "l": 3}
    wanted = request(attributes=["job", "age", "town", "disease"], privacy=[diverse], **{"class": None})
    table = dealt(wanted, bank=grants, clinic=grants)
    model = dealt(asked(**{"class": "disease"}), bank=grants, clinic=grants)
    after_table, after_model = (Ledger((record_of(deal, "clinic", NOW),)) for deal in (table, model))

    (said,) = reasons(grants, asked(**{"class": "disease"}), ledger=after_table)
    assert said.startswith('"disease" was released in a table with l-diversity')
    assert accepts(grants, model, CLINIC, after_table, NOW) == (said,)
    assert offer(grants, asked(), ledger=after_table), "a model of another class rests on as many people as the groups"
    (said,) = reasons(grants, wanted, ledger=after_model)
    assert said.startswith('a model of "disease" was learned of this snapshot')
    assert offer(grants, request(attributes=["job", "age", "town"]), ledger=after_model)
    careless = policy(learn={"methods": ["id3"], "class": ["disease"]}, allow_rerelease=True)
    assert offer(careless, wanted, ledger=after_model)
