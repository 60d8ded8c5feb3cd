"""Words that the answers of `keys` and `mask` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from masquerade.library.joint_keys import JointKeysFound
    from masquerade.risk.finding import Keys
    from masquerade.risk.publishing import Masked


def looked_at(found: Keys | Masked) -> str:
    """Say how much of the table was looked at."""
    if found.sampled is None:
        return f"all {found.rows:,} rows"
    of = "rows" if found.measure == "distinct" else "pairs"
    return f"{found.sampled:,} {of} of {found.rows:,} rows"


def seconds_of(found: Keys | Masked | JointKeysFound) -> str:
    """Say how long each part took."""
    return "seconds: " + ", ".join(f"{name} {spent:.3f}" for name, spent in found.seconds.items())
