"""What can be foreseen of a request from what the parties have published, before anybody is asked.

Nobody is bound by it: a party's policy may have changed since, and answers itself. What others were given is not told:
only the user's own releases are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from masquerade.service.answering import priced_columns
from masquerade.service.control import PublishedDataset
from masquerade.service.kinds import RULES
from masquerade.service.policy import ANY
from masquerade.service.request import Request
from masquerade.service.terms import cost


@dataclass(frozen=True)
class Foresight:
    """What a request costs at most (cents), and for which purposes it may be made; `refused_by` allow not its own."""

    price: int
    purposes: tuple[str, ...]
    refused_by: tuple[str, ...]


def foresee(request: Request, asked: Mapping[str, PublishedDataset]) -> Foresight:
    """Foresee a request to these parties, each for one dataset."""
    rules = RULES[request.arrangement]
    prices = [
        rules.price(each.price, each.card, priced_columns(request, each.card)) for each in asked.values()
    ]
    told = [each.card.records for each in asked.values() if each.card.records is not None]
    allowed = [each.purposes for each in asked.values()]
    named = sorted({purpose for some in allowed for purpose in some} - {ANY})
    everywhere = [each for each in named if all(ANY in some or each in some for some in allowed)]
    anything = asked and all(ANY in some for some in allowed)
    refusing = [
        party
        for party, each in asked.items()
        if request.purpose is not None and ANY not in each.purposes and request.purpose not in each.purposes
    ]
    return Foresight(
        price=cost(prices, min(told, default=None)),
        purposes=(*everywhere, *([ANY] if anything else [])),
        refused_by=tuple(sorted(refusing)),
    )
