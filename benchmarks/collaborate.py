"""Ten providers publish Adult together: as processes over TLS, without a third party, and beside one who sees all.

45,222 records, 9 quasi-identifiers, occupation is sensitive (14 values); m = 3, k = 30, l = 4. Shares are equal, or
fall exponentially (provider i has a share proportional to e^(−i/2)). Each secure release must equal the trusted one.
What the secure mode costs in precision is seen beside the algorithms that look at all counts.
"""

from __future__ import annotations

import resource
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import _adult
from _figures import Figure, Say, duration, tell
from masquerade.data import Generalised, Table, distinct
from masquerade.jobs import Mashup, mashup_job
from masquerade.utility import certainty_penalties

QID = (
    *("age", "workclass", "education", "marital-status", "relationship"),
    *("race", "sex", "hours-per-week", "native-country"),
)
SENSITIVE, N_PROVIDERS, SEED = "occupation", 10, 7
M, K, L = 3, 30, 4
SHARES = {"equal shares": np.ones(N_PROVIDERS), "exponential shares": np.exp(-np.arange(N_PROVIDERS) / 2)}
MOST_BYTES = 500_000_000
EARLIER = {  # bytes, where all providers held every wire and a transfer took 16
    "equal shares": 3_877_000_000,
    "exponential shares": 1_978_000_000,
}
SECURE, TRUSTED = 'third_party = "secure"\n', 'third_party = "trusted"\nchoose = "public"\n'
ALL_COUNTS = 'third_party = "trusted"\nchoose = "certainty"\n'
BASELINE = f"{ALL_COUNTS}provider_aware = false\n"


def run(say: Say, save: Path | None) -> dict[str, Any]:
    figures: list[Figure] = []
    table = _adult.adult()
    for what, shares in SHARES.items():
        with tempfile.TemporaryDirectory() as folder:
            _deal(table, Path(folder), shares)
            figures += _compared(what, Path(folder))
        say(f"{what} are done")
    return {"figures": tell(say, figures)}


def _compared(what: str, base: Path) -> Iterator[Figure]:
    before = _processor_seconds()
    secure = mashup_job(_job(base, SECURE))
    used = _processor_seconds() - before
    trusted, aware, baseline = (mashup_job(_job(base, mode)) for mode in (TRUSTED, ALL_COUNTS, BASELINE))
    assert _rows(secure.release.table) == _rows(trusted.release.table)
    seconds = secure.release.seconds
    yield Figure(
        f"{what}: without a third party",
        duration(seconds["prepare"] + seconds["protocol"]),
        f"with a trusted one {duration(trusted.release.seconds['protocol'])}",
        f"{(seconds['prepare'] + seconds['protocol']) / trusted.release.seconds['protocol']:.0f}",
    )
    bytes_earlier = EARLIER[what]
    yield Figure(f"{what}: processor time of all processes, without a third party", duration(used))
    sent_now = sum(secure.bytes_sent.values())
    yield Figure(
        f"{what}: bytes beside the earlier ones",
        f"{sent_now / 1e6:,.0f} MB",
        f"earlier {bytes_earlier / 1e6:,.0f} MB",
        f"{sent_now / bytes_earlier:.2f}",
        f"under {MOST_BYTES / 1e6:,.0f} MB",
        sent_now < MOST_BYTES,
    )
    for made, how in ((secure, "without a third party"), (trusted, "with a trusted one")):
        sent, messages = sum(made.bytes_sent.values()), sum(made.messages.values())
        yield Figure(f"{what}: sent by all, {how}", f"{sent / 1e6:,.1f} MB", f"{messages:,} messages")
    yield _precision(what, "both modes", secure)
    yield _precision(what, "all counts, provider-aware", aware)
    yield _precision(what, "all counts, baseline", baseline)


def _processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _precision(what: str, how: str, made: Mashup) -> Figure:
    """The certainty penalty by the data's distinct values; the secure mode's own report is by public ranges."""
    original = Table(_adult.adult(), _adult.schema(QID))
    penalties = []
    for column in original.columns(QID):
        codes, values = distinct(made.release.table.column(column.name))
        labels = tuple(values.to_pylist())
        found = [column.domain.range_of(label) for label in labels]
        lo, hi = (np.array([each[end] for each in found if each is not None], np.int64) for end in (0, 1))
        released = Generalised(column.name, codes, labels, lo, hi, column.domain)
        penalties.append(certainty_penalties(released)[codes].mean())
    groups = f"{made.release.group_sizes.size:,} groups"
    return Figure(f"{what}: certainty penalty, {how}", f"{np.mean(penalties):.3f}", groups)


def _rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _deal(table: pa.Table, base: Path, shares: np.ndarray[Any, Any]) -> None:
    random = np.random.default_rng(SEED)
    provider = random.choice(N_PROVIDERS, size=table.num_rows, p=shares / shares.sum())
    for number in range(N_PROVIDERS):
        own = table.take(pa.array(np.flatnonzero(provider == number)))
        _adult.write_csv(own.select([*QID, SENSITIVE]), base / f"provider-{number}.csv")


def _job(base: Path, mode: str) -> Path:
    text = "".join(f'[parties.provider-{number}]\nsource = "provider-{number}.csv"\n' for number in range(N_PROVIDERS))
    for name in QID:
        taxonomy = f'taxonomy = "{(_adult.taxonomies() / name).resolve()}.csv"\n'
        text += f"[attributes.{name}]\n" + ('type = "continuous"\n' if name in _adult.CONTINUOUS else taxonomy)
    text += f'[roles]\nsensitive = ["{SENSITIVE}"]\n'
    text += f'[[privacy]]\nmodel = "k-anonymity"\nqid = {list(QID)}\nk = {K}\n'
    text += f'[[privacy]]\nmodel = "l-diversity"\nqid = {list(QID)}\nl = {L}\n'
    text += f'[[privacy]]\nmodel = "m-privacy"\nm = {M}\n[algorithm]\nname = "mondrian"\n{mode}'
    path = base / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path
