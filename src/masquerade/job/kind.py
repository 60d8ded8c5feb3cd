"""Whether a job's parties hold different columns or different people: `algorithm.name` says it."""

from __future__ import annotations

from masquerade.forms.problems import Problems
from masquerade.job.model import Job

MASHUP, PROVIDERS = ("tds", "dka-datafly"), "mondrian"


def is_kind_known(job: Job, problems: Problems) -> bool:
    """Whether the name can be read and is one for parties, if there are any. What follows from another is not told."""
    named = job.algorithm.name in (*MASHUP, PROVIDERS) and not problems.about(("algorithm", "name"))
    return named or not job.parties
