"""What a contract lets leave this machine: every column, figure and side effect, and who gets to see it.

Made of the contract, and of the certificates that we know, so that a steward can look before anything is signed, read
or sent. docs/leakage.md has the reasons.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from masquerade.data.schema import Schema
from masquerade.errors import ParameterError
from masquerade.methods import method_of, product_of
from masquerade.net.identity import Identity
from masquerade.net.trust import TrustStore
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.disclosure import DisclosedClass, DisclosedColumn
from masquerade.service.client_certificates import ClientCertificates
from masquerade.service.clock import SYSTEM_CLOCK, Clock, seconds_since_1970
from masquerade.service.kinds.horizontal import against
from masquerade.service.node.approvals import deal_id
from masquerade.service.requester import verified_signer
from masquerade.service.signing import SignedContract, signers
from masquerade.service.terms import Terms


@dataclass(frozen=True)
class Preview:
    """A contract as a steward looks at it before it is signed."""

    party: str
    arrangement: Arrangement
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
    request_signed_by: str | None  # the certificate of the user by which it was verified; None: nobody's
    purpose: str
    recipients: tuple[str, ...]
    parties: tuple[str, ...]
    requirements: tuple[str, ...]
    over_all_attributes: str  # how alike records are for somebody who knows all of them
    columns: tuple[DisclosedColumn, ...]
    class_column: DisclosedClass | None
    peers_learn: tuple[str, ...]
    figures: dict[str, str]
    stays: tuple[str, ...]
    protocol: dict[str, str]
    price: dict[str, int | None]  # cents
    rolled_up_from: str | None = None  # the hash of an earlier release's terms: nothing leaves this machine

    def content(self) -> dict[str, Any]:
        """The preview as JSON."""
        made = {"kind" if name == "arrangement" else name: each for name, each in asdict(self).items()}
        made["class"] = made.pop("class_column")
        return made


def preview(
    contract: SignedContract,
    party: str,
    schema: Schema | None = None,
    *,
    trust: TrustStore | None = None,
    own: Identity | None = None,
    clients: ClientCertificates | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Preview:
    """Say what this party would disclose; ParameterError when it is none of the contract's parties.

    The dataset's `schema`, where it is known, shows what a generalised cell is made of. Signatures count as far as they
    fit the certificates in our own trust store, and `own`; the request's, as far as it fits those of `clients`.
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
    disclosure = method_of(agreed).disclosure(agreed, party, schema, show_steps=deal.show_progress)
    return Preview(
        party=party,
        arrangement=terms.arrangement,
        deal=deal_id(deal),
        contract=contract.hash.hex(),
        attempt=contract.attempt,
        attempts=deal.attempts,
        expiry=f"{datetime.fromtimestamp(contract.expiry, UTC):%Y-%m-%d %H:%M:%S} UTC",
        expired=contract.expiry <= seconds_since_1970(clock),
        signed_by=tuple(name for name, problem in signatures.items() if problem is None),
        not_signed_by={name: problem for name, problem in signatures.items() if problem is not None},
        dataset=provision.dataset,
        snapshot=provision.snapshot,
        user=deal.user,
        request_signed_by=verified_signer(deal, clients or ClientCertificates(), seconds_since_1970(clock)),
        purpose=deal.purpose,
        recipients=deal.recipients,
        parties=terms.parties,
        requirements=(*map(str, parts), *against(terms.m)),
        over_all_attributes=_over_all_attributes(terms),
        columns=disclosure.columns,
        class_column=disclosure.class_column,
        peers_learn=disclosure.peers_learn,
        figures=disclosure.figures,
        stays=disclosure.stays,
        protocol=disclosure.protocol | {"version": str(terms.version)},
        price={
            "fixed": price.fixed if price is not None else 0,
            "per_record": price.per_record if price is not None else 0,
            "most_of_all_parties": deal.most_cost,
            "most_records": deal.records,
            "budget": deal.budget,
        },
        rolled_up_from=terms.source,
    )


def _over_all_attributes(terms: Terms) -> str:
    """Say what somebody finds who knows all released attributes of a person, not the class and sensitive columns."""
    if not (made := product_of(terms)).has_groups:
        return made.shows
    qid = {column.name for column in terms.columns if column.role == "attribute"}
    k = max((part.implied_size for part in terms.parts if qid <= set(part.qid)), default=1)
    if k > 1:
        return f"at least {k} records agree on all released attributes of all parties together"
    return (
        f"a record may be the only one with its values of {', '.join(sorted(qid))}: no requirement is over all of them "
        "together, and whoever knows all of them of a person then finds that person's record; the report counts "
        "such records"
    )
