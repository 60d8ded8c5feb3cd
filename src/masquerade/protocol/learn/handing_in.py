"""How the parties hand in their model, and how good it is on their records.

Every party hands in the model that it has learned; they must all be the same. The collector, which is no party, writes
it. Of how many records are classified rightly, and the like, each party hands in its own counts (or its shares of
joint ones), masked pairwise: the collector learns the sums over all parties alone.

Cost: a nonce and a key to each peer, and one message to the collector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.crypto.secure_sum import unmask_sum
from masquerade.errors import PeerBrokeProtocol, PeerUnreachable
from masquerade.forms.decoders import json_decoder
from masquerade.net.script import Message, Receive, Script, TolerantReceive
from masquerade.protocol.blaming import blaming
from masquerade.protocol.learn.aggregate import agree_on_masks
from masquerade.protocol.learn.drop_out import is_first_hand
from masquerade.protocol.learn.models.model import Model, NotAModel, alike

COUNTS = PowerOfTwo(64)


class LearnedModel(Message, tag="learn-model", frozen=True):
    """A party's model as JSON, its masked counts, how long it took, and which parties dropped out."""

    model: bytes
    counts: bytes
    seconds: Annotated[dict[str, float], Meta(max_length=16)]
    without: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()


def masked_counts(me: int, parties: Sequence[str], counts: Elements, purpose: bytes) -> Script[Elements]:
    """Mask counts so that only their sums over all parties can be read; all parties give equally many."""
    if len(parties) == 1:
        return counts
    masks = yield from agree_on_masks(me, parties, purpose, COUNTS)
    return masks.mask(counts, 1)


def written_model(model: Model) -> bytes:
    """Return a model as a party sends it: numbers by twelve digits, for further ones differ between processors."""
    return msgspec.json.encode(_rounded(model.as_json()))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


def handed_by(parties: Sequence[str]) -> Script[dict[str, LearnedModel]]:
    """Return what each party hands in."""
    handed: dict[str, LearnedModel] = {}
    for name in parties:
        handed[name] = yield Receive(name, LearnedModel)
    return handed


def handed_in_spite(parties: Sequence[str]) -> Script[dict[str, LearnedModel]]:
    """Return what each party hands in that is left; all must have lost those whom we have lost, and nobody else."""
    handed: dict[str, LearnedModel] = {}
    lost: dict[str, PeerUnreachable] = {}
    for name in parties:
        while name not in handed and name not in lost:
            try:
                handed[name] = yield TolerantReceive(name, LearnedModel)
            except PeerUnreachable as error:
                if error.peer not in parties or not is_first_hand(error):
                    raise
                if error.peer not in handed:  # otherwise it has done its part
                    lost[error.peer] = error
    for name, message in handed.items():
        for gone in lost:
            if gone not in message.without:
                raise lost[gone]
        if here := [each for each in message.without if each not in lost]:
            raise PeerBrokeProtocol(name, f"went on without {here[0]}, which is here")
    return handed


def read_model(kind: type[Model], data: bytes, sender: str) -> tuple[Model, dict[str, Any]]:
    """Return the model that a party sent, and as it was written."""
    try:
        written = json_decoder(dict[str, Any]).decode(data)
        return kind.read(written), written
    except (NotAModel, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = f": {error}" if isinstance(error, NotAModel) else ""
        raise PeerBrokeProtocol(sender, f"handed in no model{why}") from None


def the_one_model(kind: type[Model], handed: Mapping[str, LearnedModel]) -> Model:
    """Return the model that all parties have handed in; otherwise somebody is at fault, and nobody can tell who."""
    models = {party: read_model(kind, message.model, party) for party, message in handed.items()}
    first, *others = models
    for party in others:
        if not alike(models[first][1], models[party][1]):
            raise PeerBrokeProtocol("", f"{first} and {party} handed in different models")
    return models[first][0]


def total_counts(handed: Mapping[str, LearnedModel]) -> list[int]:
    """Return the sums of all parties' counts, of which each party has handed in equally many."""
    (first, message), *others = handed.items()
    size = len(message.counts)
    for party, other in others:
        if len(other.counts) != size:
            raise PeerBrokeProtocol("", f"{first} and {party} handed in different numbers of counts")
    with blaming(first):
        masked = [COUNTS.decode(each.counts, size // COUNTS.element_bytes) for each in handed.values()]
    if not size:
        raise PeerBrokeProtocol("", "nobody handed in a number of records")
    return [int(each) for each in unmask_sum(masked, COUNTS)]


def as_counts(numbers: Any) -> Elements:
    """Return whole numbers as elements of the ring of counts."""
    return np.asarray(numbers, np.int64).ravel().astype(np.uint64)
