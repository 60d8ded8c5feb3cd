"""A mashup of Adult: parties as processes over TLS, with plain and hidden scores; bytes beside the information."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import _adult
from _figures import Figure, Say, duration, tell
from masquerade.anonymize import LocalView, PublicState
from masquerade.data import Records, Table
from masquerade.engine import value_counts
from masquerade.jobs import Mashup, anonymize_job, mashup_job
from masquerade.net import read_transcript
from masquerade.privacy import KAnonymity
from masquerade.utility import SCORES

# The paper's split of its Table 4: the immigration and the taxation department.
IMMIGRATION = (
    *("age", "education-num", "fnlwgt", "relationship", "race", "sex"),
    *("marital-status", "native-country", "education"),
)
TAXATION = tuple(name for name in _adult.ALL14 if name not in IMMIGRATION)
PAPER = {"immigration": IMMIGRATION, "taxation": TAXATION}
CASES = (("Top5, k = 100", _adult.TOP5, 100), ("all 14, k = 50", _adult.ALL14, 50))
MORE_PARTIES = (3, 5)
SENSITIVE = "occupation"
PAPER_SECONDS, CUT_SECONDS = 20, 2
MOST_TIMES_ONE_TABLE = 3  # plain scores of two parties
HIDDEN_SECONDS = {2: 0.25, 5: 1.0}  # by parties
ASKING_SECONDS, ASKING_BYTES = 1, 20_000_000

Split = Mapping[str, Sequence[str]]  # the columns of each party


def run(say: Say, save: Path | None) -> dict[str, Any]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        table = _adult.adult()
        joined = _adult.write_csv(table, Path(folder) / "adult.csv")
        for what, qid, k in CASES:
            alone = anonymize_job(_adult.write_job(joined, qid, k)).release
            for split in (PAPER, *(_dealt(n) for n in MORE_PARTIES if qid == _adult.ALL14)):
                named = what if split is PAPER else f"{what}, {len(split)} parties"
                _write_tables(table, Path(folder), split)
                plain, secure = (
                    mashup_job(_job(Path(folder), joined, qid, k, split, way)) for way in ("plain", "secure")
                )
                for made in (plain, secure):
                    assert [step.value for step in made.release.steps] == [step.value for step in alone.steps]
                figures += _times(named, plain, secure, alone.seconds["anonymize"])
                if split is PAPER:
                    figures.append(_bytes(what, secure.transcripts, table, qid, k))
        figures += _multidimensional(Path(folder), table, joined)
        figures += [_distant(Path(folder), table, joined, method) for method in ("tds", "mondrian")]
        say("every release equals the one-table release; each party is a process, on two cores")
    return {"figures": tell(say, figures)}


def _times(what: str, plain: Mashup, secure: Mashup, one: float) -> list[Figure]:
    """What the protocol took with plain scores, and with hidden ones their preparation included."""
    shown = plain.release.seconds["protocol"]
    hidden = secure.release.seconds["prepare"] + secure.release.seconds["protocol"]
    n_parties = len(plain.bytes_sent)
    two, most_hidden = n_parties == 2, HIDDEN_SECONDS.get(n_parties)
    sent = sum(secure.bytes_sent.values()) - sum(plain.bytes_sent.values())
    return [
        Figure(
            f"{what}: protocol, plain scores",
            duration(shown),
            f"one table {duration(one)}; paper {PAPER_SECONDS} s",
            f"{shown / one:.1f}",
            f"at most {MOST_TIMES_ONE_TABLE} times" if two else "",
            shown <= MOST_TIMES_ONE_TABLE * one if two else None,
        ),
        Figure(
            f"{what}: protocol, hidden scores",
            duration(hidden),
            f"preparing {duration(secure.release.seconds['prepare'])}; {secure.rounds} steps; {sent:,} bytes more",
            f"{hidden / shown:.1f}",
            f"at most {most_hidden} s" if most_hidden else "",
            hidden <= most_hidden if most_hidden else None,
        ),
        Figure(
            f"{what}: align {secure.release.rows:,} records",
            duration(secure.release.seconds["align"]),
            goal="at most 15 s" if two else "",
            met=secure.release.seconds["align"] <= 15 if two else None,
        ),
    ]


def _multidimensional(base: Path, table: pa.Table, joined: Path) -> list[Figure]:
    """Mondrian over all attributes: how long its levels take, and what it keeps beside specialization."""
    what, qid, k = CASES[-1]
    _write_tables(table, base, PAPER)
    jobs = [_adult.write_job(joined, qid, k), _job(base, joined, qid, k, PAPER, "secure")]
    specialised = mashup_job(jobs[1]).release.metrics["ncp"]
    _by_mondrian(jobs)
    alone, made = anonymize_job(jobs[0]).release, mashup_job(jobs[1])
    kept = made.release.metrics["ncp"]
    assert abs(kept - alone.metrics["ncp"]) < 1e-12
    seconds = made.release.seconds["prepare"] + made.release.seconds["protocol"]
    return [
        Figure(
            f"{what}, mondrian: protocol, hidden scores",
            duration(seconds),
            f"one table {duration(alone.seconds['anonymize'])}; {made.rounds} levels; "
            f"{sum(made.bytes_sent.values()):,} bytes in all",
            f"{seconds / alone.seconds['anonymize']:.1f}",
            f"at most {CUT_SECONDS} s",
            seconds <= CUT_SECONDS,
        ),
        Figure(
            f"{what}, mondrian: certainty penalty",
            f"{kept:.4f}",
            f"tds {specialised:.4f}",
            f"{kept / specialised:.2f}",
            "at most a third",
            kept <= specialised / 3,
        ),
    ]


def _by_mondrian(jobs: Sequence[Path], settings: str = "") -> None:
    for job in jobs:
        text = job.read_text(encoding="utf-8").replace('argmax = "secure"\n', "")
        job.write_text(text.replace('name = "tds"', f'name = "mondrian"\n{settings}'), encoding="utf-8")


def _distant(base: Path, table: pa.Table, joined: Path, method: str) -> Figure:
    """ℓ-diversity of an attribute that the taxation department holds, over attributes of both."""
    kept = tuple(name for name in _adult.ALL14 if name != SENSITIVE)
    qid = tuple(name for name in _adult.TOP7 if name != SENSITIVE)
    _write_tables(table, base, PAPER)
    jobs = [_adult.write_job(joined, qid, 100, kept), _job(base, joined, qid, 100, PAPER, "secure", kept)]
    diversity = f'[[privacy]]\nmodel = "l-diversity"\nqid = {list(qid)}\nl = 3\n[output]\n'
    for job in jobs:
        text = job.read_text(encoding="utf-8").replace("[roles]\n", f'[roles]\nsensitive = ["{SENSITIVE}"]\n')
        job.write_text(text.replace("[output]\n", diversity), encoding="utf-8")
    if method == "mondrian":
        _by_mondrian(jobs, 'merge = "small"\n')  # the default only where the values are elsewhere
    alone, made = anonymize_job(jobs[0]).release, mashup_job(jobs[1])
    assert [step.value for step in made.release.steps] == [step.value for step in alone.steps]
    assert abs(made.release.metrics["ncp"] - alone.metrics["ncp"]) < 1e-12
    seconds, sent = (made.release.seconds["prepare"] + made.release.seconds["protocol"], sum(made.bytes_sent.values()))
    return Figure(
        f"{len(qid)} attributes, k = 100, l = 3 of the other party's {SENSITIVE}, {method}: protocol",
        duration(seconds),
        f"{made.rounds} rounds; {sent:,} bytes in all; ncp {made.release.metrics['ncp']:.4f}",
        goal=f"at most {ASKING_SECONDS} s and {ASKING_BYTES / 1e6:.0f} MB in all",
        met=seconds <= ASKING_SECONDS and sent <= ASKING_BYTES,
    )


def _dealt(n_parties: int) -> Split:
    """All attributes, dealt in turn."""
    return {f"party-{number}": _adult.ALL14[number::n_parties] for number in range(n_parties)}


def _write_tables(table: pa.Table, base: Path, split: Split) -> None:
    """Every party's table, its people in an order of its own."""
    ids = pa.array([f"{row:08d}" for row in range(table.num_rows)])
    random = np.random.default_rng(1)
    for party, names in split.items():
        own = table.select([*names, _adult.CLASS]).append_column("id", ids)
        _adult.write_csv(own.take(pa.array(random.permutation(own.num_rows))), base / f"{party}.csv")


