"""A steward's decision on a deal: into the audit log first, then it counts."""

from __future__ import annotations

import time
from collections.abc import Mapping

from masquerade.audit.log import AuditLog
from masquerade.service.node.approvals import Approvals, Decision
from masquerade.service.node.settings import Settings
from masquerade.service.node.state import State


def decide(
    settings: Settings, word: str, reason: str | None, operator: Mapping[str, str | None]
) -> tuple[str, Decision | None]:
    """Approve the deal that `word` names, or refuse it with a reason; return its whole name and the decision before.

    `operator` says who decided.
    """
    state = State(settings.state)
    approvals = Approvals(state)
    deal = approvals.known(word)
    before = approvals.decided(deal)
    with AuditLog(state.audit, settings.identity) as audit:
        if reason is None:
            audit.append("approval", {"deal": deal, **operator})
        else:
            audit.append("disapproval", {"deal": deal, "reason": reason, **operator})
    now = int(time.time())
    if reason is None:
        approvals.approve(deal, now)
    else:
        approvals.refuse(deal, now, reason)
    return deal, before
