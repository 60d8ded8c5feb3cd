"""The judge for providers that do not see each other's records: answers come from circuits on shares.

Who learns what: every provider the answers that `tree` lists, and nothing else; `shared_bits` says against whom.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.crypto.bits import pack, unpack
from masquerade.crypto.circuit import Bits, to_bits
from masquerade.engine.counts import Counts, Rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming
from masquerade.protocol.collaborate import circuits, fitness_circuits
from masquerade.protocol.collaborate.counting import SensitiveCodes
from masquerade.protocol.collaborate.criterion import Criterion
from masquerade.protocol.collaborate.groups import Answers
from masquerade.protocol.collaborate.shared_bits import SharedBits


class Alone(Message, tag="collaborate-alone", frozen=True):
    """Which of its own parts a provider has no records of, and which of them satisfy alone."""

    bits: bytes


class SecretJudge:
    """Judges parts of which each provider contributes its own rows."""

    def __init__(
        self,
        criterion: Criterion,
        shared: SharedBits,
        sensitive: Sequence[SensitiveCodes],
        most_records: int = 0,
    ) -> None:
        self._criterion, self._shared, self._sensitive = criterion, shared, tuple(sensitive)
        self._n_values = tuple(each.n_values for each in sensitive)
        self._shape = circuits.Shape(tuple(each.labels for each in sensitive), most_records)
        self._private = circuits.private(criterion, self._shape)

    def of_rows(self, rows: Rows) -> SecretJudge:
        """Return the judge of these of our rows, and of those that the others are left with."""
        left = [each.of_rows(rows) for each in self._sensitive]
        return SecretJudge(self._criterion, self._shared, left, self._shape.most_records)

    def whole(self, rows: Rows) -> Script[Answers]:
        """Judge the group of all records. If it is refused, one more bit is opened: whether records are lacking."""
        criterion = self._criterion.of_whole
        circuit = circuits.private(criterion, self._shape)
        own = self._input(criterion, [rows])
        of = "" if criterion == self._criterion else "all records"
        told = self._answers([rows], (yield from self._shared.evaluate(circuit, own, "good", "more", of=of)))
        if not told.private[0]:
            enough = yield from self._shared.evaluate(circuit, own, "enough", of=of)
            raise criterion.unreachable(self._n_values, bool(enough[0, 0]))
        return told

    def verdicts(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part, opening two bits for its four possible verdicts."""
        own = self._input(self._criterion, parts)
        return self._answers(parts, (yield from self._shared.evaluate(self._private, own, "good", "more")))

    def standing(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part, opening whether it may stand and whether it may be divided, not whether it is empty."""
        own = self._input(self._criterion, parts)
        found = yield from self._shared.evaluate(self._private, own, "good", "divisible")
        good, divisible = found[0] > 0, found[1] > 0
        if (divisible & ~good).any():
            raise self._shared.contradicted()
        return Answers(~good, good, divisible)

    def lone_verdicts(self, parts: Sequence[tuple[int, Rows]]) -> Script[Answers]:
        """Judge parts of one provider each: that provider announces the verdict."""
        owners = np.array([owner for owner, _ in parts])
        me, parties = self._shared.me, self._shared.parties
        verdicts = np.zeros((2, len(parts)), np.uint8)
        mine = np.flatnonzero(owners == me)
        counts, tallies = self._counted([parts[int(each)][1] for each in mine])
        verdicts[0, mine] = counts == 0
        verdicts[1, mine] = self._criterion.alone(counts, tallies) & (counts > 0)
        yield Send(self._shared.peers, Alone(pack(verdicts[:, mine].ravel()).tobytes()))
        for number, name in enumerate(parties):
            if number == me:
                continue
            told = yield Receive(name, Alone)
            theirs = np.flatnonzero(owners == number)
            with blaming(name):
                bits = unpack(np.frombuffer(told.bits, np.uint8), 2 * theirs.size).reshape(2, -1)
            if (bits[0] & bits[1]).any():
                raise PeerBrokeProtocol(name, "says that a group without records satisfies")
            verdicts[:, theirs] = bits
        return Answers(verdicts[0] > 0, verdicts[1] > 0, np.zeros(len(parts), bool))

    def sole(self, families: Sequence[Sequence[Rows]]) -> Script[list[int]]:
        """Return, for each family of parts, the index of the only non-empty one; −1 when there are several."""
        found = [-1] * len(families)
        by_length: dict[int, list[int]] = {}
        for number, parts in enumerate(families):
            by_length.setdefault(len(parts), []).append(number)
        for length, numbers in sorted(by_length.items()):
            own = np.array(
                [[part.size > 0 for part in families[number]] for number in numbers], np.uint8
            ).T.copy()
            circuit = circuits.sole(self._criterion.n_providers, length)
            flags = yield from self._shared.evaluate(circuit, own, "sole")
            for number, column in zip(numbers, flags.T, strict=True):
                if column.any():
                    found[number] = only = int(column.argmax())
                    if any(part.size for at, part in enumerate(families[number]) if at != only):
                        raise self._shared.contradicted()
        return found

    def fittest(self, choices: Sequence[Sequence[Sequence[Rows]]]) -> Script[list[int]]:
        """Return, for each choice between cuts, the index of the one whose least fit part is fittest; −1 for none."""
        parts = [part for cuts in choices for cut in cuts for part in cut]
        counts, _ = self._counted(parts)
        own = np.concatenate(
            [self._input(self._criterion, parts), to_bits(counts, self._shape.most_records.bit_length())]
        )
        circuit = fitness_circuits.scored(self._criterion, self._shape)
        scores = yield from self._shared.evaluate_own(circuit, own, "fine", "fitness")
        by_shape: dict[tuple[int, ...], list[tuple[int, int]]] = {}  # number of the choice, its first part
        first = 0
        for number, cuts in enumerate(choices):
            by_shape.setdefault(tuple(map(len, cuts)), []).append((number, first))
            first += sum(map(len, cuts))
        found = [-1] * len(choices)
        for shape, alike in sorted(by_shape.items()):
            starts = np.array([start for _, start in alike])
            given = {}
            for cut, n_parts in enumerate(shape):
                given[f"cut {cut}"] = np.concatenate([scores[:, starts + each] for each in range(n_parts)])
                starts = starts + n_parts
            choice = fitness_circuits.fittest(shape, scores.shape[0] - 1)
            flags = yield from self._shared.open_from_shares(choice, given, "fittest")
            for (number, _), column in zip(alike, flags.T, strict=True):
                if column.any():
                    found[number] = int(column.argmax())
        return found

    def _input(self, criterion: Criterion, parts: Sequence[Rows]) -> Bits:
        wholes = [each.whole.counts[0] for each in self._sensitive]
        return circuits.private_input(criterion, *self._counted(parts), wholes, self._shape.most_records)

    def _counted(self, parts: Sequence[Rows]) -> tuple[Counts, list[Counts]]:
        """Count this provider's records of each part, and those with each value."""
        counts = np.array([part.size for part in parts], np.int64)
        tallies = [
            np.array([each.tally(part) for part in parts], np.int64).reshape(len(parts), each.n_values)
            for each in self._sensitive
        ]
        return counts, tallies

    def _answers(self, parts: Sequence[Rows], found: Bits) -> Answers:
        """Read the verdicts on parts. Where we have records, an honest answer is never that there are none."""
        good, more = found[0] > 0, found[1] > 0
        empty = ~good & more
        if any(part.size for part, none in zip(parts, empty, strict=True) if none):
            raise self._shared.contradicted()
        return Answers(empty, good, good & more)
