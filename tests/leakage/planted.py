"""Leaks that are planted by replacing an attribute of the loaded program: a method, a function, a constant.

`planted(NAME)` plants one for the rest of this process; test_planted_leaks.py does so in one that is forked for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from nacl import bindings

from masquerade.audit import AuditLog
from masquerade.crypto import gmw, hashing, oblivious_prf
from masquerade.crypto.secure_sum import KEY_BYTES, MaskKey, PairwiseMasks
from masquerade.net import Message, script
from masquerade.protocol import hand_in
from masquerade.protocol.comparing import argmax
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.sensitive import histogram
from masquerade.service.node.session import PartySession
from masquerade.utility import queries


@dataclass(frozen=True)
class PlantedAttribute:
    """What replaces attributes, the test that notices, and a part of what it says: it fails for this leak."""

    name: str
    plant: Callable[[], None]
    noticed_by: str
    because: str


def replaced(owner: Any, attribute: str, made: Callable[[Any], Any]) -> None:
    """Replace an attribute by what is made of it; a function also where other modules of ours have imported it."""
    old = getattr(owner, attribute)
    new = made(old)
    setattr(owner, attribute, new)
    for name, module in list(sys.modules.items()):
        if name.startswith(("masquerade.", "leakage.")) and vars(module).get(attribute) is old and callable(old):
            setattr(module, attribute, new)


def _records_in_progress() -> None:
    """The stage of a learning party counts the records that it has."""

    def told(party: Callable[..., Any]) -> Callable[..., Any]:
        def telling(self: LearningMethod, participant: Any) -> Any:
            on_stage, rows = participant.on_stage, len(participant.table)
            counting = lambda stage: on_stage(replace(stage, round=rows) if stage.name == self.activity else stage)  # noqa: E731
            object.__setattr__(participant, "on_stage", counting)
            return (yield from party(self, participant))

        return telling

    replaced(LearningMethod, "party", told)


def _text_of_errors() -> None:
    """A party tells the coordinator every error as it is."""
    replaced(PartySession, "_told", lambda _: lambda self, error: tuple(each.rendered() for each in error.problems))


def _fine_holders() -> None:
    """A holder tells its query error with two more digits."""
    setattr(queries, "HOLDERS_UNIT", 10_000)  # noqa: B010


def _fine_summary() -> None:
    """A summary has its query error with two more digits."""
    setattr(queries, "_DECIMALS", 6)  # noqa: B010


def _fine_times() -> None:
    """A party hands in how long it took as it was measured."""
    replaced(hand_in, "shown_seconds", lambda _: lambda seconds, exactly: dict(seconds))


def _row_in_audit() -> None:
    """At a session's end the audit log gets the first row of the table."""

    def told(add: Callable[..., Any]) -> Callable[..., Any]:
        def telling(self: AuditLog, *events: Any) -> Any:
            more = [
                (event, {**fields, "culprit": "41 heart cold"} if event == "session end" else fields)
                for event, fields in events
            ]
            return add(self, *more)

        return telling

    replaced(AuditLog, "add", told)


