"""What a party brings into a session of a job: its table, without incomplete rows, and its identifiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from masquerade.data.reading import Source
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.engine.chunks import Engine
from masquerade.errors import BadInput, ClusterError, DataError, MasqueradeError, ParameterError
from masquerade.forms.form import fill
from masquerade.forms.problems import Problems
from masquerade.forms.toml import read_toml
from masquerade.job.attributes import schema_of
from masquerade.job.engines import engine_of
from masquerade.job.joint_question import QuestionPlan
from masquerade.job.learning import LearningPlan
from masquerade.job.model import Job, TableSection
from masquerade.job.plan import Plan
from masquerade.job.requirements import tell_values
from masquerade.job.tables import section_file
from masquerade.methods import learning_method_of, product_of
from masquerade.protocol.contract import Contract
from masquerade.protocol.identifiers import identifiers
from masquerade.protocol.learn.own_records import complete_records
from masquerade.protocol.listed_values import refuse_unknown_to
from masquerade.protocol.product import ANSWER, MODEL


def own_input(job: Path, name: str, contract: Contract) -> tuple[Table, tuple[str, ...], Sequence[bytes]]:
    """Return a party's table, the names of the columns that it keeps to itself, and its identifiers, if needed."""
    made = product_of(contract)
    if made is MODEL:
        plan: Plan = LearningPlan(job)
        table, left_out = own_records(plan, name, contract)
    else:
        plan = QuestionPlan(job) if made is ANSWER else Plan(job)
        table, left_out = own_table(plan, name, contract)
    if contract.provider is not None:
        return table, left_out, []  # they have nobody in common
    return table, left_out, identifiers(table, plan.job.parties[name].id, contract.normalize)


@contextmanager
def own_engine(job: Path) -> Iterator[Engine | None]:
    """Open the engine on which a party counts, if the job names one."""
    section = fill(Job, read_toml(job), Problems(str(job))).engine
    if section is None:
        yield None
        return
    try:
        with engine_of(section) as engine:
            yield engine
    except (BadInput, ClusterError) as error:
        raise (error.within(str(job)) if _is_about_engine(error) else error) from None


def _is_about_engine(error: MasqueradeError) -> bool:
    return any(problem.key[:1] == ("engine",) for problem in error.problems)


def own_table(plan: Plan, name: str, contract: Contract) -> tuple[Table, tuple[str, ...]]:
    """Return the party's table without incomplete rows, and the names of the columns that it keeps to itself."""
    section, needed = plan.job.parties[name], contract.columns_needed(name)
    qid = {column.name for column in contract.qid_columns}
    source, table = _read(plan, section, needed, section.id, qid)
    used = list(dict.fromkeys([*needed, section.id] if section.id else needed))
    if section.id and section.missing == "keep":  # nobody is found without an identifier
        table = table.complete([section.id])
    table = table.complete(used, section.missing)
    if not len(table):
        raise DataError.about(source.origin.name, "no complete row is left")
    # Report wrong cells and unknown values before any other party is involved.
    table.columns(column.name for column in contract.columns_of(name) if column.name in qid)
    try:
        refuse_unknown_to(name, contract, table.coded)
    except ParameterError as error:
        tell_values(plan.job, plan.problems, error, plan.base)
        plan.settle()
    return table, tuple(each for each in source.all_columns if each not in needed)


def own_records(plan: Plan, name: str, contract: Contract) -> tuple[Table, tuple[str, ...]]:
    """Return the records that a party, or the one table of a job, learns from, and the columns it keeps to itself.

    Cells that are wrong are reported before any other party is involved.
    """
    party = plan.job.parties.get(name)
    section, identifier = (plan.data(), "") if party is None else (party, party.id)
    needed = contract.columns_needed(name)
    source, table = _read(plan, section, needed, identifier if contract.provider is None else "", frozenset())
    table = complete_records(learning_method_of(contract), contract, name, table, section.missing)
    return table, tuple(each for each in source.all_columns if each not in needed)


def _read(
    plan: Plan,
    section: TableSection,
    needed: tuple[str, ...],
    identifier: str,
    qid: frozenset[str] | set[str],
) -> tuple[Source, Table]:
    """Read the columns that a contract needs of a section's table, and the identifiers."""
    schema = schema_for(plan, needed, qid)
    used = list(dict.fromkeys([*needed, identifier] if identifier else needed))
    source = section_file(section, plan.base).read(used, needed)
    return source, Table(source.table, schema, origin=source.origin)


def schema_for(plan: Plan, needed: tuple[str, ...], qid: frozenset[str] | set[str]) -> Schema:
    """Return what a job says about the columns that a contract needs of a party."""
    attributes = {each: plan.job.attributes[each] for each in needed if each in plan.job.attributes}
    schema = schema_of(plan.job.model_copy(update={"attributes": attributes}), qid, plan.base, plan.problems)
    plan.settle()
    return schema
