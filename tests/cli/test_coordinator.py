"""`masquerade coordinator …`: accounts, tokens and sessions on the command line, as real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from masquerade.net.trial import make_trial
from masquerade.service.accounts import Accounts
from masquerade.service.coordinator.settings import Settings
from masquerade.service.resources import Role
from masquerade.service.store import Store
from service_house import LAUNCH, PASSWORD

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coordinator")
    make_trial(folder, ["coordinator", "bank"])
    path = folder / "coordinator.toml"
    path.write_text(
        'identity = "coordinator"\ntrust = "coordinator/trust"\n[parties.bank]\naddress = "127.0.0.1:7001"\n'
    )
    return path


def masquerade(*words: object, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LAUNCH, "coordinator", *map(str, words)],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )


def test_accounts_are_opened_listed_changed_and_shut(conf: Path) -> None:
    added = masquerade("user", "add", conf, "ana", "--password-stdin", "--json", typed=PASSWORD + "\n")
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["role"] == "analyst"
    assert PASSWORD not in added.stdout + added.stderr
    again = masquerade("user", "add", conf, "ana", "--password-stdin", typed=PASSWORD + "\n")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "error: there is a user ana already\n"

    made = masquerade("token", conf, "ana", "--days", "3")
    token = made.stdout.strip()
    settings = Settings.load(conf)
    with Store.open(settings.database, base=settings.state) as store:
        accounts = Accounts(store)
        assert accounts.sign_in("ana", PASSWORD).role is Role.ANALYST
        assert accounts.authenticate(token).name == "ana"
        assert "admin" in masquerade("user", "role", conf, "ana", "admin").stdout
        assert store.users.get("ana").role is Role.ADMIN
        assert masquerade("user", "disable", conf, "ana").returncode == 0
        assert store.users.get("ana").disabled
        listed = json.loads(masquerade("user", "list", conf, "--json").stdout)["users"]
        assert [(each["name"], each["role"], each["disabled"]) for each in listed] == [("ana", "admin", True)]
        assert masquerade("user", "enable", conf, "ana").returncode == 0
        assert accounts.authenticate(token).name == "ana"


@pytest.mark.parametrize(
    ("words", "typed", "code", "line"),
    [
        (["user", "add", "CONF", "Bea", "--password-stdin"], PASSWORD, 2, '"Bea" cannot name a user'),
        (["user", "add", "CONF", "bea", "--password-stdin"], "short", 2, "a password must have from 12"),
        (["user", "add", "CONF", "bea"], "", 2, "give it with --password-stdin"),
        (
            ["user", "add", "CONF", "bea", "--role", "king", "--password-stdin"],
            PASSWORD,
            2,
            "allowed are analyst, admin",
        ),
        (["user", "unlock", "CONF", "nobody"], "", 1, 'there is no user "nobody"'),
        (["token", "CONF", "nobody"], "", 1, 'there is no user "nobody"'),
        (["sessions", "MISSING"], "", 2, "no such configuration"),
    ],
)
def test_what_goes_wrong_is_one_line(conf: Path, words: list[str], typed: str, code: int, line: str) -> None:
    paths = {"CONF": str(conf), "MISSING": str(conf.with_name("missing.toml"))}
    run = masquerade(*(paths.get(word, word) for word in words), typed=typed + "\n" if typed else "")
    assert (run.returncode, run.stdout) == (code, "")
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("error: ")
    assert line in run.stderr
    assert not typed or typed not in run.stderr


def test_sessions_are_listed_straight_from_the_store(conf: Path) -> None:
    assert masquerade("sessions", conf).stdout == "no session yet\n"
    settings = Settings.load(conf)
    with Store.open(settings.database, base=settings.state) as store:
        store.users.add("zoe", "no hash", Role.ANALYST)
        store.providers.register("bank", "127.0.0.1:7001", "finger", public=True)
        session = store.sessions.create("zoe", ["bank"], "research", {"attributes": ["age"]})
    listed = json.loads(masquerade("sessions", conf, "--json").stdout)["sessions"]
    assert [(each["id"], each["client"], each["status"]) for each in listed] == [
        (session.id, "zoe", "requested")
    ]


def test_a_database_that_is_none_names_file_and_key(conf: Path) -> None:
    other = conf.with_name("other.toml")
    for url, said in (
        ("mysql://root:hush@localhost/x", "mysql://…: not a database for the service"),
        ("sqlite:///no/such/folder/x.db", "cannot be opened as a database"),
    ):
        other.write_text(f'database = "{url}"\n' + conf.read_text())
        for words in (["user", "list", other], ["serve", other]):
            run = masquerade(*words)
            assert (run.returncode, run.stdout) == (2, "")
            assert run.stderr.splitlines()[-1].startswith(f"error: {other}: database: ")
            assert said in run.stderr
            assert "hush" not in run.stderr


def test_serve_refuses_a_configuration_that_would_show_passwords_to_the_net(conf: Path) -> None:
    open_conf = conf.with_name("open.toml")
    open_conf.write_text('address = "0.0.0.0:0"\n' + conf.read_text())
    run = masquerade("serve", open_conf)
    assert run.returncode == 2
    assert "plain HTTP is for loopback addresses only" in run.stderr
    assert run.stdout == ""
