"""A party's script by its contract's method, as a party process and a node start it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import masquerade as mq
from masquerade.methods import method_of
from masquerade.net import Script
from masquerade.protocol import Contract, Participant


def party_script(
    name: str, contract: Contract, table: mq.Table, ids: Sequence[bytes] = (), **hooks: Any
) -> Script[int]:
    return method_of(contract).party(Participant(name, contract, table, ids, **hooks))
