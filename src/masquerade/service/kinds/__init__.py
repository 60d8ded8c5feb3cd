"""The kinds of sessions, by name."""

from __future__ import annotations

from collections.abc import Mapping

from masquerade.service.kinds.horizontal import Horizontal
from masquerade.service.kinds.kind import SessionKind
from masquerade.service.kinds.vertical import Vertical
from masquerade.service.request import Kind

KINDS: Mapping[Kind, SessionKind] = {each.name: each for each in (Vertical(), Horizontal())}
