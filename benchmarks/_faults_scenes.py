"""Small jobs for the fault campaign: a mashup of two parties, DkA, and three providers without a third party."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from masquerade.data import generate_people, people_taxonomies, write_table

PEOPLE = 60
JOB = "job.toml"
_JOIN = """
[parties.bank]
source = "bank.csv"
id = "ssn"
[parties.clinic]
source = "clinic.csv"
id = "ssn"
[attributes.job]
taxonomy = "taxonomies/job.yaml"
[attributes.town]
taxonomy = "taxonomies/town.csv"
[roles]
sensitive = ["disease"]
identifiers = ["ssn"]
[[privacy]]
model = "k-anonymity"
qid = ["job", "town"]
k = 4
"""
_TOGETHER = """
[parties.north]
source = "north.csv"
[parties.south]
source = "south.csv"
[parties.west]
source = "west.csv"
[attributes.job]
taxonomy = "taxonomies/job.yaml"
[attributes.town]
taxonomy = "taxonomies/town.csv"
[roles]
sensitive = ["disease"]
[[privacy]]
model = "m-privacy"
m = 1
[[privacy]]
model = "k-anonymity"
qid = ["job", "town"]
k = 4
[algorithm]
name = "mondrian"
[output]
keep_provider = true
"""
_VERTICAL = {"bank": ("ssn", "job"), "clinic": ("ssn", "town", "disease")}


@dataclass(frozen=True)
class Scene:
    """A job, and which columns or people each of its parties has."""

    name: str
    text: str
    parties: tuple[str, ...]

    @property
    def connections(self) -> int:
        """One between each two parties, and one from each to the assembler."""
        n = len(self.parties)
        return n * (n - 1) // 2 + n

    def write(self, folder: Path) -> Path:
        """The job with its tables and taxonomies in a new folder; its path."""
        folder.mkdir()
        people = generate_people(PEOPLE, 7)
        (folder / "taxonomies").mkdir()
        for name in ("job.yaml", "town.csv"):
            (folder / "taxonomies" / name).write_text(people_taxonomies()[name], encoding="utf-8")
        for at, party in enumerate(self.parties):
            if party in _VERTICAL:
                own = people.select(_VERTICAL[party])
            else:
                rows = range(at, PEOPLE, len(self.parties))
                own = people.select(["job", "town", "disease"]).take(pa.array([*rows]))
            write_table(own, folder / f"{party}.csv")
        job = folder / JOB
        job.write_text(self.text, encoding="utf-8")
        return job


def copied(original: Path, folder: Path) -> Path:
    """A scene's files again, in another folder; the path of the job."""
    shutil.copytree(original.parent, folder)
    return folder / original.name


SCENES = (
    Scene("vertical", _JOIN + '[algorithm]\nscore = "discernibility"\n', tuple(_VERTICAL)),
    Scene("dka", _JOIN + '[algorithm]\nname = "dka-datafly"\n', tuple(_VERTICAL)),
    Scene("providers", _TOGETHER, ("north", "south", "west")),
)
