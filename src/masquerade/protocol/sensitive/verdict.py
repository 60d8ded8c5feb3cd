"""Reduce shares of counts to bits: of which blocks of groups all satisfy a requirement.

For requirements on a sensitive attribute that another party holds. That party, the holder, garbles; the other one, the
asker, evaluates, and nobody has to trust its shares. A circuit judges one row of counts, all rows at once; its verdicts
stay labels, which a second circuit takes as its inputs and of which it opens the conjunction alone, or that of each
block of neighbouring rows. In between the asker proves that the counts which were judged are those that came out.

    who     sends
    asker   its shares of all rows, hidden in transfers
    holder  the rows' circuits, and what weighs their counts and totals by the tags' secret weights (`Garbling.weigh`)
    asker   a digest of its numbers: of each row, what it was given of the weighted sum, less its share of the tag
    holder  the second circuit, if these numbers are those that follow from its own share of the tags
    asker   the labels of what it opens

An asker that adds numbers to its shares of some counts, and of the tags, has to guess what they weigh: the counts that
are judged are smaller than 2^w, so that the chance is below 2^(w − 64) in a check, and otherwise it is known to have
cheated before it has a verdict. The verdicts of the rows it cannot change, as it has one label of each.

Who learns what: both parties the one bit, or one a block.

Cost: the row's circuit (crypto/count_circuits) once a group, 32 bytes an AND, 36 an input bit and 8 a bit of a count;
then one AND a group. Messages that wait for each other: 5.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import Bits, Circuit, Tags, Words, all_of_blocks
from masquerade.engine import Flags
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import (
    CircuitInput,
    CircuitOutput,
    GarbledCircuit,
    Pair,
    blaming,
    instance_slices,
    received,
)
from masquerade.protocol.sensitive.histogram import row_bits


class RowWeights(Message, tag="row-weights", frozen=True):
    """What gives the evaluator, for each row, the sum of its counts by the holder's secret weights, masked."""

    told: bytes


class CountsProof(Message, tag="counts-proof", frozen=True):
    """That the counts which were judged are those that came out."""

    digest: bytes


class SharedRows(NamedTuple):
    """A party's shares of rows of counts and of their tags; the tags' weights, of values and total, at the holder."""

    counts: Words  # [rows, values]
    tags: Tags
    weights: NDArray[np.uint64] | None = None


def blocks_satisfy(
    pair: Pair, rows: SharedRows, circuit: Circuit, blocks: Sequence[int], own: Mapping[str, Bits] | None = None
) -> Script[Flags]:
    """Return of which blocks of neighbouring rows all satisfy; `blocks` has the number of rows of each.

    The circuit is one of `count_circuits.sized` that tells what it judged. `own` are further inputs of it that this
    party gives, the same for all rows.
    """
    n_rows, width = len(rows.counts), circuit.width(f"total {pair.me}")
    totals = rows.counts.sum(axis=1, keepdims=True, dtype=rows.counts.dtype)
    inputs = {f"row {pair.me}": row_bits(rows.counts, width), f"total {pair.me}": row_bits(totals, width)}
    inputs |= {name: np.repeat(bits[:, None], n_rows, axis=1) for name, bits in (own or {}).items()}
    opens = all_of_blocks(tuple(blocks))
    if rows.weights is not None:
        holds = yield from _as_holder(pair, rows, rows.weights, circuit, inputs, opens)
    else:
        holds = yield from _as_asker(pair, rows, circuit, inputs, opens)
    return holds[:, 0].astype(bool)


def _as_holder(
    pair: Pair,
    rows: SharedRows,
    weights: NDArray[np.uint64],
    circuit: Circuit,
    inputs: Mapping[str, Bits],
    opens: Circuit,
) -> Script[Bits]:
    places = np.arange(circuit.width("total 0"), dtype=np.uint64)
    by_bit = (weights[:, None] << places).ravel()
    expected, verdicts = hashlib.sha256(), []
    for part in instance_slices(circuit, len(rows.counts)):
        heard = yield Receive(pair.peer, CircuitInput)
        mine = {name: bits[:, part] for name, bits in inputs.items()}
        with blaming(pair.peer):
            judged, message = pair.garble(circuit, part.stop - part.start, mine, heard.columns, tagged=False)
        told, numbers = judged.weigh("told", by_bit)
        yield Send((pair.peer,), message)
        yield Send((pair.peer,), RowWeights(told))
        expected.update((numbers + rows.tags[part]).tobytes())
        verdicts.append(judged.zeros("good"))
    proof = yield Receive(pair.peer, CountsProof)
    if not hmac.compare_digest(proof.digest, expected.digest()):
        raise PeerBrokeProtocol(pair.peer, "had other counts judged than those that came out")
    opened, message = pair.garble_on(opens, {"good": np.concatenate(verdicts, axis=1).swapaxes(0, 1)})
    yield Send((pair.peer,), message)
    return (yield from received(pair.peer, CircuitOutput, opened.decode, "holds"))["holds"]


def _as_asker(
    pair: Pair, rows: SharedRows, circuit: Circuit, inputs: Mapping[str, Bits], opens: Circuit
) -> Script[Bits]:
    proof, verdicts = hashlib.sha256(), []
    for part in instance_slices(circuit, len(rows.counts)):
        mine = {name: bits[:, part] for name, bits in inputs.items()}
        columns, batch = pair.receiver.extend(
            np.concatenate([mine[name].ravel() for name in circuit.inputs if name in mine])
        )
        yield Send((pair.peer,), CircuitInput(columns))
        heard = yield Receive(pair.peer, GarbledCircuit)
        with blaming(pair.peer):
            judged = pair.evaluate(circuit, part.stop - part.start, mine, batch, heard)
        numbers = yield from received(pair.peer, RowWeights, lambda told, judged=judged: judged.weighed("told", told))
        proof.update((numbers - rows.tags[part]).tobytes())
        verdicts.append(judged.held("good"))
    yield Send((pair.peer,), CountsProof(proof.digest()))
    heard = yield Receive(pair.peer, GarbledCircuit)
    with blaming(pair.peer):
        opened = pair.evaluate_on(opens, {"good": np.concatenate(verdicts, axis=1).swapaxes(0, 1)}, heard)
        holds = opened.decode(heard.tags, "holds")["holds"]
    yield Send((pair.peer,), CircuitOutput(opened.labels("holds")))
    return holds
