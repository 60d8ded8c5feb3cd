"""What a session makes, a table, a model or an answer: how it is judged, described and written.

Publishing asks here, and nowhere else. Each function has one way for each of them, chosen by what it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import Any

from masquerade.anonymize.release import Release
from masquerade.data.write import write_table
from masquerade.files import write_whole
from masquerade.methods import plain_method
from masquerade.protocol.joint_keys.ratios import JointRatios
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.method import REPORTED_SETTINGS
from masquerade.protocol.product import ANSWER, MODEL, TABLE
from masquerade.report.answer import render_answer
from masquerade.report.html import render_report
from masquerade.report.model import render_model
from masquerade.report.risks import attacks_on
from masquerade.service import quality
from masquerade.service.further_releases import can_be_rolled_up
from masquerade.service.kinds import RULES
from masquerade.service.quality import Figures
from masquerade.service.terms import Terms

Made = Release | Learned | JointRatios


@singledispatch
def figures_of(made: Made, terms: Terms) -> Figures:
    """Return the figures that a request may limit: of a model or an answer there are none."""
    return {}


@figures_of.register
def _(made: Release, terms: Terms) -> Figures:
    return quality.figures_of(made, terms)


@singledispatch
def losses_of(made: Made, terms: Terms) -> dict[str, dict[str, float]]:
    """Return what each column lost, to be named beside the figures, and which lost nearly all."""
    return {}


@losses_of.register
def _(made: Release, terms: Terms) -> dict[str, dict[str, float]]:
    return quality.losses_of(made, terms)


@singledispatch
def as_asked(made: Made, columns: Sequence[str], *, show_steps: bool) -> Made:
    """Return it with its columns in the order of the request, and without steps that nobody may see."""
    return made


@as_asked.register
def _(made: Release, columns: Sequence[str], *, show_steps: bool) -> Made:
    release = replace(made, table=made.table.select(list(columns)))
    return release if show_steps else replace(release, steps=())


@singledispatch
def bound(made: Made, terms: Terms) -> Made:
    """Return it with what its parties let follow it, so that nothing else is advised."""
    return made


@bound.register
def _(made: Release, terms: Terms) -> Made:
    return replace(made, followed_by="coarser" if can_be_rolled_up(terms) else "nothing")


def rows_of(made: Made) -> int:
    """Return how many records are paid for: those released, learned from, or compared."""
    if isinstance(made, Release):
        return int(made.table.num_rows)
    return made.n_records if isinstance(made, Learned) else made.compared


def kind_figures(made: Made, terms: Terms) -> dict[str, Any]:
    """Return the figures that only sessions of one kind have; without groups nothing is promised against colluders."""
    rules = RULES[terms.arrangement]
    return rules.figures(terms, made.rows) if isinstance(made, Release) else {"kind": rules.name}


@singledispatch
def summary_of(made: Made, *, show_steps: bool) -> dict[str, Any]:
    """Return its own figures; nothing in it depends on who asked."""
    raise NotImplementedError


@summary_of.register
def _(made: Release, *, show_steps: bool) -> dict[str, Any]:
    summary = made.summary
    if not show_steps:
        del summary["steps"]
    settings = {name: made.settings[name] for name in REPORTED_SETTINGS if name in made.settings}
    return {**summary, **settings, "attacks": [each.summary() for each in attacks_on(made)]}


@summary_of.register
def _(made: Learned, *, show_steps: bool) -> dict[str, Any]:
    return {**made.summary(), "roles": dict(made.roles), "curves": dict(made.curves)}


@summary_of.register
def _(made: JointRatios, *, show_steps: bool) -> dict[str, Any]:
    return made.summary()


def seconds_of(made: Made) -> dict[str, float]:
    """Return how long its parts took; a table's own dictionary, to which the writing is added."""
    return made.seconds if isinstance(made, Release) else dict(made.seconds)


@singledispatch
def written_in(made: Made, folder: Path) -> Path:
    """Write its files into a folder; return the one that its digest is of."""
    raise NotImplementedError


@written_in.register
def _(made: Release, folder: Path) -> Path:
    files = [folder / name for name in TABLE.files.values()]
    for file in files:
        write_table(made.table, file)
    return files[0]


@written_in.register
def _(made: Learned, folder: Path) -> Path:
    plain = replace(made, algorithm=plain_method(made.algorithm))
    file = folder / MODEL.files["json"]
    write_whole(file, plain.file())
    return file


@written_in.register
def _(made: JointRatios, folder: Path) -> Path:
    file = folder / ANSWER.files["json"]
    write_whole(file, made.file())
    return file


@singledispatch
def page_of(made: Made, sha256: str) -> str:
    """Return its report."""
    raise NotImplementedError


@page_of.register
def _(made: Release, sha256: str) -> str:
    return render_report(made, sha256)


@page_of.register
def _(made: Learned, sha256: str) -> str:
    return render_model(made)


@page_of.register
def _(made: JointRatios, sha256: str) -> str:
    return render_answer(made)
