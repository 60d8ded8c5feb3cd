"""Problem documents: what is rendered is read back, whatever it holds, and nothing else is taken for one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from masquerade.errors import (
    Bug,
    Conflict,
    DataError,
    MasqueradeError,
    NotAllowed,
    NotFound,
    ParameterError,
    PeerRefused,
    Problem,
)
from masquerade.service import ColumnCard, NodeSettings, SignedContract, error_of, read_problems, read_request
from masquerade.service.canonical import not_plain
from masquerade.service.wire.control import AskSignature, Published, PublishedDataset, read_said
from masquerade.service.wire.problems import content, rendered, status_of
from service.parties import BANK, dealt, request
from service.party_nodes import WISH, Folder

WORDS = st.text(max_size=20)
PROBLEMS = st.builds(
    Problem,
    text=WORDS,
    source=WORDS,
    line=st.none() | st.integers(1, 9),
    key=st.lists(WORDS | st.integers(0, 9), max_size=3).map(tuple),
    allowed=WORDS,
    found=WORDS,
    party=st.none() | WORDS,
    reported_by=WORDS,
)


@given(st.lists(PROBLEMS, min_size=1, max_size=4))
def test_what_is_rendered_is_read_back(problems: list[Problem]) -> None:
    document = rendered(422, problems)
    assert document.isascii()
    lines = [str(each) for each in problems]
    assert json.loads(document)["problems"] == lines
    assert list(map(str, read_problems(document))) == lines


def test_fields_travel_and_what_says_nothing_does_not() -> None:
    missing = Problem("missing", source="request", key=("privacy", 0, "k"))
    told = content(422, [missing])
    assert told["errors"] == [{"text": "missing", "source": "request", "key": ["privacy", 0, "k"]}]
    assert told["detail"] == "request: privacy[1].k: missing"
    assert read_problems(json.dumps(told).encode()) == (missing,)


def test_endless_texts_and_lists_are_cut_and_half_a_sign_is_shown() -> None:
    told = content(422, [Problem("x" * 5_000)] * 500)
    assert len(told["problems"]) == len(told["errors"]) == 100
    assert all(len(line) == 1_000 for line in told["problems"])
    assert all(len(each["text"]) == 1_000 for each in told["errors"])
    (half_a_sign,) = read_problems(rendered(422, [Problem("unknown key", key=("\udc80",))]))
    assert half_a_sign.key == ("\\udc80",)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"<html>", b'{"problems": 5}', b'{"errors": ["x"]}', b"{}"])
def test_what_is_no_problem_document(body: bytes) -> None:
    assert read_problems(body) == ()


def test_a_document_of_others_has_its_detail_or_title() -> None:
    assert read_problems(b'{"title": "Bad", "detail": "no", "instance": "/x"}') == (Problem("no"),)
    assert read_problems(b'{"title": "Bad"}') == (Problem("Bad"),)


@pytest.mark.parametrize(
    ("error", "status", "read"),
    [
        (NotAllowed("no"), 403, NotAllowed),
        (NotFound("no"), 404, NotFound),
        (Conflict("no"), 409, Conflict),
        (DataError("no"), 422, ParameterError),
        (PeerRefused("bank", "no"), 503, None),
        (Bug("no"), 500, None),
    ],
)
def test_an_error_its_status_and_back(error: MasqueradeError, status: int, read: type[MasqueradeError] | None) -> None:
    assert status_of(error) == status
    back = error_of(status, error.problems)
    assert (None if back is None else type(back)) is read
    assert back is None or back.problems == error.problems


# --- Texts of others are plain: none of them moves a cursor, ends a line, or turns the direction of
# writing.

FORGING = ("\x1b[2J", "two\nlines", "back\rwards", "\x00", "half\ud800", "line\u2028end", "\u202eevil", "\x9b2J")


def test_what_could_forge_a_page_and_what_people_write() -> None:
    assert all("holds the control character" in (not_plain(text) or "") for text in FORGING)
    written = ("research", "Größe", "名前", "شغل", "a\u00a0b", "می\u200cخواهم", "👩\u200d⚕️")
    assert {not_plain(text) for text in written} == {None}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"purpose": "research\nsigned by: everybody"}, "purpose"),
        ({"attributes": ["age", "job\x1b[2J"], "privacy": []}, "attributes[2]"),
        ({"user": "ana\x1b[A"}, "user"),
        ({"recipients": ["ana", "b\u202een"]}, "recipients[2]"),
        ({"providers": {"a\nge": "bank"}}, 'providers."a\\nge"'),
    ],
)
def test_a_request(changes: dict[str, object], place: str) -> None:
    with pytest.raises(ParameterError) as refused:
        read_request(dict(WISH) | changes)
    (line,) = refused.value.lines
    assert line.startswith(f"request: {place}: ")
    assert line.isprintable()


def test_a_contract_with_a_column_that_forges_and_a_card() -> None:
    deal = dealt(request())
    ours, *others = deal.terms.columns
    evil = msgspec.structs.replace(ours, name="age\n  job: stays here")
    terms = msgspec.structs.replace(deal.terms, columns=(evil, *others))
    contract = SignedContract(msgspec.structs.replace(deal, terms=terms), 0, {})
    with pytest.raises(ParameterError, match=r"contract: contract\.deal\.terms\.columns\[1\]\.name: holds the"):
        read_said(msgspec.json.encode(AskSignature("s1", contract)), AskSignature, "contract")
    card = dataclasses.replace(BANK, columns=(ColumnCard("job\x1b[1A", "categorical"),))
    said = msgspec.json.encode(Published("bank", (PublishedDataset(card),)))
    with pytest.raises(ParameterError, match=r"what bank publishes: datasets\[1\]\.card\.columns\[1\]\.name"):
        read_said(said, Published, "what bank publishes")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('class = "income"', 'class = "inc\\u001bome"', "datasets.customers.class"),
        ('purposes = ["research"]', 'purposes = ["a\\nb"]', "datasets.customers.policy.purposes[1]"),
        ("attributes.job]", 'attributes."j\\u202eob"]', 'datasets.customers.attributes."j\\u202eob"'),
        ('"127.0.0.1:0"', '"127.0.0.1:0"\nidentity = "\\u0000"', "identity"),
        ('taxonomy = "job.csv"', 'taxonomy = "evil.csv"', "datasets.customers.attributes.job.taxonomy"),
    ],
)
def test_a_configuration(tmp_path: Path, old: str, new: str, place: str) -> None:
    folder = Folder(tmp_path)
    jobs = (folder.path / "bank" / "job.csv").read_text()
    (folder.path / "bank" / "evil.csv").write_text(jobs.replace("Office", "Of\x1b[Afice"))
    conf = folder.conf("bank")
    conf.write_text(conf.read_text().replace(old, new))
    with pytest.raises(ParameterError) as refused:
        NodeSettings.load(conf)
    line = refused.value.lines[0]
    assert line.startswith(f"{conf}: {place}: ")
    assert "control character" in line
    assert line.isprintable()


def test_a_query_has_lines_and_may_be_long(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    conf = folder.conf("bank")
    query = "SELECT *\n\tFROM customers\n" + "-- a word\n" * 40
    source = f'source = "sqlite:///bank.db"\nquery = """\n{query}"""'
    conf.write_text(conf.read_text().replace('source = "customers.csv"', source))
    assert NodeSettings.load(conf).datasets["customers"].section.query == query
