"""What follows for a session from how its parties hold their data, by arrangement."""

from __future__ import annotations

from collections.abc import Mapping

from masquerade.protocol.arrangement import Arrangement
from masquerade.service.kinds.horizontal import Horizontal
from masquerade.service.kinds.kind import SessionRules
from masquerade.service.kinds.vertical import Vertical

RULES: Mapping[Arrangement, SessionRules] = {each.name: each for each in (Vertical(), Horizontal())}
