"""Alignment: both ways beside openmined.psi, how the cost grows with parties, and a whole mashup of a million."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _align_party import people
from _parties import HERE, run_parties
from masquerade.data import generate_people, people_taxonomies, write_table
from masquerade.errors import ParameterError

SIZE = 1_000_000  # identifiers of each party
RIVALS = 1  # 0 leaves out the curve and the other programs, which take minutes
FEW = 20_000  # for the curve among more parties
MOST_PARTIES = 5  # 2 leaves out those of more
MASHUP = 1_000_000  # people of the whole mashup; 0 leaves it out
_COLUMNS = {"bank": ("ssn", "birth_date", "sex", "town"), "loans": ("ssn", "job", "education", "salary")}
_JOB = """
[output]
table = "release.csv"
report = "report.html"

[parties.bank]
source = "bank.csv"
id = "ssn"
[parties.loans]
source = "loans.csv"
id = "ssn"

[attributes.birth_date]
type = "date"
[attributes.sex]
taxonomy = "flat"
[attributes.town]
taxonomy = "town.csv"
[attributes.job]
taxonomy = "job.yaml"
[attributes.education]
taxonomy = "education.csv"
[attributes.salary]
type = "continuous"

[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "sex", "town", "job", "education", "salary"]
k = 50

[algorithm]
name = "tds"
"""


def run(say: Callable[[str], None], save: Path | None) -> dict[str, Any]:
    figures: dict[str, Any] = {"two parties": {}, "parties": {}}
    say(f"two parties of {SIZE:,}, half of them in common, as processes over TLS; processor seconds of both")
    ways = ("oprf", "curve") if RIVALS else ("oprf",)
    for way in ways:
        figures["two parties"][way] = told(say, way, aligned(2, SIZE, way))
    if RIVALS:
        rivals = {"openmined.psi": openmined_takes}
        for name, takes in rivals.items():
            figures["two parties"][name] = {
                "processor_seconds": takes([people(me, SIZE)["id"].to_pylist() for me in range(2)])
            }
            say(f"{name:>14}: {figures['two parties'][name]['processor_seconds']:7.1f} s of the processor")
        ours = figures["two parties"]["oprf"]["processor_seconds"]
        for name, each in figures["two parties"].items():
            if name != "oprf":
                each["times"] = each["processor_seconds"] / ours
                say(f"oprf takes {each['times']:.0f} times less of the processor than {name}")
    for n in range(2, MOST_PARTIES + 1):
        for way, size in (("oprf", SIZE), ("curve", FEW)):
            if (way == "oprf" and n > 2) or (way == "curve" and RIVALS):
                say(f"{n} parties of {size:,}")
                figures["parties"][f"{n} × {size} {way}"] = told(say, way, aligned(n, size, way))
    if MASHUP:
        figures["mashup"] = mashup_takes(say)
    return figures


def aligned(n: int, size: int, way: str) -> dict[str, Any]:
    """Align once, and add the parties' figures up."""
    found = run_parties("_align_party.py", [f"p{number}" for number in range(n)], size, way)
    if len({each["order"] for each in found}) > 1 or found[0]["common"] != size // 2:
        raise AssertionError("the parties do not have the same people")
    return {
        "seconds": max(each["seconds"] for each in found),
        "processor_seconds": sum(each["processor_seconds"] for each in found),
        "bytes an identifier": sum(each["bytes"] for each in found) / size,
        "peak MB": [each["peak_bytes"] / 1e6 for each in found],
    }


def told(say: Callable[[str], None], way: str, figures: dict[str, Any]) -> dict[str, Any]:
    peaks = " and ".join(f"{each:.0f}" for each in figures["peak MB"])
    say(
        f"{way:>14}: {figures['processor_seconds']:7.1f} s of the processor, {figures['seconds']:6.1f} s in all, "
        f"{figures['bytes an identifier']:.0f} bytes an identifier, at most {peaks} MB in the parties"
    )
    return figures


def openmined_takes(lists: Sequence[list[str]]) -> float:
    """Processor seconds of openmined.psi for the same, revealing the intersection."""
    try:
        import private_set_intersection.python as psi
    except ImportError:
        raise ParameterError("bench align: openmined.psi is not installed; run make bench") from None
    server_items, client_items = lists
    started = time.process_time()
    server, client = psi.server.CreateWithNewKey(True), psi.client.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(0.0, len(client_items), server_items, psi.DataStructure.RAW)
    response = server.ProcessRequest(client.CreateRequest(client_items))
    found = client.GetIntersection(setup, response)
    seconds = time.process_time() - started
    assert len(found) == len(server_items) // 2
    return seconds


def mashup_takes(say: Callable[[str], None]) -> dict[str, Any]:
    """The whole command on two CSV files, with all of its processes."""
    with tempfile.TemporaryDirectory() as folder:
        everybody = generate_people(MASHUP, 7)
        for party, columns in _COLUMNS.items():
            write_table(everybody.select(columns), Path(folder) / f"{party}.csv")
        for name, text in people_taxonomies().items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        (Path(folder) / "job.toml").write_text(_JOB, encoding="utf-8")
        command = [sys.executable, "-m", "masquerade", "mashup", "--json", str(Path(folder) / "job.toml")]
        peak = [sys.executable, str(HERE / "_peak.py"), *command]
        figures: dict[str, Any] = json.loads(subprocess.run(peak, check=True, stdout=subprocess.PIPE).stdout)
    figures["parts"] = json.loads(figures.pop("output")).get("seconds")
    say(
        f"masquerade mashup of {MASHUP:,} people: {figures['processor_seconds']:.1f} s of the processor, "
        f"{figures['seconds']:.1f} s in all, {figures['peak_bytes'] / 1e6:.0f} MB in the largest process; parts: "
        f"{figures['parts']}"
    )
    return figures
