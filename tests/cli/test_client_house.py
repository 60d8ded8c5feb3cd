"""The commands of a client through the whole house, which is in this process: nodes, a coordinator, a real release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv
import pytest

import masquerade as mq
from cli.command import Answer, answered, here
from masquerade.net import self_signed
from masquerade.service import Accounts
from service_house import House, wait_until

Capture = pytest.CaptureFixture[str]
PROGRESS = re.compile(r"\d+ s: ")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, str, str]]:
    """A running house, its address, and a token."""
    policies = {party: {"purposes": ["research"]} for party in ("bank", "clinic")}
    with House(tmp_path_factory.mktemp("house"), policies=policies) as built, built.serving() as url:
        built.start_nodes()
        user = built.user("ana")
        with built.store() as store:
            token = Accounts(store).create_token(user, "tests")[0]
        with mq.Client(url, token) as client:
            wait_until(lambda: len(client.providers()) == 2, "both parties have published")
        yield built, url, token


@pytest.fixture
def conf(house: tuple[House, str, str], tmp_path: Path) -> Path:
    built, url, token = house
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(token)
    wish = built.request()
    (privacy,) = wish.pop("privacy")
    lines = [f'coordinator = "{url}"', 'token_file = "token"', "[request]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in wish.items()]
    lines += ["[[request.privacy]]", *(f"{key} = {json.dumps(value)}" for key, value in privacy.items())]
    (tmp_path / "client.toml").write_text("\n".join(lines) + "\n")
    return tmp_path / "client.toml"


def test_a_table_is_asked_for_and_comes(conf: Path, capsys: Capture) -> None:
    table, report = conf.with_name("release.csv"), conf.with_name("report.html")
    answer = answered(capsys, "request", conf, "--output", table, "--report", report, "--json")
    told = answer.json
    assert told["status"] == "published"
    frame = pyarrow.csv.read_csv(table)
    assert frame.num_rows == told["rows"] > 100
    assert frame.column_names == ["age", "job", "salary", "town", "income"]
    assert "<html" in report.read_text()
    groups = frame.group_by(["age", "job"]).aggregate([([], "count_all")])
    assert min(groups["count_all"].to_pylist()) >= 4


def test_the_quality_is_missed_and_a_word_is_given(conf: Path, capsys: Capture) -> None:
    conf.write_text(conf.read_text().replace("[request]", "[request]\nmost_error = 0.0\n"))
    answer = here(capsys, "request", conf)
    assert answer.code == 1
    (problem,) = problems(answer)
    assert "masquerade decide" in problem
    session = problem.split()[1].rstrip(":")
    answered(capsys, "decide", session, "relax", "--most-error", "1", "--conf", conf, "--json")
    watched = here(capsys, "sessions", session, "--watch", "--conf", conf, "--json")
    assert watched.json["status"] == "published", watched.err


def test_a_refusal_has_every_partys_reason(conf: Path, capsys: Capture) -> None:
    conf.write_text(conf.read_text().replace('"research"', '"marketing"'))
    answer = here(capsys, "request", conf)
    assert answer.code == 1
    (problem,) = problems(answer)
    assert problem.count("marketing") == 1
    assert problem.endswith("(bank, clinic)")


def test_a_party_that_fails_ends_it_with_its_own_exit_code(
    house: tuple[House, str, str], conf: Path, capsys: Capture
) -> None:
    built, url, token = house
    bank, file = built.nodes["bank"], built.folder / "bank" / "identity.pem"
    own = {path: path.read_bytes() for path in (file, file.with_name("key.pem"))}
    try:
        bank.stop()
        away = here(capsys, "request", conf, "--json")
        assert away.code == 3, away.err
        assert away.json["failed_by"] == "bank"
        assert problems(away)[0].startswith("party bank: nobody answers")
        with mq.Client(url, token) as client:
            with pytest.raises(mq.PeerError) as caught:
                client.wait(away.json["id"])
            assert caught.value.peer == "bank"
        doctor = here(capsys, "doctor", conf)
        assert doctor.code == 3
        assert "away now: bank; a request that needs one of them fails while it is away" in doctor.out
        (problem,) = problems(doctor)
        assert problem.startswith("request: needs bank, which does not answer the coordinator now")
        stranger = self_signed("bank")
        for path, pem in zip(own, (stranger.certificate, stranger.key), strict=True):
            path.write_bytes(pem)
        built.start_node("bank")
        wrong = here(capsys, "request", conf, "--json")
        assert wrong.code == 3, wrong.err
        assert wrong.json["failed_by"] == "bank"
        assert "certificate" in problems(wrong)[0]
    finally:
        built.nodes["bank"].stop()
        for path, pem in own.items():
            path.write_bytes(pem)
        built.start_node("bank")


def problems(answer: Answer) -> list[str]:
    """The `error:` lines; beside them a slow machine is told of progress."""
    lines = [line for line in answer.err.splitlines() if not PROGRESS.match(line)]
    assert all(line.startswith("error: ") for line in lines), answer.err
    return [line.removeprefix("error: ") for line in lines]
