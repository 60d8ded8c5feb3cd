"""What this party says to a request and to a contract: by its own policy, ledger, trust store, people and table.

Nothing is signed, noted or released here; `node.py` does that with what was judged. May be asked by several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from masquerade.errors import BadInput
from masquerade.service.answering import ANOTHER_SNAPSHOT, Load, Offer, Refusal, accepts, answer
from masquerade.service.ledger import Ledger
from masquerade.service.node.approvals import Approvals, deal_id
from masquerade.service.node.contracts import faults
from masquerade.service.node.datasets import Dataset, Reading
from masquerade.service.node.logs import log
from masquerade.service.node.readings import Readings
from masquerade.service.node.settings import Settings
from masquerade.service.node.state import State
from masquerade.service.request import Request
from masquerade.service.signing import SignedContract


@dataclass(frozen=True)
class Judged:
    """A contract that everything speaks for, with the table that it is about."""

    dataset: Dataset
    reading: Reading


class Judge:
    """Holds requests and contracts against what this party has and allows, at every step anew."""

    def __init__(
        self,
        settings: Settings,
        state: State,
        approvals: Approvals,
        readings: Readings,
        datasets: Callable[[], Mapping[str, Dataset]],
        tell_changed: Callable[[], None],
    ) -> None:
        self._settings, self._state = settings, state
        self._approvals, self._readings = approvals, readings
        self._datasets = datasets  # those of this moment
        self._tell_changed = tell_changed  # a table is found to be another one than was published

    def request(self, request: Request, name: str) -> Offer | Refusal:
        """What the policy of a dataset says to a request; the table that an offer names is kept for a while.

        The load is not looked at: sessions queue at the coordinator.
        """
        dataset = self._datasets().get(name)
        if dataset is None:
            return self._refusal(self.no_dataset(name))
        reading = self._reading(dataset)
        if reading is None:
            return self._refusal(unreadable(name))
        ledger = self._ledger()
        if ledger is None:
            return self._refusal(_unknown_past(name))
        given = answer(dataset.policy, request, reading.card, ledger, Load(0, now()), reading.axes)
        if isinstance(given, Offer):
            self._readings.offered(dataset, reading, now())
        return given

    def contract(
        self, contract: SignedContract, *, for_session: bool = False
    ) -> tuple[tuple[str, ...], Judged | None]:
        """Every reason against a contract, or the table that it is about."""
        wrong = tuple(faults(contract, self._settings, now()))
        provision = contract.deal.terms.provision(self._settings.name)
        if provision is None:
            return wrong, None
        dataset = self._datasets().get(provision.dataset)
        if dataset is None:
            return (*wrong, self.no_dataset(provision.dataset)), None
        kept = self._readings.find(dataset, provision.snapshot, now())
        reading = kept or self._reading(dataset, for_session=for_session)
        if reading is None:
            return (*wrong, unreadable(provision.dataset)), None
        against = self._against(dataset, contract, reading, signed=for_session)
        if reading.card.snapshot != provision.snapshot:  # told once, and in plainer words
            wrong += (f"{provision.dataset} has changed: the contract is about another snapshot of it",)
            against = tuple(each for each in against if each != ANOTHER_SNAPSHOT)
        reasons = wrong + against
        return reasons, None if reasons else Judged(dataset, reading)

    def release(self, contract: SignedContract, name: str, reading: Reading) -> tuple[str, ...]:
        """The last look: every reason why a release of a dataset may not leave, by all that holds at this moment."""
        dataset = self._datasets().get(name)
        if dataset is None:
            return (self.no_dataset(name),)
        return self._against(dataset, contract, reading, signed=True)

    def no_dataset(self, name: str) -> str:
        """What is said of a dataset that there is not."""
        return f'there is no dataset "{name}"; there are {", ".join(self._datasets())}'

    def _against(
        self, dataset: Dataset, contract: SignedContract, reading: Reading, *, signed: bool
    ) -> tuple[str, ...]:
        """What the policy, the ledger of this moment and, once it is signed, a person have against a contract."""
        ledger = self._ledger()
        if ledger is None:
            return (_unknown_past(dataset.name),)
        deal = deal_id(contract.deal)
        if dataset.policy.needs_approval and signed and not self._approvals.approved(deal):
            return ("a person has taken the approval back, or has not given it",)
        return accepts(dataset.policy, contract.deal, reading.card, ledger, Load(0, now()), reading.axes)

    def _reading(self, dataset: Dataset, *, for_session: bool = False) -> Reading | None:
        before = dataset.snapshot
        try:
            reading = dataset.reading(for_session=for_session)
        except BadInput:
            return None
        finally:
            if dataset.snapshot != before:
                self._tell_changed()
        return reading

    def _ledger(self) -> Ledger | None:
        """None when it cannot be read, or was changed: then nobody knows what was released, and nothing more is."""
        try:
            return Ledger.load(self._state.ledger)
        except BadInput as error:  # its text names file and line, and shows no cell
            log().error("nothing is offered or signed: the ledger is wrong", problems=list(error.lines))
            return None

    def _refusal(self, reason: str) -> Refusal:
        return Refusal(self._settings.name, (reason,))


def unreadable(dataset: str) -> str:
    """What is said of a table that cannot be read; why is for its steward alone."""
    return f"{dataset} cannot be read now; its steward can see why"


def _unknown_past(dataset: str) -> str:
    return f"{dataset} cannot be released now; its steward can see why"


def now() -> int:
    """This moment, as contracts count: seconds since 1970."""
    return int(datetime.now(UTC).timestamp())
