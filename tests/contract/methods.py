"""What the contract suite must know of a method that its declaration does not say: one entry a method.

A new method needs an entry here, and nothing else in the tests of this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

import masquerade as mq
from anonymize.reference_mondrian import UnionFirst
from masquerade.anonymize import Method
from masquerade.forms import parameters_of
from masquerade.protocol import Contract
from masquerade.protocol.dka.method import Dka
from masquerade.protocol.dka.plain import plain_dka
from masquerade.protocol.mondrian.method import JointMondrian
from masquerade.protocol.providers.method import Collaboration
from masquerade.protocol.tds.method import JointSpecialization

HERE = "tests/contract/methods.py"
QUERIES = str(Path(__file__).with_name("queries.sql"))
Values = Mapping[str, tuple[Any, ...]]
Example = TypeVar("Example")


def settings_of(method: type[Method], values: Values) -> Iterator[dict[str, Any]]:
    """The defaults, and then every choice of every parameter, one at a time; those in `values` as given there."""
    yield {}
    for each in parameters_of(method):
        schema = each.rule.json_schema
        kinds = {kind.get("type") for kind in (schema, *schema.get("anyOf", ()))}
        tried = values.get(each.name) or each.rule.choices or ((True, False) if "boolean" in kinds else None)
        if tried is None:
            pytest.fail(f"{HERE} has no values to try for {each.name} of {method.name}; add some to its entry")
        yield from ({each.name: value} for value in tried if value != each.default)


def entry_of(name: str, entries: Mapping[str, Example]) -> Example:
    if name not in entries:
        pytest.fail(f"{name} has no entry in {HERE}, by which it would be tested; add one")
    return entries[name]


# --- on one table ---


def nobody(method: Any, requirement: mq.Requirement, n: int) -> int:
    return 0


@dataclass(frozen=True)
class TableExample:
    """A method on one table: what it says when it refuses, and how many of n records it may leave out."""

    refuses: tuple[str, ...] = ()  # patterns
    refuses_on_chunks: tuple[str, ...] = ()  # what it does on one table; patterns
    may_suppress: Callable[[Any, mq.Requirement, int], int] = nobody
    values: Values = field(default_factory=dict)  # to try, of parameters that are numbers or texts
    always: Mapping[str, Any] = field(default_factory=dict)  # settings of every run that says nothing else


def anybody(method: Any, requirement: mq.Requirement, n: int) -> int:
    return n - 1


def share_of_records(method: mq.TopDownSpecialization, requirement: mq.Requirement, n: int) -> int:
    return int(method.suppression * n)


def fewer_than_k(method: mq.Datafly, requirement: mq.Requirement, n: int) -> int:
    """Where more than k matters, all that lack something else may be left out."""
    return requirement.k - 1 if isinstance(requirement, mq.KAnonymity) else n - 1


TABLE_METHODS = {
    "auto": TableExample(
        refuses=(r"measure: must be a measure that needs no class attribute; got ",),
        refuses_on_chunks=(
            r"measure: must be on a table in chunks one that counts tell \(ncp, .+\); got \"query_error\"",
        ),
        may_suppress=anybody,
        values={"measure": ("majority", "query_error"), "budget": (1e-9,), "workload": (QUERIES,)},
        always={"budget": 1e-4},  # two methods: all of them have runs of their own
    ),
    "tds": TableExample(
        refuses=(
            r'score: "[\w-]+" needs a class attribute; without one, use "discernibility" or "certainty"',
            r"suppression: not possible with [\w-]+, because a part of a violating group may satisfy it",
            r"suppression: all requirements must be over the same QID; [\w-]+ is over ",
        ),
        may_suppress=share_of_records,
        values={"suppression": (0.2,)},
    ),
    "mondrian": TableExample(
        refuses=(
            r'choose: must be "certainty" or "widest" \(with a class on one table also "class-first" or '
            r'"information-gain"\); '
            r'got "fitness"',
            r'choose: "(class-first|information-gain)" needs a class attribute; use "certainty"',
            r"priority: gain needs a class attribute; leave it out, or name one",
        ),
        values={"priority": ({"spread": 1, "weight": 2}, {"spread": 1, "gain": 0.5}), "workload": (QUERIES,)},
    ),
    "cheapest-box": TableExample(values={"purity": (0.0, 3.0)}),
    "datafly": TableExample(
        refuses=(
            r"attributes.age: datafly generalises step by step; give a taxonomy, ",
            r"datafly: not possible with [\w-]+, which compares with the whole release, ",
            r"datafly: all requirements must be over the same QID; [\w-]+ is over ",
        ),
        may_suppress=fewer_than_k,
    ),
    "k-member": TableExample(
        refuses=(r"k-member pays no attention to the boundaries of constrained-k-anonymity; use greedy-cka",)
    ),
    "greedy-cka": TableExample(
        refuses=(r"greedy-cka keeps to boundaries, and no attribute of the QID has max_generalization or max_width; ",),
        may_suppress=anybody,
    ),
}


# --- between parties ---

Alone = Callable[[Any, mq.Table, Contract, mq.Requirement], pa.Table | None]


@dataclass(frozen=True)
class SessionExample:
    """A method between parties: the release that everybody's records in one table give, and what may travel.

    `alone` gets the method, that table, the contract, and the requirement as it is on that table; it answers None
    where no table gives the same. The kinds of messages are all that may ever be sent, whatever the settings.
    """

    alone: Alone
    between_parties: frozenset[str]
    to_assembler: frozenset[str]
    refuses: tuple[str, ...] = ()  # patterns
    values: Values = field(default_factory=dict)
    settings: tuple[dict[str, Any], ...] = ()  # to try as well: several parameters that go together
    leaves_out: Callable[[Any], bool] = lambda _method: False  # whether groups that violate are left out, as in Datafly


def specialised_alone(
    method: JointSpecialization, table: mq.Table, contract: Contract, requirement: mq.Requirement
) -> pa.Table | None:
    """Parties that weigh what they give for what they get may end elsewhere."""
    if method.adversary == "malicious":
        return None
    return mq.anonymize(table, requirement, mq.TopDownSpecialization(contract.class_name, method.score)).table


def cut_alone(
    method: Collaboration, table: mq.Table, contract: Contract, requirement: mq.Requirement
) -> pa.Table | None:
    """Cuts at public places are not those that a look at all counts would make."""
    if method.at_public_places:
        return None
    cutter = method.on_one_table(contract.class_name, requirement.parts)
    return mq.anonymize(table, requirement, cutter).table


def cut_level_by_level(
    method: JointMondrian, table: mq.Table, contract: Contract, requirement: mq.Requirement
) -> pa.Table:
    """Mondrian of all columns."""
    cutter = UnionFirst(
        contract.class_name, method.choose, method.strict, merge=method.merging(contract), priority=method.priority
    )
    return mq.anonymize(table, requirement, cutter).table


def generalised_alone(method: Dka, table: mq.Table, contract: Contract, requirement: mq.Requirement) -> pa.Table:
    """The rounds that the parties play, where one sees all."""
    parts = contract.parts
    sensitive = [(part, table.coded(part.sensitive)) for part in parts if part.sensitive is not None]
    own = [
        table.columns([each.name for each in contract.qid_columns if each.holder == name]) for name in contract.parties
    ]
    sides = plain_dka(own, len(table), max(part.implied_size for part in parts), method.local, sensitive)
    cells = {column.name: column.to_arrow() for side in sides for column in side.released()}
    return pa.table({**cells, "row": table.arrow["row"].take(pa.array(sides[0].passed))})


ALIGNMENT = {
    *("list-size", "sizes-heard", "blinded", "positions", "equality-share", "equality-proof"),
    *("prf-setup", "masked-columns", "column-check", "column-digests", "prf-values", "common-places"),
    *("share-key", "share-store", "common-values"),
}
TWO_PARTIES = {"pair-base", "circuit-garbled", "circuit-input", "circuit-output", "histogram-ask", "histogram-trees"}
SENSITIVE_ELSEWHERE = {"sensitive-values", "most-parts", "parts-ask", "parts-rows", "row-weights", "counts-proof"}
MANY_PARTIES = {"session-nonce", "base-transfers", "shared-masked", "shared-result"}

BOUNDARIES = (
    r"privacy\[\d\]: [\w-]+ keeps to no boundaries between parties; ask for k-anonymity",
    r"attributes.job: [\w-]+ keeps to no boundaries between parties; leave out ",
)
WITHIN = {"reachable", "most-groups", "start-values", "dka-chi", "look-up-ask", "look-up-tables"}
UNTESTABLE = r"privacy\[\d\]: which records [\w-]+ leaves within boundaries of several parties' attributes is not known"
SESSION_METHODS = {  # by arrangement and name
    "vertical tds": SessionExample(
        specialised_alone,
        between_parties=frozenset(
            {"instruct", "finished", "score"}
            | {"argmax-order", "argmax-delivery", "argmax-garbled", "argmax-bid", "argmax-verdict"}
            | {"settled", *SENSITIVE_ELSEWHERE, *WITHIN, *ALIGNMENT, *TWO_PARTIES, *MANY_PARTIES}
        ),
        to_assembler=frozenset({"columns"}),
        refuses=(
            UNTESTABLE,
            r'score: "certainty" cannot be recomputed by the other parties; use another score in a mashup',
            r"privacy\[\d\]: [\w-]+ on disease, which berta holds, over .+ of other parties needs groups of at least",
            r"privacy\[\d\]: [\w-]+ on disease, which berta holds, over .+ needs a secure check that this ",
        ),
        values={"epsilon": (0.5,)},
        settings=({"adversary": "malicious", "argmax": "plain", "epsilon": 0.5},),
    ),
    "vertical dka": SessionExample(
        generalised_alone,
        between_parties=frozenset(
            {"dka-chi", "dka-remembered", "look-up-ask", "look-up-tables", "session-nonce", "sensitive-values"}
            | {"shared-seed", "shared-order", "shared-delivery"}
            | {"join-key", "join-rows", "join-cells", "join-release"}
            | {*ALIGNMENT, *TWO_PARTIES, *MANY_PARTIES}
        ),
        leaves_out=lambda method: bool(method.local == "datafly"),
        to_assembler=frozenset({"columns"}),
        refuses=(
            *BOUNDARIES,
            r'join: dka: join = "parties" takes two parties; got 3',
            r"name: dka: all requirements must be over the same QID",
            r"name: dka: [\w-]+ cannot be tested on shared counts of one group alone",
            r"name: dka: [\w-]+ needs groups of at least two records; add k-anonymity over the same QID",
            r"name: dka: each party holds at least one attribute of the QID; berta has none",
            r"attributes.age: dka with local = [\w-]+ generalises step by step; give a taxonomy, ",
        ),
    ),
    "vertical mondrian": SessionExample(
        cut_level_by_level,
        between_parties=frozenset(
            {"level-cuts", "best-attributes", "equal-cells", "finished"}
            | {"argmax-order", "argmax-delivery", "argmax-garbled", "argmax-bid", "argmax-verdict"}
            | {"cuts-settled", *SENSITIVE_ELSEWHERE, *WITHIN, *ALIGNMENT, *TWO_PARTIES, *MANY_PARTIES}
        ),
        to_assembler=frozenset({"columns"}),
        refuses=(
            UNTESTABLE,
            r"name: [\w-]+ on disease, which berta holds, is over .+; [\w-]+ over .+ shares attributes with it: make ",
            r"merge: which children violate [\w-]+ on disease, which berta holds, no other party may learn one",
            r"privacy\[\d\]: [\w-]+ on disease, which berta holds, over .+ of other parties needs groups of at least",
            r"privacy\[\d\]: [\w-]+ on disease, which berta holds, over .+ needs a secure check that this ",
        ),
        values={"priority": ({"spread": 1, "gain": 0.5},)},
    ),
    "horizontal mondrian": SessionExample(
        cut_alone,
        between_parties=frozenset(
            {"collaborate-alone", "collaborate-axes", "collaborate-size"}
            | {"shared-seed", "shared-order", "shared-delivery", *MANY_PARTIES}
        ),
        to_assembler=frozenset({"collaborate-values", "collaborate-rows", "collaborate-records"}),
        refuses=(
            r'choose: looks at counts that third_party = "secure" hides; ',
            r"choose: without a third party the fitness of [\w-]+ is not known; ",
            r"choose: not possible with QIDs that share attributes; ",
            r"privacy\[\d\]: [\w-]+ cannot be tested where nobody sees all counts; use one of ",
            r"privacy\[\d\]: [\w-]+ cannot be tested by the cuts at public places ",
            r"privacy\[\d\]: [\w-]+ may fail of a provider alone; leave out provider_aware",
            r"provider_aware: each QID shares attributes with another, and such are cut by value alone",
            r'attributes.job.taxonomy: "flat" is made of all providers\' values, ',
        ),
        settings=tuple(
            {"third_party": "trusted", "choose": choose, "provider_aware": aware}
            for choose, aware in (("public", True), ("widest", False), ("certainty", True), ("fitness", True))
        ),
    ),
}
