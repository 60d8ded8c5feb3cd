"""The DkA framework (Algorithm 4): generalise locally, test the join, generalise further, until it is k-anonymous.

For any local anonymizer (`protocol/dka/anonymizers.py`, `mondrian_levels.py`). Each round both parties obtain shares of
"record j's joint group has at least k records" through the joint histogram, and open one bit: whether all of them have.
So, unlike in DkA-Datafly, not even which records fail is revealed.

Who learns what: both parties how many rounds it took, which each could tell from the release and its own table
(Algorithm 5's simulator does), and nothing else. Top-down (§7), also whether it ended because both had no finer step.
"""

from __future__ import annotations

import numpy as np

from masquerade.crypto.bits import Bits
from masquerade.crypto.count_circuits import all_equal, both
from masquerade.net.progress import OnStage, silent
from masquerade.net.script import Script
from masquerade.protocol.dka.anonymizers import LocalAnonymizer, TopDownAnonymizer
from masquerade.protocol.dka.groups import labels_of, most_groups
from masquerade.protocol.joint_histogram.back_ends import shared_tests
from masquerade.protocol.joint_histogram.histogram import Bounds
from masquerade.protocol.joint_histogram.pair import Pair, read_outputs


def dka(pair: Pair, own: LocalAnonymizer, n_records: int, k: int, on_stage: OnStage = silent) -> Script[int]:
    """Run the framework. Return the number of rounds; `own` is then as general as the release.

    It terminates: at the top of both parties' taxonomies all records are one group.
    """
    own.start()
    rounds = 1
    while not (yield from _anonymized(pair, own, n_records, k, on_stage)):
        own.further()
        rounds += 1
    return rounds


def dka_top_down(
    pair: Pair, own: TopDownAnonymizer, n_records: int, k: int, on_stage: OnStage = silent
) -> Script[int]:
    """Run top-down. Return the last round before one fails, or the last when neither party has a finer step."""
    own.start()
    rounds, moved = 1, False
    while (yield from _anonymized(pair, own, n_records, k, on_stage)):
        moved = own.further()
        ended = yield from read_outputs(pair, both(), 1, {f"bit {pair.me}": _bit(not moved)})
        if ended["both"][0, 0]:
            return rounds
        rounds += 1
    if moved:
        own.back()
    return rounds - 1


def is_equal(pair: Pair, own: Bits) -> Script[bool]:
    """Return whether both parties' bit strings are equal, revealing nothing else (step 8)."""
    out = yield from read_outputs(pair, all_equal(own.size), 1, {f"bits {pair.me}": own[:, None]})
    return bool(out["holds"][0, 0])


def _anonymized(pair: Pair, own: LocalAnonymizer, n_records: int, k: int, on_stage: OnStage) -> Script[bool]:
    """Test Definition 3 (steps 5 to 8)."""
    bound = most_groups(n_records, k)
    labels = labels_of(own, np.arange(n_records), k, bound)
    share = yield from shared_tests(pair, labels, k, Bounds(n_records, (bound, bound)), on_stage)
    omega = share ^ np.uint8(pair.me)  # the paper's ω: equal where the record passes
    return (yield from is_equal(pair, omega))


def _bit(value: bool) -> Bits:
    return np.array([[value]], np.uint8)
