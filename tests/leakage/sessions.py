"""Every protocol and role on small inputs."""

from __future__ import annotations

from leakage import (
    align_sessions,
    collaborate_sessions,
    dka_sessions,
    joint_keys_sessions,
    learn_method_sessions,
    learn_sessions,
    mashup_sessions,
)
from leakage.views import Session

SESSIONS: dict[str, Session] = {
    each.name: each
    for protocol in (
        align_sessions,
        mashup_sessions,
        dka_sessions,
        collaborate_sessions,
        learn_sessions,
        learn_method_sessions,
        joint_keys_sessions,
    )
    for each in protocol.SESSIONS
}
