"""How a party of a job with an engine gets its rows: in chunks, or as a whole, and then it says why."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import masquerade as mq
from masquerade.errors import BadInput
from masquerade.jobs.parties import contract_of
from masquerade.jobs.party_process import own_participant
from masquerade.jobs.plan import Plan
from masquerade.jobs.session import party_headers
from masquerade.progress import Stage
from masquerade.protocol import Contract

JOB = """
[parties.bank]
source = "bank.parquet"
id = "ssn"
missing = "drop"
[parties.clinic]
source = "clinic.parquet"
id = "ssn"
[attributes.birth_date]
type = "date"
[attributes.salary]
type = "continuous"
[attributes.town]
taxonomy = "flat"
[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "town", "salary"]
k = 3
[algorithm]
name = "tds"
[engine]
memory = "512MB"
[output]
table = "release.csv"
"""


def written(folder: Path, people: pa.Table, job: str = JOB) -> tuple[Path, Contract]:
    pyarrow.parquet.write_table(people.select(["ssn", "birth_date", "salary", "sex"]), folder / "bank.parquet")
    pyarrow.parquet.write_table(people.select(["ssn", "town"]), folder / "clinic.parquet")
    path = folder / "job.toml"
    path.write_text(job)
    plan = Plan(path)
    contract = contract_of(plan, party_headers(plan))
    plan.settle()
    assert contract is not None
    return path, contract


def test_the_table_is_read_in_chunks(tmp_path: Path) -> None:
    people = mq.generate_people(50, missing=0.1)
    path, contract = written(tmp_path, people)
    stages: list[Stage] = []
    with own_participant(path, "bank", contract, stages.append) as (participant, told):
        assert told == "the table was read in chunks"
        assert participant.records is not None
        assert len(participant.table) == 0
        complete = people.select(["ssn", "birth_date", "salary"]).drop_null()
        assert [each.decode() for each in participant.identifiers] == complete["ssn"].to_pylist()
        assert participant.records.dropped_rows == 50 - complete.num_rows > 0
        assert participant.left_out == ("ssn", "sex")
    assert Stage("reading", detail="1 of 1 chunks") in stages


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('missing = "drop"', 'missing = "keep"', 'of tables with missing = "keep" no chunk knows all values'),
        (
            'type = "continuous"',
            'type = "continuous"\nmax_width = 40',
            "boundaries of generalization are tested on whole columns",
        ),
        (
            'type = "continuous"',
            'type = "continuous"\nmin_width = 5',
            "attributes with a least generalization are made coarser on whole columns",
        ),
    ],
)
def test_what_needs_the_whole_table_says_so(old: str, new: str, said: str, tmp_path: Path) -> None:
    path, contract = written(tmp_path, mq.generate_people(50, missing=0), JOB.replace(old, new))
    with own_participant(path, "bank", contract) as (participant, told):
        assert told == f"the whole table was read into one memory: {said}"
        assert (participant.records, len(participant.table), len(participant.identifiers)) == (None, 50, 50)
        assert participant.engine is not None


def test_a_wrong_cell_is_named_by_its_row(tmp_path: Path) -> None:
    people = mq.generate_people(30, missing=0)
    column = people.column_names.index("salary")
    cells = [str(each) for each in people["salary"].to_pylist()]
    cells[11] = "plenty"
    path, contract = written(tmp_path, people.set_column(column, "salary", pa.array(cells)))
    with (
        pytest.raises(BadInput, match=r"bank\.parquet: row 12, column salary: "),
        own_participant(path, "bank", contract),
    ):
        pass
