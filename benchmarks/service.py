"""200 requests at once over 8 party nodes: all are published or refused for a stated reason, and what that takes.

One coordinator and 8 nodes as processes on this machine, some 2,500 people each in CSV, Parquet and SQLite; 10 users
post all requests at once over the HTTP interface and watch each. 40 of the requests differ, the others repeat one of
them. Some policies refuse a purpose, a user, a price, or a second release of the same snapshot with other QIDs; one
party takes two sessions at a time, the others four.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _figures import Figure, Say, duration, save_chart, tell
from _service import COORDINATOR, Crowd, Seen, run_crowd
from masquerade.report.charts import Series, line_chart
from masquerade.service import Session

CROWD = Crowd()


def run(say: Say, save: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        seen = run_crowd(Path(folder), CROWD)
    told = outcome(seen)
    for reason, count in told["refusals"].items():
        say(f"refused {count}: {reason}")
    for cause in told["failures"]:
        say(f"FAILED: {cause}")
    save_chart(save, "service", _chart(seen))
    return {"figures": tell(say, _figures(seen, told)), **told}


def outcome(seen: Seen) -> dict[str, Any]:
    """What became of the sessions, in numbers and reasons."""
    published = [each for each in seen.sessions if each.published]
    refused = [each for each in seen.sessions if each.status == "refused"]
    failed = [each for each in seen.sessions if not each.published and each not in refused]
    why = [*(each.reasons for each in refused), *seen.turned_away]
    return {
        "requests": len(seen.sessions) + len(seen.turned_away),
        "published": len(published),
        "from_cache": sum(each.started is None for each in published),
        "refused": len(why),
        "refused_without_reason": sum(not reasons for reasons in why),
        "failed": len(failed),
        "retried": sum(each.attempts > 1 for each in seen.sessions),
        "refusals": dict(Counter(line for reasons in why for line in {*map(_short, reasons)}).most_common()),
        "failures": [f"{each.status}: {each.cause}" for each in failed],
        "seconds": seen.seconds,
        "seconds_to_publication": sorted(map(_took, published)),
        "again": len(seen.again),
        "again_from_cache": sum(each.published and each.started is None for each in seen.again),
        "seconds_again": sorted(map(_took, seen.again)),
        "bytes_sent": seen.sent,
        "peaks": dict(seen.peaks),
    }


def _short(reason: str) -> str:
    """A reason without what differs from request to request."""
    return re.sub(r" \(.*?\)", "", reason.removeprefix("party "))


def _took(session: Session) -> float:
    assert session.created is not None
    assert session.finished is not None
    return (session.finished - session.created).total_seconds()


def _figures(seen: Seen, told: dict[str, Any]) -> Iterator[Figure]:
    requests = told["requests"]
    ended = told["published"] + told["refused"]
    yield Figure(
        f"{requests} requests at once",
        f"{told['published']} published ({told['from_cache']} from the cache), {told['refused']} refused",
        goal="all published, or refused for a stated reason",
        met=ended == requests and not told["refused_without_reason"],
    )
    yield Figure("failed", str(told["failed"]), goal="0", met=told["failed"] == 0)
    yield Figure("all requests taken after", duration(seen.posting))
    yield Figure("all sessions ended after", duration(seen.seconds))
    yield Figure("requests a second", f"{requests / seen.seconds:.1f}")
    spent: Sequence[float] = told["seconds_to_publication"]
    if spent:
        half, most = np.percentile(spent, [50, 95])
        yield Figure("time to publication", f"p50 {duration(float(half))}, p95 {duration(float(most))}")
    if seen.again:
        half = float(np.percentile(told["seconds_again"], 50))
        yield Figure(
            f"asked again by {told['again']} users",
            f"{told['again_from_cache']} from the cache, p50 {duration(half)}",
            goal="all from the cache",
            met=told["again_from_cache"] == told["again"],
        )
    yield Figure("sent between parties", f"{told['bytes_sent'] / 1e6:.1f} MB")
    yield Figure("peak memory of the coordinator", f"{seen.peaks[COORDINATOR] / 1e6:.0f} MB")
    nodes = [peak for name, peak in seen.peaks.items() if name != COORDINATOR]
    yield Figure("peak memory of a node", f"{max(nodes) / 1e6:.0f} MB")


def _counted(times: Sequence[float]) -> list[tuple[float, float]]:
    """How many there were at some 25 of the times, the last among them."""
    every = -(-len(times) // 25)
    points: list[tuple[float, float]] = [(at, count) for count, at in enumerate(times, start=1)]
    return [*points[:-1:every], *points[-1:]]


def _chart(seen: Seen) -> str:
    published = sorted(_took(each) for each in seen.sessions if each.published)
    ended = sorted(_took(each) for each in seen.sessions if each.finished is not None)
    return line_chart(
        [Series("ended", _counted(ended)), Series("published", _counted(published))],
        title="Sessions that have ended",
        x_name="seconds since the request",
        y_name="sessions",
        from_zero=True,
    )
