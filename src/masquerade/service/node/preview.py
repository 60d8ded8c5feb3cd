"""What a contract lets leave this machine: every column, figure and side effect, and who gets to see it.

Made of the contract, and of the certificates that we know, so that a steward can look before anything is signed, read
or sent. docs/leakage.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from masquerade.data.schema import Schema
from masquerade.errors import ParameterError
from masquerade.net.identity import Identity
from masquerade.net.trust import TrustStore
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.contract import Contract
from masquerade.protocol.remote_sensitive import remote_qid
from masquerade.service.horizontal import against
from masquerade.service.node import preview_horizontal
from masquerade.service.node.approvals import deal_id
from masquerade.service.node.leaving import (
    COORDINATOR,
    OTHERS,
    RECIPIENTS,
    Leaving,
    LeavingClass,
    LeavingColumn,
    kind_of_cell,
)
from masquerade.service.signing import SignedContract, signers


@dataclass(frozen=True)
class Preview:
    """Everything."""

    party: str
    kind: str
    deal: str
    contract: str
    attempt: int
    attempts: int
    expiry: str
    expired: bool
    signed_by: tuple[str, ...]  # with a signature that fits
    not_signed_by: dict[str, str]  # who has a signature in it that does not, and why not
    dataset: str
    snapshot: str
    user: str
    purpose: str
    recipients: tuple[str, ...]
    parties: tuple[str, ...]
    requirements: tuple[str, ...]
    columns: tuple[LeavingColumn, ...]
    class_column: LeavingClass | None
    peers_learn: tuple[str, ...]
    figures: dict[str, str]
    stays: tuple[str, ...]
    protocol: dict[str, str]
    price: dict[str, int | None]  # cents

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        made = asdict(self)
        made["class"] = made.pop("class_column")
        return made


def preview(
    contract: SignedContract,
    party: str,
    schema: Schema | None = None,
    *,
    trust: TrustStore | None = None,
    own: Identity | None = None,
) -> Preview:
    """What this party would let go; ParameterError when it is none of the contract's parties.

    The dataset's `schema`, where it is known, tells what a generalised cell is made of. Signatures count as far as they
    fit the certificates in our own trust store, and `own`.
    """
    signatures = signers(contract, trust or TrustStore({}), own)
    deal, terms = contract.deal, contract.deal.terms
    provision = terms.provision(party)
    if provision is None:
        raise ParameterError(
            f"{party} is none of the contract's parties, {', '.join(terms.parties)}: nothing would leave"
        )
    price = deal.prices.get(party)
    parts, agreed = terms.parts, contract.contract
    leaving = (
        _vertical(agreed, party, parts, schema, show_steps=deal.show_steps)
        if agreed.collaboration is None
        else preview_horizontal.leaving(agreed, party, parts, schema)
    )
    return Preview(
        party=party,
        kind=terms.kind,
        deal=deal_id(deal),
        contract=contract.hash.hex(),
        attempt=contract.attempt,
        attempts=deal.attempts,
        expiry=f"{datetime.fromtimestamp(contract.expiry, UTC):%Y-%m-%d %H:%M:%S} UTC",
        expired=contract.expiry <= datetime.now(UTC).timestamp(),
        signed_by=tuple(name for name, problem in signatures.items() if problem is None),
        not_signed_by={name: problem for name, problem in signatures.items() if problem is not None},
        dataset=provision.dataset,
        snapshot=provision.snapshot,
        user=deal.user,
        purpose=deal.purpose,
        recipients=deal.recipients,
        parties=terms.parties,
        requirements=(*map(str, parts), *against(terms.m)),
        columns=leaving.columns,
        class_column=leaving.class_column,
        peers_learn=leaving.peers_learn,
        figures=leaving.figures,
        stays=leaving.stays,
        protocol=leaving.protocol | {"version": str(terms.version)},
        price={
            "fixed": price.fixed if price is not None else 0,
            "per_record": price.per_record if price is not None else 0,
            "most_of_all_parties": deal.most_cost,
            "most_records": deal.records,
            "budget": deal.budget,
        },
    )


def _vertical(
    contract: Contract,
    party: str,
    parts: tuple[GroupRequirement, ...],
    schema: Schema | None,
    *,
    show_steps: bool,
) -> Leaving:
    return Leaving(
        columns=tuple(_columns(contract, party, parts, schema)),
        class_column=_class(contract, party),
        peers_learn=tuple(_peers_learn(contract, party)),
        figures=_figures(contract, party, show_steps=show_steps),
        stays=(
            "identifiers: the peers see them blinded, with a secret of this session",
            "people whom not all parties have, and rows with a missing cell in a used column",
            "every other column, and its name",
            "QID attributes finer than the release has them",
        ),
        protocol={
            "adversary": contract.adversary,
            "argmax": contract.argmax,
            "score": contract.score,
            "normalize": contract.normalize,
        }
        | ({"epsilon": contract.epsilon} if contract.adversary == "malicious" else {}),
    )


def _columns(
    contract: Contract, party: str, parts: tuple[GroupRequirement, ...], schema: Schema | None
) -> Iterator[LeavingColumn]:
    generalised = {column.name for column in contract.qid_columns}
    for column in contract.columns_of(party):
        over = tuple(str(part) for part in parts if column.name in part.qid)
        about = tuple(str(part) for part in parts if part.sensitive == column.name)
        if column.name in generalised:
            yield LeavingColumn(
                column.name,
                "generalised",
                f"{_cell(column.name, schema)} for each common record, "
                "no finer than every requirement over it allows",
                over,
                {
                    OTHERS: "which of the common records share a value (by number, without its name)",
                    COORDINATOR: "the released cells, in the order that the parties' secrets made",
                    RECIPIENTS: "the released cells, shuffled",
                },
            )
        else:
            yield LeavingColumn(
                column.name,
                "as it is",
                "the raw cell of each common record, byte for byte",
                about,
                {
                    COORDINATOR: "the raw cells, in the order that the parties' secrets made",
                    RECIPIENTS: "the raw cells, shuffled",
                },
            )


def _cell(name: str, schema: Schema | None) -> str:
    kind = kind_of_cell(name, schema)
    return f"{kind}, which is split at values that somebody has," if kind == "an interval" else kind


def _class(contract: Contract, party: str) -> LeavingClass | None:
    name = contract.class_name
    if name is None or contract.class_from not in (None, party):
        return None
    shown = {}
    if contract.class_from == party:
        shown[OTHERS] = "the raw class of each common record"
    else:
        shown[OTHERS] = "a digest of the classes of the common records, keyed with the session"
        if party != contract.parties[0]:
            shown[contract.parties[0]] = "the raw classes of the common records, if the digests differ"
    leaves = contract.class_holder == party
    if leaves:
        shown[COORDINATOR] = "the raw cells, in the order that the parties' secrets made"
        shown[RECIPIENTS] = "the raw cells, shuffled"
    return LeavingClass(name, leaves, shown)


def _peers_learn(contract: Contract, party: str) -> Iterator[str]:
    parties = contract.parties
    others = ", ".join(name for name in parties if name != party)
    yield f"{others}: which of their own people all parties have, and so that {party} has them"
    yield f"{others}: how many complete records {party} has"
    if len(parties) > 2:
        yield f"{parties[-1]}: how many people each set of parties has in common, not who they are"
    if contract.argmax == "plain":
        yield f"{others}: in each round {party}'s best score and its attribute, or that it has none"
    else:
        yield f"{others}: in each round whether {party} has the best score, not what its score is unless it has"
    yield from _checks(contract, party)
    if contract.qid_columns:
        yield f"{others}: {party}'s specializations, as groups of the common records, and their order"
    yield "coordinator: that the session runs, its stage and number of rounds, and how many records are common"


def _checks(contract: Contract, party: str) -> Iterator[str]:
    """What requirements on a sensitive attribute of another party tell."""
    holder = {column.name: column.holder for column in contract.columns}
    for part in contract.parts:
        if part.sensitive is None or not remote_qid(part, holder):
            continue
        where = holder[part.sensitive]
        asking = sorted({holder[name] for name in part.qid} - {where})
        if party == where:
            yield f"{', '.join(asking)}: how many different values of {part.sensitive} the common records have"
            yield f"{', '.join(asking)}: whether {part} allows their best candidate, one bit each time"
        elif party in asking:
            yield f"{where}: whether {part} allows {party}'s best candidate, one bit each time it has the best of all"


def _figures(contract: Contract, party: str, *, show_steps: bool) -> dict[str, str]:
    own = [column.name for column in contract.qid_columns if column.holder == party]
    told = {
        "losses": f"to the coordinator: how much {', '.join(own)} lost in all" if own else "none",
        "seconds": "to the coordinator: how long alignment and protocol took here",
        "bytes": "to the coordinator: how many bytes and messages were sent",
    }
    steps = (
        "to the coordinator: each specialization of this party's attributes, with its values and score, as it is made"
        if show_steps
        else "not told"
    )
    return told | {"steps": steps}
