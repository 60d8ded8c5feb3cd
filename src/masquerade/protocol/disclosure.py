"""What a session shows to whom: the columns that leave a party, what its peers learn, and what stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from masquerade.data import Schema, Taxonomy
from masquerade.protocol.contract import Contract
from masquerade.protocol.sensitive.checks import least_size, remote_qid

OTHERS, COORDINATOR, RECIPIENTS = "other parties", "coordinator", "recipients"


@dataclass(frozen=True)
class DisclosedColumn:
    """A column that leaves this party. `coarse_enough_for` are the requirements that its cells satisfy."""

    name: str
    form: Literal["generalised", "as it is"]
    cells: str
    coarse_enough_for: tuple[str, ...]
    shown_to: dict[str, str]


@dataclass(frozen=True)
class DisclosedClass:
    """The class, as far as it concerns this party."""

    name: str
    from_here: bool  # whether this party's own cells leave
    shown_to: dict[str, str]


@dataclass(frozen=True)
class Disclosure:
    """All that a contract lets leave one party."""

    columns: tuple[DisclosedColumn, ...]
    class_column: DisclosedClass | None
    peers_learn: tuple[str, ...]
    figures: dict[str, str]
    stays: tuple[str, ...]
    protocol: dict[str, str]


def kind_of_cell(name: str, schema: Schema | None) -> str:
    """Describe what a generalised cell shows, as far as the schema is known."""
    if schema is None or name not in schema:
        return "a node of its taxonomy, or an interval,"
    attribute = schema[name]
    if isinstance(attribute.taxonomy, Taxonomy):
        return "a node of its taxonomy"
    if attribute.kind == "categorical":
        return "its value, or the one word for all values,"
    return "an interval"


def disclosed_by_join(
    contract: Contract,
    party: str,
    schema: Schema | None,
    learn: Iterable[str],
    protocol: dict[str, str],
    *,
    show_steps: bool,
    peers_see: str | None = None,
    among_parties: bool = False,
) -> Disclosure:
    """Return what parties that join their columns disclose; `learn` and `protocol` are the method's additions.

    `peers_see` is what the peers see of each generalised column while the method runs, if anything. `among_parties`:
    the parties join the columns themselves, and they and the coordinator see what recipients see.
    """
    shuffled_to = (OTHERS, COORDINATOR, RECIPIENTS) if among_parties else (RECIPIENTS,)
    return Disclosure(
        columns=tuple(_columns(contract, party, schema, peers_see, shuffled_to)),
        class_column=_class(contract, party, shuffled_to),
        peers_learn=tuple(_peers_learn(contract, party, learn)),
        figures=_figures(contract, party, show_steps=show_steps),
        stays=(
            "identifiers: the peers see them blinded, with a secret of this session",
            "people whom not all parties have, and rows with a missing cell in a used column",
            "every other column, and its name",
            "QID attributes finer than the release has them",
        ),
        protocol={**protocol, "normalize": contract.normalize},
    )


def _columns(
    contract: Contract, party: str, schema: Schema | None, peers_see: str | None, shuffled_to: tuple[str, ...]
) -> Iterator[DisclosedColumn]:
    parts, generalised = contract.parts, {column.name for column in contract.qid_columns}
    for column in contract.columns_of(party):
        over = tuple(str(part) for part in parts if column.name in part.qid)
        about = tuple(str(part) for part in parts if part.sensitive == column.name)
        if column.name in generalised:
            kind = kind_of_cell(column.name, schema)
            if kind == "an interval":
                kind = f"{kind}, which is split at values that somebody has,"
            yield DisclosedColumn(
                column.name,
                "generalised",
                f"{kind} for each common record, "
                f"no finer than every requirement over it allows{kept_to(contract, column.name)}",
                over,
                ({OTHERS: peers_see} if peers_see is not None else {}) | _shown("the released cells", shuffled_to),
            )
        else:
            shown = _shown("the raw cells", shuffled_to)
            cell = "the raw cell of each common record, byte for byte"
            yield DisclosedColumn(column.name, "as it is", cell, about, shown)


def kept_to(contract: Contract, name: str) -> str:
    """Say how far a column is generalised, as agreed."""
    terms = next((each for each in contract.attributes if each.name == name), None)
    if terms is None:
        return ""
    said = []
    widths = [None if width is None else f"intervals of {width}" for width in (terms.min_width, terms.max_width)]
    if finest := ", ".join(terms.min_generalization) or widths[0]:
        said.append(f"nor than {finest}")
    if coarsest := ", ".join(terms.max_generalization) or widths[1]:
        said.append(f"and no coarser than {coarsest}")
    return "".join(f", {each}" for each in said)


def _shown(cells: str, shuffled_to: tuple[str, ...]) -> dict[str, str]:
    """Say who sees released cells, and in which order."""
    ordered = {COORDINATOR: f"{cells}, in the order that the parties' secrets made"}
    return ordered | dict.fromkeys(shuffled_to, f"{cells}, shuffled")


def _class(contract: Contract, party: str, shuffled_to: tuple[str, ...]) -> DisclosedClass | None:
    name = contract.class_name
    if name is None or contract.class_from not in (None, party):
        return None
    told = "whether they have the same classes of the common records, and no more"
    if contract.class_from == party:
        told = "the raw class of each common record"
    leaves = contract.class_holder == party
    cells = _shown("the raw cells", shuffled_to) if leaves else {}
    return DisclosedClass(name, leaves, {OTHERS: told} | cells | {OTHERS: told})


def _peers_learn(contract: Contract, party: str, learn: Iterable[str]) -> Iterator[str]:
    parties = contract.parties
    others = ", ".join(name for name in parties if name != party)
    yield f"{others}: which of their own people all parties have, and so that {party} has them"
    yield f"{others}: how many complete records {party} has"
    if len(parties) > 2:
        yield f"{parties[-1]}: how many people each set of parties has in common, not who they are"
    if contract.bounded:
        limits = f"the boundaries of {', '.join(contract.bounded)}"
        yield f"everybody: which of the common records, and so of their own people, {limits} leave out"
        held = {column.name for column in contract.columns_of(party)}
        if own := [name for name in contract.bounded if name in held]:
            yield f"{others}: which of the others have the same most general allowed value of {', '.join(own)}"
    yield from learn
    yield from _checks(contract, party)
    yield "coordinator: that the session runs, its stage and number of rounds, and how many records are common"


def _checks(contract: Contract, party: str) -> Iterator[str]:
    """Yield what checks of requirements on another party's sensitive attribute reveal."""
    holder = contract.holders
    for part in contract.parts:
        if part.sensitive is None or not remote_qid(part, holder):
            continue
        where = holder[part.sensitive]
        asking = sorted({holder[name] for name in part.qid} - {where})
        if party == where:
            yield f"{', '.join(asking)}: how many different values of {part.sensitive} the common records have"
            bit = f"one bit each time, never about fewer than {least_size(part, contract.parts)} records"
            yield f"{', '.join(asking)}: whether {part} allows their best candidate, {bit}"
        elif party in asking:
            yield f"{where}: the most children that a value has in {party}'s taxonomies, up to a power of two"
            yield f"{where}: whether {part} allows {party}'s best candidate, one bit each time it has the best of all"


def _figures(contract: Contract, party: str, *, show_steps: bool) -> dict[str, str]:
    own = [column.name for column in contract.qid_columns if column.holder == party]
    return {
        "losses": f"to the coordinator: how much {', '.join(own)} lost, to 0.01 %; of 100 records or more how much of "
        "its information each kept, to 0.1 %"
        if own
        else "none",
        "query_error": f"to the coordinator: the mean error of counting queries about {', '.join(own)}, to 1 %, "
        "of 100 records or more"
        if own
        else "none",
        "seconds": "to the coordinator: how long alignment and protocol took here",
        "bytes": "to the coordinator: how many bytes and messages were sent",
        "steps": "to the coordinator: each specialization of this party's attributes, with its values and score, as it "
        "is made"
        if show_steps
        else "not told",
    }
