"""`masquerade coordinator …`: accounts, tokens and sessions on the command line."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from cli.command import Answer, here
from masquerade.net import make_trial
from masquerade.service import Accounts, CoordinatorSettings, Role, Store
from service_house import PASSWORD


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coordinator")
    make_trial(folder, ["coordinator", "bank"])
    path = folder / "coordinator.toml"
    path.write_text(
        'identity = "coordinator"\ntrust = "coordinator/trust"\n[parties.bank]\naddress = "127.0.0.1:7001"\n'
    )
    return path


Masquerade = Callable[..., Answer]


@pytest.fixture
def masquerade(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Masquerade:
    """Runs a command of the coordinator's with what somebody types."""

    def run(*words: str | Path, typed: str = "") -> Answer:
        monkeypatch.setattr("sys.stdin", StringIO(typed))
        return here(capsys, "coordinator", *words)

    return run


def test_accounts_are_opened_listed_changed_and_shut(conf: Path, masquerade: Masquerade) -> None:
    added = masquerade("user", "add", conf, "ana", "--password-stdin", "--json", typed=PASSWORD + "\n")
    assert added.code == 0, added.err
    assert added.json["role"] == "analyst"
    assert PASSWORD not in added.out + added.err
    again = masquerade("user", "add", conf, "ana", "--password-stdin", typed=PASSWORD + "\n")
    assert (again.code, again.out) == (1, "")
    assert again.err == "error: there is a user ana already\n"

    made = masquerade("token", conf, "ana", "--days", "3")
    token = made.out.strip()
    settings = CoordinatorSettings.load(conf)
    with Store.open(settings.database, base=settings.state) as store:
        accounts = Accounts(store)
        assert accounts.sign_in("ana", PASSWORD).role is Role.ANALYST
        assert accounts.authenticate(token).name == "ana"
        assert "admin" in masquerade("user", "role", conf, "ana", "admin").out
        assert store.users.get("ana").role is Role.ADMIN
        assert masquerade("user", "disable", conf, "ana").code == 0
        assert store.users.get("ana").disabled
        listed = masquerade("user", "list", conf, "--json").json["users"]
        assert [(each["name"], each["role"], each["disabled"]) for each in listed] == [("ana", "admin", True)]
        assert masquerade("user", "enable", conf, "ana").code == 0
        assert accounts.authenticate(token).name == "ana"


@pytest.mark.parametrize(
    ("words", "typed", "code", "line"),
    [
        (["user", "add", "CONF", "Bea", "--password-stdin"], PASSWORD, 2, '"Bea" cannot name a user'),
        (["user", "add", "CONF", "bea", "--password-stdin"], "short", 2, "a password must have from 12"),
        (["user", "add", "CONF", "bea"], "", 2, "give it with --password-stdin"),
        (["user", "add", "CONF", "bea", "--role", "king", "--password-stdin"], PASSWORD, 2, "are analyst, admin"),
        (["user", "unlock", "CONF", "nobody"], "", 1, 'there is no user "nobody"'),
        (["token", "CONF", "nobody"], "", 1, 'there is no user "nobody"'),
        (["sessions", "MISSING"], "", 2, "no such configuration"),
    ],
)
def test_what_goes_wrong_is_one_line(
    conf: Path, masquerade: Masquerade, words: list[str], typed: str, code: int, line: str
) -> None:
    paths = {"CONF": str(conf), "MISSING": str(conf.with_name("missing.toml"))}
    run = masquerade(*(paths.get(word, word) for word in words), typed=typed + "\n" if typed else "")
    assert (run.code, run.out) == (code, "")
    assert run.err.count("\n") == 1
    assert run.err.startswith("error: ")
    assert line in run.err
    assert not typed or typed not in run.err


def test_sessions_are_listed_straight_from_the_store(conf: Path, masquerade: Masquerade) -> None:
    assert masquerade("sessions", conf).out == "no session yet\n"
    settings = CoordinatorSettings.load(conf)
    with Store.open(settings.database, base=settings.state) as store:
        store.users.add("zoe", "no hash", Role.ANALYST)
        store.providers.register("bank", "127.0.0.1:7001", "finger", public=True)
        session = store.sessions.create("zoe", ["bank"], "research", {"attributes": ["age"]})
    listed = masquerade("sessions", conf, "--json").json["sessions"]
    assert [(each["id"], each["client"], each["status"]) for each in listed] == [(session.id, "zoe", "requested")]


def test_a_database_that_is_none_names_file_and_key(conf: Path, masquerade: Masquerade) -> None:
    other = conf.with_name("other.toml")
    for url, said in (
        ("mysql://root:hush@localhost/x", "mysql://…: not a database for the service"),
        ("sqlite:///no/such/folder/x.db", "cannot be opened as a database"),
    ):
        other.write_text(f'database = "{url}"\n' + conf.read_text())
        for run in (masquerade("user", "list", other), masquerade("serve", other)):
            assert (run.code, run.out) == (2, "")
            assert run.err.splitlines()[-1].startswith(f"error: {other}: database: ")
            assert said in run.err
            assert "hush" not in run.err


def test_serve_refuses_a_configuration_that_would_show_passwords_to_the_net(conf: Path, masquerade: Masquerade) -> None:
    open_conf = conf.with_name("open.toml")
    open_conf.write_text('address = "0.0.0.0:0"\n' + conf.read_text())
    run = masquerade("serve", open_conf)
    assert run.code == 2
    assert "plain HTTP is for loopback addresses only" in run.err
    assert run.out == ""