def _job(
    base: Path,
    joined: Path,
    qid: tuple[str, ...],
    k: int,
    split: Split,
    argmax: str,
    attributes: Sequence[str] = _adult.ALL14,
) -> Path:
    text = _adult.write_job(joined, qid, k, attributes).read_text(encoding="utf-8")
    parties = "".join(f'[parties.{name}]\nsource = "{name}.csv"\nid = "id"\n' for name in split)
    text = text.replace(f'[data]\nsource = "{joined.name}"\n', parties)
    path = base / f"mashup-{len(qid)}-{argmax}.toml"
    path.write_text(f'{text}argmax = "{argmax}"\n', encoding="utf-8")  # below [algorithm]
    return path


def _bytes(what: str, transcripts: Path, table: pa.Table, qid: tuple[str, ...], k: int) -> Figure:
    """The instructions' bytes beside the information in them: each step's entropy over its carriers."""
    information = _information(table, qid, k)
    sent = {
        each.digest: each
        for party in ("immigration", "taxation")
        for each in read_transcript(transcripts / f"{party}.jsonl")
        if each.direction == "sent" and each.kind == "instruct"
    }
    sizes = [each.size for each in sorted(sent.values(), key=lambda each: each.seconds)]
    allowed = [1.5 * bytes_ + 1000 for bytes_ in information]
    worst = max(size / most for size, most in zip(sorted(sizes), sorted(allowed), strict=True))
    return Figure(
        f"{what}: bytes of {len(sizes)} instructions",
        f"{sum(sizes):,}",
        f"information {sum(information):,.0f}",
        f"{sum(sizes) / sum(information):.2f}",
        "1.5 times and 1 kB a step",
        worst <= 1,
    )


def _information(table: pa.Table, qid: tuple[str, ...], k: int) -> list[float]:
    own = Table(table, _adult.schema())
    names = [name for name in _adult.ALL14 if name in qid]
    state = PublicState(Records.of(own, names, [_adult.CLASS]), names, [KAnonymity(qid, k)], {})
    columns = own.columns(names)
    view = LocalView(dict(enumerate(columns)), state.scored(columns, _adult.CLASS), SCORES["gain-ratio"])
    found = []
    while (best := view.best(state)) is not None:
        winner, split = best
        counts = value_counts(state.children(split), split.n_children)
        total = int(counts.sum())
        found.append(-sum(n * math.log2(n / total) for n in counts.tolist() if n) / 8)
        view.specialise(winner, state.specialise(split))
    return found
