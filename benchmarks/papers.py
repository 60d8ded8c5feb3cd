"""Every published experiment again: our figures beside the papers', each with its verdict, on one page.

`masquerade bench papers [--paper NAME] [--data DIR] [--out DIR] [--quick]` writes papers.html, the rows as papers.csv,
and each experiment's own results. --quick runs smaller settings. Without UCI's files it runs on generated data, whose
figures cannot be compared.
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import _data
import _stand_in
from _exhibits import PAPERS
from _exhibits.exhibit import NOT_COMPARABLE, NOT_RUN, Experiment, Paper, Results, Verdict
from _exhibits.seen import Seen
from _figures import Say, duration
from _papers_page import write_page
from masquerade.cli import bench
from masquerade.errors import MasqueradeError, ParameterError, hint

FOLDER = Path("masquerade-papers")  # without --out


def run(say: Say, save: Path | None, *, paper: str | None = None, quick: bool = False) -> dict[str, Any]:
    chosen = _chosen(paper)
    folder = save or FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as generated:
        real = _find_data(say, Path(generated))
        started = time.perf_counter()
        bugs: list[Exception] = []
        seen = list(_repeat(say, folder, chosen, quick, real, bugs))
    write_page(seen, folder, real, time.perf_counter() - started)
    _write_rows(seen, folder / "papers.csv")
    for each in seen:
        why = f" ({each.verdict.why})" if each.verdict.why else ""
        say(f"{each.paper.name}, {each.exhibit.name}: {each.verdict.word}{why}")
    say(f"{folder / 'papers.html'}, {folder / 'papers.csv'}: {duration(time.perf_counter() - started)}")
    if bugs:
        raise bugs[0]  # not before the figures of the others are written
    return {"exhibits": [_told(each) for each in seen]}


def _chosen(name: str | None) -> list[Paper]:
    known = {each.name for each in PAPERS} | {each.text for each in PAPERS if each.text}
    if name is not None and name not in known:
        raise ParameterError(f'bench: no paper "{name}"{hint(name, known)}; there are {", ".join(sorted(known))}')
    return [each for each in PAPERS if name in (None, each.name, each.text)]


def _find_data(say: Say, generated: Path) -> bool:
    """Use generated data where UCI's is not there, and say where to get it."""
    if (_data.folder("adult") / "adult.data").exists():
        return True
    say(
        "no adult/adult.data beside the checkout (../shared/data) or below --data: the experiments run on generated "
        f"data, whose figures cannot be compared with the papers'. {_data.SOURCES}."
    )
    _stand_in.write_stand_ins(generated)
    _data.use(generated)
    return False


def _repeat(
    say: Say, folder: Path, papers: Sequence[Paper], quick: bool, real: bool, bugs: list[Exception]
) -> Iterator[Seen]:
    """Run each experiment once, whatever the number of its exhibits; those that fail by a bug are added to `bugs`."""
    ran: dict[str, tuple[Results | Exception, float]] = {}
    needed = list(dict.fromkeys(each.name for paper in papers for each in paper.experiments))
    for paper in papers:
        for experiment in paper.experiments:
            if experiment.name not in ran:
                say(f"-- {len(ran) + 1} of {len(needed)}")
                started = time.perf_counter()
                results = _run(experiment, folder, quick)
                ran[experiment.name] = results, time.perf_counter() - started
                if isinstance(results, Exception) and not isinstance(results, MasqueradeError):
                    bugs.append(results)
            results, seconds = ran[experiment.name]
            for exhibit in experiment.exhibits:
                if isinstance(results, Exception):
                    verdict, rows = Verdict(NOT_RUN, _why(results)), []
                else:
                    rows = exhibit.own_rows(results)
                    comparable = real or not experiment.on_uci_data
                    generated = Verdict(NOT_COMPARABLE, "generated data")
                    verdict = exhibit.judge(results, rows) if comparable else generated
                yield Seen(paper, experiment, exhibit, verdict, rows, seconds, quick)


def _why(failure: Exception) -> str:
    return str(failure) if isinstance(failure, MasqueradeError) else f"a bug of ours ({type(failure).__name__})"


def _run(experiment: Experiment, folder: Path, quick: bool) -> Results | Exception:
    """Return the results, or why there are none: one experiment that cannot run does not end the others."""
    path = bench.find_experiments()[experiment.name]
    try:
        return bench.run(experiment.name, path, folder, constants=experiment.quick if quick else {})
    except Exception as error:
        return error


def _told(seen: Seen) -> dict[str, Any]:
    return {
        "paper": seen.paper.name,
        "exhibit": seen.exhibit.name,
        "shows": seen.exhibit.shows,
        "experiment": seen.experiment.name,
        "settings": seen.settings,
        "verdict": seen.verdict.word,
        "why": seen.verdict.why,
        "seconds": round(seen.seconds, 2),
        "rows": list(seen.rows),
    }


def _write_rows(seen: Sequence[Seen], path: Path) -> None:
    fields = ("paper", "exhibit", "experiment", "settings", "verdict", "why", "seconds")
    of_row = ("what", "measured", "reference", "ratio", "goal", "met")
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([*fields, *of_row])
        for told in map(_told, seen):
            for row in told["rows"] or [{}]:
                rows.writerow([*(told[field] for field in fields), *(row.get(field, "") for field in of_row)])
