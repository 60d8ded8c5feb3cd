"""The ledger's file: what was changed, removed or put in is found and named."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from examples import examples
from masquerade.audit import ChainedFile
from masquerade.errors import BadInput
from masquerade.protocol import Contribution
from masquerade.service import Ledger
from masquerade.service.agree.terms import Provision, Terms
from masquerade.service.ledger import ReleaseRecord, append, decline
from service.stores import some


def released(at: int, dataset: str = "customers", k: int = 4) -> ReleaseRecord:
    terms = Terms(
        provisions=(
            Provision("bank", dataset, "aa" * 32, "bb" * 32),
            Provision("clinic", "patients", f"{at:064x}", "cc" * 32),
        ),
        columns=(Contribution("age", "clinic", "attribute"), Contribution("job", "bank", "attribute")),
        requirements=({"model": "k-anonymity", "qid": ["age", "job"], "k": k},),
        method={"name": "tds", "score": "discernibility"},
    )
    return ReleaseRecord(dataset, "aa" * 32, terms, ("ana",), 1_700_000_000 + at)


RECORDS = tuple(released(at) for at in range(4))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def write(path: Path, *records: ReleaseRecord) -> list[bytes]:
    for each in records:
        append(path, each)
    return path.read_bytes().splitlines(keepends=True)


def problem(path: Path) -> str:
    with pytest.raises(BadInput) as refused:
        Ledger.load(path)
    (told,) = refused.value.lines
    assert told.isprintable()
    with pytest.raises(BadInput) as not_added:  # and nothing is added to it
        append(path, released(9))
    assert not_added.value.lines == (told,)
    return told


def test_each_line_names_the_one_before_it(path: Path) -> None:
    lines = [json.loads(line) for line in write(path, *RECORDS)]
    assert Ledger.load(path).records == RECORDS
    assert [line["previous"] for line in lines] == ["0" * 64, *(line["hash"] for line in lines[:-1])]
    assert path.with_suffix(".head").read_text().strip() == f"4:{lines[-1]['hash']}"
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert Ledger.load(path).releases("customers") == 4
    assert Ledger.load(path).releases("others") == 0


def test_a_changed_line_is_named(path: Path) -> None:
    lines = write(path, *RECORDS)
    for at in range(4):
        weaker = lines[at].replace(b'"k":4', b'"k":2')
        assert weaker != lines[at]
        path.write_bytes(b"".join([*lines[:at], weaker, *lines[at + 1 :]]))
        assert problem(path) == f"{path}: line {at + 1}: wrong hash: the line was changed after it was written"
    path.write_bytes(b"".join(lines))
    assert Ledger.load(path).records == RECORDS


def test_a_removed_line_is_named_the_last_ones_too(path: Path) -> None:
    lines = write(path, *RECORDS)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    assert problem(path) == f"{path}: line 2: number out of order: 3, where 2 belongs; lines are missing"
    path.write_bytes(b"".join(lines[1:]))
    assert problem(path) == f"{path}: line 1: number out of order: 2, where 1 belongs; lines are missing"
    written = "4 records were written"
    path.write_bytes(b"".join(lines[:2]))
    assert problem(path) == f"{path}: line 3: missing: it ends with record 2, but {written}: its end was cut off"
    path.write_bytes(b"".join(lines)[:-1])  # the last line's end
    assert problem(path) == f"{path}: line 4: missing: it ends with record 3, but {written}: its end was cut off"
    path.unlink()
    assert problem(path) == f"{path}: line 1: missing: nothing is there, but {written}: it was emptied or removed"


def test_the_head_is_missed(path: Path) -> None:
    write(path, *RECORDS)
    head = path.with_suffix(".head")
    kept = head.read_bytes()
    head.unlink()
    assert problem(path).startswith(f"{head}: is missing")
    head.write_bytes(b"4")
    assert problem(path).startswith(f"{head}: is damaged")
    head.write_bytes(kept)
    assert Ledger.load(path).records == RECORDS


def test_another_ledger_of_the_same_length(path: Path, tmp_path: Path) -> None:
    write(path, *RECORDS)
    other = tmp_path / "other" / "ledger.jsonl"
    other.parent.mkdir()
    write(other, *(released(at, k=2) for at in range(4)))
    path.write_bytes(other.read_bytes())  # whole in itself
    assert problem(path).startswith(f"{path}: line 4: not the record that was written here")


@pytest.mark.parametrize("garbage", [b"garbage\n", b"{}\n", b'{"hash":"0"}\n', b"\n", b"\xff\xfe\n"])
def test_garbage_is_named(path: Path, garbage: bytes) -> None:
    lines = write(path, *RECORDS)
    for at in range(4):
        path.write_bytes(b"".join([*lines[:at], garbage, *lines[at + 1 :]]))
        assert problem(path).startswith(f"{path}: line {at + 1}: not ")


def test_a_machine_that_stops(path: Path) -> None:
    """A line without its end is set aside; a line whose head was not written any more counts."""
    write(path, *RECORDS[:2])
    head = path.with_suffix(".head").read_bytes()
    with path.open("ab") as file:
        file.write(b'{"hash":"' + b"0" * 5_000)
    assert Ledger.load(path).records == RECORDS[:2]
    write(path, RECORDS[2])
    assert path.with_name("ledger.jsonl.torn").stat().st_size == 5_010
    path.with_suffix(".head").write_bytes(head)
    assert Ledger.load(path).records == RECORDS[:3]
    write(path, RECORDS[3])
    assert Ledger.load(path).records == RECORDS


def test_a_record_that_is_no_release(path: Path) -> None:
    unreachable = ({"model": "k-anonymity", "qid": ["age"], "k": 0},)
    terms = msgspec.structs.replace(RECORDS[0].terms, requirements=unreachable)
    bad = msgspec.structs.replace(RECORDS[0], terms=terms)
    for event, fields, told in (
        ("release", {"dataset": 3}, "Expected `str`, got `int`"),
        ("release", msgspec.to_builtins(bad), r"\.k: must be"),
        ("opened", {}, "the event opened"),
    ):
        write(path, RECORDS[0])
        with ChainedFile(path, "ledger") as file:
            file.add((event, fields))
        assert re.search(rf"line 2: not a ledger's record: .*{told}", problem(path))
        path.unlink()
        path.with_suffix(".head").unlink()


@given(data=st.data())
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_change_is_overlooked(data: st.DataObject, path: Path) -> None:
    """Whatever byte or line changes, what is read is what was written, or the ledger is refused."""
    path.unlink(missing_ok=True)
    path.with_suffix(".head").unlink(missing_ok=True)
    lines = write(path, *RECORDS[:3])
    whole = b"".join(lines)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = data.draw(
        st.one_of(
            st.binary(max_size=3).map(lambda new: whole[:at] + new + whole[at + 1 :]),
            st.lists(st.sampled_from(lines), max_size=4).map(b"".join),
            st.just(whole[:at]),
        )
    )
    path.write_bytes(changed)
    if changed[: len(whole)] == whole and b"\n" not in changed[len(whole) :]:
        assert Ledger.load(path).records == RECORDS[:3]
    else:
        assert problem(path).startswith(f"{path}: line ")


def by(record: ReleaseRecord, session: str, contract: str) -> ReleaseRecord:
    return msgspec.structs.replace(record, session=session, contract=contract)


def test_what_was_declined_was_shown_and_not_released(path: Path) -> None:
    write(path, by(RECORDS[0], "one", "a"), by(RECORDS[1], "two", "b"))
    assert decline(path, "a", 9)
    ledger = Ledger.load(path)
    assert [each.contract for each in ledger.records] == ["b"]
    assert [each.contract for each in ledger.declined] == ["a"]
    assert [each.contract for each in ledger.declined_of("customers", "aa" * 32)] == ["a"]
    assert ledger.releases("customers") == 2, "its secret must not be lost either"
    assert some(ledger.last_of_others("customers", "dd" * 32)).contract == "b"
    assert decline(path, "b", 10)  # which keeps the next snapshot waiting all the same
    assert some(Ledger.load(path).last_of_others("customers", "dd" * 32)).contract == "b"


def test_every_attempt_of_a_session_is_declined_with_its_last(path: Path) -> None:
    write(path, by(RECORDS[0], "one", "a"), by(RECORDS[0], "one", "b"))
    assert len(Ledger.load(path).records) == 1, "another attempt is not another release"
    decline(path, "b", 9)
    assert Ledger.load(path).records == ()


def test_what_another_session_gave_out_before_or_after_a_decline_is_released(path: Path) -> None:
    write(path, by(RECORDS[0], "one", "a"), by(RECORDS[0], "two", "b"))
    decline(path, "b", 9)
    assert [each.contract for each in Ledger.load(path).records] == ["a"]
    decline(path, "a", 10)
    assert Ledger.load(path).records == ()
    append(path, by(RECORDS[0], "three", "c"))
    assert (len(Ledger.load(path).records), Ledger.load(path).declined) == (1, ())


def test_declines_are_kept_in_their_order_and_said_twice_count_once(path: Path) -> None:
    write(path, by(RECORDS[0], "one", "a"), by(RECORDS[1], "two", "b"))
    for contract in ("b", "a", "b"):
        assert decline(path, contract, 9)
    assert [each.contract for each in Ledger.load(path).declined] == ["b", "a"]


def test_only_what_was_shown_can_be_declined(path: Path) -> None:
    lines = write(path, RECORDS[0], by(RECORDS[1], "two", "b"))
    assert not decline(path, "unknown", 9)
    assert not decline(path, "", 9), "lines of before do not say by which contract they were shown"
    assert path.read_bytes() == b"".join(lines)
