"""The tests of two parties: every record's joint group, by the joint histogram (the paper's SSI_t for all of them).

Where a requirement is on a sensitive attribute, its test takes the place of the one on sizes, which it includes.

Rounds of messages: six a test, besides batches. Cost: see `protocol/joint_histogram/`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.crypto.bits import Bits
from masquerade.crypto.count_circuits import all_equal, both
from masquerade.net.progress import OnStage
from masquerade.net.script import Script
from masquerade.protocol.dka.sensitive_tests import SensitiveTest
from masquerade.protocol.dka.side import Tested
from masquerade.protocol.joint_histogram.back_ends import shared_tests
from masquerade.protocol.joint_histogram.histogram import Bounds
from masquerade.protocol.joint_histogram.pair import Pair, read_outputs, shared_outputs


class PairTests:
    """One party's side of the tests between two.

    `most` are the public bounds on both parties' groups, where they are not as many as k allows.
    """

    def __init__(self, pair: Pair, sensitive: Sequence[SensitiveTest] = (), most: Sequence[int] = ()) -> None:
        self._pair, self._sensitive, self._most = pair, sensitive, most

    @property
    def peers(self) -> Sequence[str]:
        """The other party."""
        return (self._pair.peer,)

    def good_groups(self, side: Tested, on_stage: OnStage) -> Script[Bits]:
        """Return this party's XOR share of "the record's joint group is good" (the paper's ω)."""
        first, second = self._most or (side.bound, side.bound)
        bounds = Bounds(side.left.size, (first, second), (side.k, side.k))
        if self._sensitive:
            shares = []
            for test in self._sensitive:
                shares.append((yield from test.good_groups(self._pair, side, bounds, on_stage)))
            return (yield from self.all_set(np.stack(shares)))
        return (yield from shared_tests(self._pair, side.labels(), side.k, bounds, on_stage))

    def conjunction(self, share: Bits) -> Script[Bits]:
        """Compare both strings of shares, one of them inverted (step 8 of Algorithm 4)."""
        return (yield from self.all_set(share[:, None]))

    def unanimous(self, own: bool) -> Script[bool]:
        """Return whether both say yes."""
        inputs = {f"bit {self._pair.me}": np.array([[own]], np.uint8)}
        out = yield from read_outputs(self._pair, both(), 1, inputs)
        return bool(out["both"][0, 0])

    def all_set(self, shares: Bits) -> Script[Bits]:
        """Return this party's XOR share of the conjunction of each column."""
        if len(shares) == 1:
            return np.asarray(shares[0])
        inputs = {f"bits {self._pair.me}": shares ^ np.uint8(self._pair.me)}
        out = yield from shared_outputs(self._pair, all_equal(len(shares)), shares.shape[1], inputs)
        return np.asarray(out["holds"][0])
