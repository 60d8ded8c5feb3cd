"""Any bytes as a job file: a plan for one table or for several parties, or a JobError."""

from __future__ import annotations

from fuzz.oracle import allowing, scratch
from job.job_files import write_job
from masquerade.errors import JobError
from masquerade.jobs.parties import check_parties, contract_of
from masquerade.jobs.plan import Plan

FOLDER = scratch()
write_job(FOLDER)
COLUMNS = ("ssn", "age", "job", "city", "disease", "income", "hospital")


def fuzz(data: bytes) -> None:
    path = FOLDER / "job.toml"
    path.write_bytes(data)
    with allowing(JobError):
        plan = Plan(path)
        plan.outputs()
        if plan.job.parties and plan.job.data is None:
            check_parties(plan)
            plan.schema()
            plan.settle()
            contract_of(plan, dict.fromkeys(plan.job.parties, COLUMNS))
        else:
            plan.data(), plan.algorithm(plan.schema())
        plan.settle()
