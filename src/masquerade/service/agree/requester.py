"""Whether a request is its user's own, as far as this party can tell.

A user whose certificate the party has must sign: what the coordinator brings in that name is held against what was
signed. Of anybody else the party has the coordinator's word, unless its policy takes signed requests only.
"""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.errors import ParameterError
from masquerade.methods import written_method
from masquerade.net.identity import fingerprint
from masquerade.protocol.contract import ARRANGEMENTS
from masquerade.protocol.method import Proposal
from masquerade.service.agree.client_signature import ClientSignature
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.request import Request, read_request
from masquerade.service.agree.signing import ClientCertificates
from masquerade.service.agree.terms import Deal

_STAY = (
    *(
        "user",
        "purpose",
        "arrangement",
        "class_name",
        "duration",
        "event",
        "budget",
        "deadline",
        "attempts",
        "normalize",
    ),
    *("most_error", "most_ncp", "most_query_error", "estimate"),
)


def against_requester(
    policy: Policy, request: Request, clients: ClientCertificates, now: int
) -> Iterator[str]:
    """Yield why a request is not taken to be its user's."""
    user, signed = request.user, request.signed
    certificate = clients.of(user)
    if signed is None and certificate is not None:
        yield f'the request is not signed, and "{user}" has a key of its own, known here'
    elif signed is None and policy.signed_requests:
        yield "the request is not signed by its client; only signed requests are taken"
    elif signed is not None and certificate is not None:
        problem = signed.problem(certificate, now)
        yield from (problem,) if problem is not None else departures(request, signed)
    elif policy.signed_requests:
        yield f'no certificate of "{user}" is known here; only requests that it signed are taken'


def verified_signer(deal: Deal, clients: ClientCertificates, now: int) -> str | None:
    """Return the fingerprint of the certificate by which a deal is its user's; None: on the coordinator's word."""
    signed, certificate = deal.signed, clients.of(deal.user)
    if signed is None or certificate is None or signed.problem(certificate, now) is not None:
        return None
    try:
        request = deal.asked
    except ParameterError:
        return None
    return None if any(departures(request, signed)) else fingerprint(certificate)


def departures(request: Request, signed: ClientSignature) -> Iterator[str]:
    """Yield where a request, or a deal as a request, is not what its client signed, or a stricter form of it."""
    try:
        own = read_request(signed.request, "what was signed")
    except ParameterError as error:
        yield from error.lines
        return
    covers = ARRANGEMENTS[own.arrangement].covers
    known = Proposal(request.privacy, request.colluding)
    signed_ways = [written_method(each) for each in own.method.ways(known, own.class_name)]
    ways = [written_method(each) for each in request.method.ways(known, request.class_name)]
    unchanged = {
        **{name: getattr(request, name) == getattr(own, name) for name in _STAY},
        "recipients": request.receivers == own.receivers,
        "attributes": sorted(request.attributes) == sorted(own.attributes),
        "privacy": all(any(covers(each, part) for each in request.privacy) for part in own.privacy),
        "m": request.colluding >= own.colluding,
        "algorithm": bool(ways) and all(each in signed_ways for each in ways),
        "providers": own.providers.items() <= request.providers.items(),
        "parties": not own.parties or {*own.parties} == {*request.parties},
        "show_progress": own.show_progress or not request.show_progress,
    }
    for name, same in unchanged.items():
        if not same:
            yield f'{_as_written(name)}: not what "{own.user}" has signed'


def _as_written(name: str) -> str:
    """Return the key that a request has for a field."""
    field = Request.model_fields.get(name)
    return name if field is None else field.alias or name
