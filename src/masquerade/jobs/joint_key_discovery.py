"""`keys JOB`: how far columns of a job's parties together identify their common people; only ratios come out.

Apart from `keys.py`, which loads no protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.forms import checked, number, whole
from masquerade.jobs.guessing import names_of
from masquerade.jobs.learning import QuestionPlan
from masquerade.jobs.parties import Headers, check_headers, check_identifiers, check_sources, contributions
from masquerade.jobs.session import OnParty, PartiesRun, nobody, party_headers, run_folder, sent_by
from masquerade.methods import written_method
from masquerade.net import Script, run_async
from masquerade.progress import OnStage, Stage, silent
from masquerade.protocol import MOST_SETS, Assembly, Contract, JointKeys, JointRatios
from masquerade.risk import Measure, Weights, checked_weights, weights_of


class _Asking(PartiesRun[JointRatios]):
    def script(self) -> Script[JointRatios]:
        """Hear the ratios."""
        return JointKeys.of(self.contract).assembler(Assembly(self.contract))


@dataclass(frozen=True)
class JointKeysFound:
    """The ratio of a set of columns of several parties; with `all`, the sets that reach a ratio, the lightest first."""

    key: tuple[str, ...]
    ratio: float
    measure: Measure
    precision: float | None
    sampled: int | None  # common records that were compared; None if all were
    common_records: int
    asked: tuple[tuple[tuple[str, ...], float], ...]  # every set of columns that was asked about, with its ratio
    keys: tuple[tuple[tuple[str, ...], float], ...] | None
    seconds: Mapping[str, float]
    bytes_sent: Mapping[str, int]
    messages: Mapping[str, int]

    @property
    def duplicates(self) -> int | None:
        """Common records that equal an earlier one in the columns of the key; None where the ratio does not tell."""
        if self.measure != "distinct" or self.precision is not None:
            return None
        compared = self.common_records if self.sampled is None else self.sampled
        return compared - round(self.ratio * compared)

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary of `keys` on a job with parties."""
        found: dict[str, Any] = {
            "key": list(self.key),
            "ratio": self.ratio,
            "measure": self.measure,
            "precision": self.precision,
            "sampled": self.sampled,
            "duplicates": self.duplicates,
            "common_records": self.common_records,
            "asked": _listed(self.asked),
            "seconds": dict(self.seconds),
            "bytes_sent": dict(self.bytes_sent),
            "messages": dict(self.messages),
        }
        return found if self.keys is None else {**found, "keys": _listed(self.keys)}


def joint_keys(
    job: str | Path,
    *,
    columns: Iterable[str] | None = None,
    measure: Measure = "distinct",
    all: bool = False,
    beta: float | None = None,
    max_size: int = 3,
    precision: float | None = None,
    sample: int | None = None,
    weights: Weights | None = None,
    on_stage: OnStage = silent,
    on_party: OnParty | None = None,
) -> JointKeysFound:
    """Find how far columns of a job's parties together identify their common records.

    Each party is a process of its own, over mutual TLS on this machine; nothing leaves it but what the ratios tell.
    `columns` are asked about as one set (by default the job's attributes). With `all` every set of them is, up to
    `max_size` columns and spread over two parties or more, and those that reach `beta` while no smaller one does are
    the keys. `precision` (such as 0.01) opens ratios rounded down to its multiples; `sample` compares so many of the
    common records at most.
    """
    asked = None if columns is None else names_of("columns", columns)
    if all != (beta is not None):
        raise ParameterError("all and beta belong together between parties: all sets that reach the ratio beta")
    if beta is not None:
        checked(joint_keys, "beta", number(0, 1, open_low=True), beta)
    checked(joint_keys, "max_size", whole(1), max_size)
    plan = QuestionPlan(Path(job))
    if plan.job.parties:
        check_sources(plan)
        check_identifiers(plan)
    else:
        plan.problems.add(("parties",), "missing; to ask about one table, name the table itself")
    plan.settle()
    on_stage(Stage("reading the parties' columns"))
    names = tuple(asked or plan.job.attributes)
    if not names:
        text = "name the columns to ask about (columns), or give them [attributes.NAME] tables"
        raise ParameterError(f"{plan.path}: {text}")
    costs = weights_of(names, checked_weights(weights or {}))
    contract = _contract(
        plan,
        party_headers(plan),
        names,
        sizes=range(2, max_size + 1) if all else None,
        measure=measure,
        precision=precision,
        sample=sample,
    )
    plan.settle()
    assert contract is not None  # otherwise settle has raised
    with run_folder() as folder:
        on_stage(Stage("starting the parties"))
        run = _Asking(plan, contract, folder, on_stage, on_party or nobody)
        found = run_async(run.run())
        sent = sent_by(run)
    ratios = tuple(zip(found.sets, found.ratios, strict=True))
    minimal = None
    if beta is not None:
        minimal = _minimal(ratios, beta, dict(zip(names, costs, strict=True)))
        if not minimal:
            raise AnswerIsNo(f"no {max_size} columns or fewer reach a {measure} ratio of {beta}")
    key, ratio = ratios[0] if minimal is None else minimal[0]
    return JointKeysFound(
        key,
        ratio,
        measure,
        precision,
        found.sampled,
        found.records,
        ratios,
        minimal,
        found.seconds,
        {name: sum(entry.size for entry in entries) for name, entries in sent.items()},
        {name: len(entries) for name, entries in sent.items()},
    )


def _minimal(
    ratios: tuple[tuple[tuple[str, ...], float], ...], beta: float, cost: Mapping[str, float]
) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Return the sets that reach the ratio while no part that was asked about does, the lightest first."""
    reaching = [each for each in ratios if each[1] >= beta]
    minimal = [each for each in reaching if not any({*other} < {*each[0]} for other, _ in reaching)]
    order = {each: at for at, (each, _) in enumerate(ratios)}
    return tuple(sorted(minimal, key=lambda each: (sum(cost[name] for name in each[0]), -each[1], order[each[0]])))


def _listed(sets: tuple[tuple[tuple[str, ...], float], ...]) -> list[dict[str, Any]]:
    return [{"key": list(key), "ratio": ratio} for key, ratio in sets]


def _contract(
    plan: QuestionPlan,
    headers: Headers,
    columns: tuple[str, ...],
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
    sets = [columns]
    if sizes is not None:  # no single party holds a set; the smaller ones first
        every = (each for size in sizes for each in combinations(columns, size))
        sets = [each for each in every if len({holder[name] for name in each}) > 1]
    if len(sets) > MOST_SETS:
        raise ParameterError(
            f"{len(sets)} sets of columns of several parties: at most {MOST_SETS} may be asked about "
            "in one session, for every ratio tells something; name fewer columns, or a smaller max_size"
        )
    if not sets:
        raise ParameterError("a set of columns of several parties has 2 columns or more; name a larger max_size")
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
