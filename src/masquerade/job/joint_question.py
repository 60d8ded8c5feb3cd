"""Build the contract of a question about `[parties.NAME]`: how far columns of several parties together identify."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from masquerade.anonymize.method import Method
from masquerade.errors import ParameterError
from masquerade.forms.declared import read_declared
from masquerade.job.contributions import check_headers, check_identifiers, check_sources, contributions
from masquerade.job.plan import Plan
from masquerade.job.providers import Headers
from masquerade.methods import CommonKeys, written_method
from masquerade.privacy.requirement import Conjunction, Requirement
from masquerade.protocol.contract import Contract
from masquerade.protocol.joint_keys.method import MOST_SETS, JointKeys
from masquerade.risk.separation import Measure

ColumnSet = tuple[str, ...]


class QuestionPlan(Plan):
    """A job whose parties are asked a question: what would be made of their tables does not matter.

    Of `[algorithm]` only `align` does, which says how the common records are found.
    """

    def _method(self) -> Method | None:
        self.common = CommonKeys()
        told = {key: value for key, value in self.job.algorithm.items() if key == "align"}
        read, wrong = read_declared(JointKeys, told)
        for problem in wrong:
            self.problems.broken(("algorithm", *problem.key), problem)
        self.align = (read or JointKeys()).align
        return None

    def _requirement(self) -> Requirement:
        return Conjunction([])

    def _check_command(self) -> None:
        """Let keys of every command be."""


def check_question(plan: Plan) -> None:
    """Check all that can be checked before the parties' tables are read."""
    if not plan.job.parties:
        plan.problems.add(("parties",), "missing; to ask about one table, name the table itself")
        return
    check_sources(plan)
    check_identifiers(plan)


def columns_in_question(plan: Plan, columns: Sequence[str] | None) -> ColumnSet:
    """Return the columns named, or else all attributes of the job."""
    names = tuple(columns or plan.job.attributes)
    if not names:
        raise ParameterError(
            f"{plan.path}: name the columns to ask about (columns), or give them [attributes.NAME] tables"
        )
    return names


def question_contract(
    plan: QuestionPlan,
    headers: Headers,
    columns: ColumnSet,
    *,
    sizes: range | None,
    measure: Measure,
    precision: float | None,
    sample: int | None,
) -> Contract | None:
    """Return the contract of a question about these columns together; None if problems are recorded in the plan.

    With `sizes`, the question is about every set of that size that is spread over two parties or more.
    """
    check_headers(plan, headers)
    held = contributions(plan, headers, columns, "attribute")
    if plan.problems.found:
        return None
    holder = {each.name: each.holder for each in held}
    if len({*holder.values()}) < 2:
        (one,) = {*holder.values()}
        raise ParameterError(
            f"{', '.join(columns)}: all are {one}'s; a joint key has columns of two parties or more, "
            f"and {one} can ask about its own table alone"
        )
    sets = [columns] if sizes is None else list(_spread(columns, holder, sizes))
    if len(sets) > MOST_SETS:
        raise ParameterError(
            f"{len(sets)} sets of columns of several parties: at most {MOST_SETS} may be asked about in one session, "
            "for every ratio tells something; name fewer columns, or a smaller max_size"
        )
    if not sets:
        raise ParameterError(
            "a set of columns of several parties has 2 columns or more; name a larger max_size"
        )
    question = JointKeys(
        sets=tuple(sets),
        measure=measure,
        precision=precision,
        sample=sample,
        least_records=1,  # one hand holds all tables
        align=plan.align,
    )
    return Contract(
        parties=tuple(plan.job.parties),
        columns=tuple(held),
        requirements=(),
        method=written_method(question),
        normalize=next(iter(plan.job.parties.values())).normalize,
    )


def _spread(columns: ColumnSet, holder: dict[str, str], sizes: range) -> list[ColumnSet]:
    """Return the sets of columns that no single party holds, the smaller ones first."""
    return [
        each
        for size in sizes
        for each in combinations(columns, size)
        if len({holder[name] for name in each}) > 1
    ]
