"""Contracts that wait for a person, and what the person said.

An approval is for a deal: who gets what from which snapshot, for what and at what price. The same deal in another
contract, after a failed attempt or because the first one expired, needs no new one, for as many runs as the deal has
attempts. Then it waits for a person again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from masquerade.errors import Conflict, NotFound, ParameterError
from masquerade.files import PRIVATE, write_whole
from masquerade.forms.decoders import json_decoder
from masquerade.service.node.state import State
from masquerade.service.signing import SignedContract
from masquerade.service.terms import Deal

Decision = Literal["approved", "refused"]

NO_APPROVAL = (
    "a person has not approved it, has taken the approval back, or it has run as often as was approved"
)
LEAST_PREFIX = 4
_KEPT = 7 * 86_400  # seconds after which a contract that nobody looked at is forgotten


class Word(msgspec.Struct, frozen=True):
    """What a person said, and when; of an approval, how many sessions have begun by it."""

    time: int
    reason: str = ""
    runs: int = 0


@dataclass(frozen=True)
class Waiting:
    """A contract that waits for a person."""

    deal: str
    contract: SignedContract


def deal_id(deal: Deal) -> str:
    """The deal's digest, by which people refer to it."""
    return hashlib.sha256(deal.canonical()).hexdigest()


class Approvals:
    """The folders of contracts that wait, and of deals that were approved or refused."""

    def __init__(self, state: State) -> None:
        self._state = state

    def approved(self, deal: str) -> bool:
        """Return whether a person has approved a deal, and has not refused it since."""
        return self._approval(deal) is not None

    def may_run(self, deal: Deal) -> bool:
        """Return whether a person has approved a deal for one more session."""
        word = self._approval(deal_id(deal))
        return word is not None and word.runs < deal.attempts

    def run_begins(self, deal: Deal) -> None:
        """Count a session that begins; Conflict if no approval is left for it."""
        name = deal_id(deal)
        word = self._approval(name)
        if word is None or word.runs >= deal.attempts:
            raise Conflict(NO_APPROVAL)
        counted = msgspec.structs.replace(word, runs=word.runs + 1)
        write_whole(self._state.approved / name, msgspec.json.encode(counted), PRIVATE)

    def refused(self, deal: str) -> str | None:
        """The reason with which a person has refused a deal, if one has."""
        word = self._word(self._state.refused / deal)
        return word.reason if word is not None else None

    def decided(self, deal: str) -> Decision | None:
        """A person's last decision on a deal, if there is one."""
        if self.approved(deal):
            return "approved"
        return "refused" if self.refused(deal) is not None else None

    def ask(self, contract: SignedContract) -> bool:
        """Let a contract wait, in place of an older one of its deal; return whether the deal has not waited before."""
        path, written = self._state.pending / f"{deal_id(contract.deal)}.json", contract.canonical()
        try:
            before = path.read_bytes()
        except FileNotFoundError:  # it has not waited before, or somebody has just decided
            before = None
        if before != written:
            write_whole(path, written, PRIVATE)
            # Whoever decided while it was written has spoken: then it does not wait.
            if self.may_run(contract.deal) or self.refused(path.stem) is not None:
                path.unlink(missing_ok=True)
        return before is None

    def waiting(self) -> tuple[Waiting, ...]:
        """All contracts that wait, by the names of their deals."""
        found = []
        for path in sorted(self._state.pending.glob("[0-9a-f]*.json")):
            try:
                found.append(Waiting(path.stem, SignedContract.read(path.read_bytes())))
            except FileNotFoundError:  # somebody has just decided
                continue
            except ParameterError as error:
                raise ParameterError(f"{path}: {error}") from None
        return tuple(found)

    def find(self, prefix: str) -> Waiting:
        """The contract that waits whose deal has this name, or is the only one that begins with it."""
        waiting = {each.deal: each for each in self.waiting()}
        return waiting[_the_one(prefix, waiting, "waits for approval")]

    def known(self, prefix: str) -> str:
        """The whole name of a deal that waits or was decided before: a person may think again."""
        decided = [
            path.name for folder in (self._state.approved, self._state.refused) for path in folder.glob("*")
        ]
        return _the_one(prefix, [*(each.deal for each in self.waiting()), *decided], "is known here")

    def approve(self, deal: str, now: int) -> None:
        """Record that a person approves a deal."""
        self._decide(self._state.approved, self._state.refused, deal, Word(now))

    def refuse(self, deal: str, now: int, reason: str) -> None:
        """Record that a person refuses a deal, and why."""
        self._decide(self._state.refused, self._state.approved, deal, Word(now, reason))

    def tidy(self, now: int) -> None:
        """Forget contracts that expired long ago."""
        for each in self.waiting():
            if each.contract.expiry + _KEPT < now:
                (self._state.pending / f"{each.deal}.json").unlink(missing_ok=True)

    def _approval(self, deal: str) -> Word | None:
        """The approval of a deal; a refusal beside it counts more, whoever was counting runs meanwhile."""
        return self._word(self._state.approved / deal) if self.refused(deal) is None else None

    def _word(self, path: Path) -> Word | None:
        try:
            return json_decoder(Word).decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            raise ParameterError(f"{path}: cannot be read") from None

    def _decide(self, said: Path, unsaid: Path, deal: str, word: Word) -> None:
        write_whole(said / deal, msgspec.json.encode(word), PRIVATE)
        (unsaid / deal).unlink(missing_ok=True)
        (self._state.pending / f"{deal}.json").unlink(missing_ok=True)


def _the_one(prefix: str, deals: Iterable[str], there: str) -> str:
    """The only name that begins with `prefix`; `there` says what the deals do, for the error."""
    known = sorted(set(deals))
    if len(prefix) < LEAST_PREFIX:
        raise ParameterError(f'"{prefix}": give at least {LEAST_PREFIX} characters of the deal\'s name')
    fitting = [deal for deal in known if deal.startswith(prefix.lower())]
    if not fitting:
        listed = ", ".join(deal[:12] for deal in known) or "none"
        raise NotFound(f'no deal "{prefix}" {there}; there are: {listed}')
    if len(fitting) > 1:
        raise ParameterError(f'"{prefix}": {len(fitting)} deals begin so; give more characters')
    return fitting[0]