def _short_key() -> None:
    """A party's mask key is made of two random bytes."""

    def begun(_: Any) -> Callable[[MaskKey], None]:
        def init(self: MaskKey) -> None:
            self._secret = hashing.random_bytes(2) * (KEY_BYTES // 2)
            self.public = bindings.crypto_scalarmult_base(self._secret)

        return init

    replaced(MaskKey, "__init__", begun)


def _stretched_key() -> None:
    """The same of as many bytes as it should be, of which two count."""

    def begun(init: Callable[[MaskKey], None]) -> Callable[[MaskKey], None]:
        def shortened(self: MaskKey) -> None:
            init(self)
            self._secret = self._secret[:2] * (KEY_BYTES // 2)
            self.public = bindings.crypto_scalarmult_base(self._secret)

        return shortened

    replaced(MaskKey, "__init__", begun)


def _zeros(module: ModuleType) -> Callable[[], None]:
    """What this module draws is zero."""
    return lambda: setattr(module, "random_bytes", bytes)


def _zero_slots() -> None:
    """The slots beside a store are zero."""
    honest, size = hashing.random_bytes, 8 * oblivious_prf._MASK_SLOTS
    setattr(oblivious_prf, "random_bytes", lambda count: bytes(count) if count == size else honest(count))  # noqa: B010


def _zero_words() -> None:
    """The masks of the joint histogram are zero."""
    setattr(histogram, "random_words", np.zeros)  # noqa: B010


def _bare_summands() -> None:
    """Summands of sites have no masks."""
    replaced(PairwiseMasks, "mask", lambda _: lambda self, values, _: self._ring.elements(values))


def _no_hash() -> None:
    """The pseudo-random function returns what its hash should be of."""

    def begun(init: Callable[..., None]) -> Callable[..., None]:
        def unhashed(self: Any, session: bytes) -> None:
            init(self, session)
            self.hash = SimpleNamespace(hash=lambda inputs, _: inputs)

        return unhashed

    replaced(oblivious_prf._Public, "__init__", begun)


def _order_of_maps() -> None:
    """The maps of a message are sent in the order in which they were filled, backwards."""

    def backwards(message: Message) -> bytes:
        maps = {name: each for name in message.__struct_fields__ if isinstance(each := getattr(message, name), dict)}
        turned = {name: dict(reversed(each.items())) for name, each in maps.items()}
        return msgspec.msgpack.encode(replace(message, **turned))

    replaced(script, "encode", lambda _: backwards)


WORLDS = "test_masked_fields.py::test_two_worlds_look_alike"
KEYS = "test_keys.py"
FIGURES = "test_figures.py"
PLANTED = {
    each.name: each
    for each in (
        PlantedAttribute(
            "the number of records in the progress of a party that learns",
            _records_in_progress,
            f"{FIGURES}::test_progress_counts_what_it_may[id3, 2 parties, whole records]",
            "the progress of 'growing the tree' tells ['round']",
        ),
        PlantedAttribute(
            "an error of a table, with its text, to the coordinator",
            _text_of_errors,
            f"{FIGURES}::test_no_cell_of_a_table_that_is_amiss_reaches_the_coordinator[session]",
            "shows a cell of the table",
        ),
        PlantedAttribute(
            "a row of the table in the audit log",
            _row_in_audit,
            f"{FIGURES}::test_a_service_tells_no_other_figures[False]",
            "the audit log's session end has culprit",
        ),
        PlantedAttribute(
            "two more digits of a holder's query error",
            _fine_holders,
            f"{FIGURES}::test_a_query_error_is_told_as_finely_as_stated",
            "a holder's query error is told as",
        ),
        PlantedAttribute(
            "two more digits of a summary's query error",
            _fine_summary,
            f"{FIGURES}::test_a_query_error_is_told_as_finely_as_stated",
            "query error of a summary is told as",
        ),
        PlantedAttribute(
            "times that are not rounded",
            _fine_times,
            f"{FIGURES}::test_times_are_told_as_finely_as_stated",
            "finer than 0 decimals",
        ),
        PlantedAttribute(
            "a mask key that is drawn of 16 bits",
            _short_key,
            f"{KEYS}::test_keys_of_a_session_are_drawn_long_enough[logistic, 3 sites]",
            "draws 2 bytes, which somebody could guess",
        ),
        PlantedAttribute(
            "a mask key of which 16 bits are used",
            _stretched_key,
            f"{KEYS}::test_a_key_has_its_whole_length_and_never_comes_twice[the key of masks]",
            "the key of masks: only",
        ),
        PlantedAttribute("a store without random slots beside it", _zero_slots, f"{WORLDS}[alignment by prf]", "prf"),
        PlantedAttribute(
            "the pseudo-random function without its hash",
            _no_hash,
            "test_masked_alignment.py::test_values_of_the_function_are_hashes_of_what_is_linear",
            "F is not the hash",
        ),
        PlantedAttribute(
            "the order of the keys of a map",
            _order_of_maps,
            "test_frozen.py::test_maps_are_in_the_order_of_their_keys[id3, 2 parties, whole records]",
            "is not in the order of its keys",
        ),
        PlantedAttribute("a bid whose mask is zero", _zeros(argmax), f"{WORLDS}[comparison]", ""),
        PlantedAttribute("triples that are zero", _zeros(gmw), f"{WORLDS}[shared circuit]", ""),
        PlantedAttribute("zero masks in the look-up of the joint histogram", _zero_words, f"{WORLDS}[look-up]", ""),
        PlantedAttribute("summands of sites without their masks", _bare_summands, f"{WORLDS}[sum]", ""),
    )
}


def planted(name: str) -> None:
    """Plant a leak."""
    PLANTED[name].plant()
