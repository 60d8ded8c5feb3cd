"""The coordinator's settings: defaults, paths, and every mistake of the file told in its own line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from masquerade.errors import ParameterError
from masquerade.service import CoordinatorSettings
from masquerade.service.coordinator.settings import is_loopback
from service.coordinators import PARTIES, read_settings


def test_settings_have_defaults_and_paths_relative_to_the_file(trial: Path) -> None:
    found = read_settings(trial, PARTIES)
    assert (found.address, found.party_address) == ("127.0.0.1:8080", "127.0.0.1:7000")
    assert found.parties == {"bank": "127.0.0.1:7001", "clinic": "127.0.0.1:7002"}
    assert found.state == trial / "state"
    assert not found.state.exists()  # reading makes nothing
    found.make_state()
    assert found.state.stat().st_mode & 0o077 == found.releases.stat().st_mode & 0o077 == 0
    found.releases.rmdir()
    found.state.rmdir()
    assert found.keep_releases == timedelta(days=30)
    assert found.scheme == "http"
    assert found.console


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["parties: missing"]),
        ('adress = "127.0.0.1:1"\n' + PARTIES, ['adress: unknown key (did you mean "address"?)']),
        ("keep_releases = 0\nmost_wait = 'x'\n" + PARTIES, ["keep_releases: must be", "most_wait: must be"]),
        ('address = "0.0.0.0:80"\n' + PARTIES, ["plain HTTP is for loopback addresses only"]),
        ('address = "here"\n' + PARTIES, ["address: must be an address host:port"]),
        (
            'address = "127.0.0.1:8080"\nparty_address = "127.0.0.1:8080"\n' + PARTIES,
            ["party_address: 127.0.0.1:8080 is the address already; give each a port of its own"],
        ),
        ("[timings]\ncomeback = -1\n" + PARTIES, ["timings.comeback: must be a number of seconds above 0"]),
        ('[parties.shop]\naddress = "127.0.0.1:1"\n', ["parties.shop: its certificate is not in the trust store"]),
        ("[parties.bank]\n", ["parties.bank.address: missing"]),
        ('[parties.bank]\naddress = "x"\n[parties.clinic]\n', ["parties.bank.address", "parties.clinic.address"]),
        ('[parties.assembler]\naddress = "127.0.0.1:1"\n', ['"assembler" cannot name a party']),
        ('https = { certificate = "web.pem" }\n' + PARTIES, ["https"]),
        ('https = { certificate = "web.pem", key = "web.key" }\n' + PARTIES, ["there is no file"]),
        ('name = "bank"\n' + PARTIES, ['name: "bank", but the certificate']),
        ("[timings]\nretry = 0\n" + PARTIES, ["timings.retry: must be a number of seconds above 0"]),
        ("[timings]\nretry = true\n" + PARTIES, ["timings.retry: must be a number of seconds above 0"]),
        ('[timings]\nretry = "5"\n' + PARTIES, ["timings.retry: must be a number of seconds above 0"]),
        ('address = "::1"\n' + PARTIES, ["address: must be an address host:port"]),
        ('session_host = "http://x"\n' + PARTIES, ["session_host: must be the name or number of a host"]),
        ('session_host = "127.0.0.1:99999"\n' + PARTIES, ["session_host: must be the name or number"]),
        ('session_host = "a\\nb"\n' + PARTIES, ["session_host: holds the control character"]),
        ('database = "x"\n' + PARTIES, ["database: not the URL of a database; allowed are sqlite:///"]),
        ('database = "http://u:geheim@x"\n' + PARTIES, ["database: http://…: not a database for the service"]),
        ('database = "sqlite:x"\n' + PARTIES, ["database: sqlite:x: not of the form sqlite:///file.db"]),
        (f'https = {{ certificate = "{"x" * 300}", key = "{"y" * 300}" }}\n' + PARTIES, ["https: there is no file"]),
    ],
)
def test_what_is_wrong_with_the_settings_is_told_line_by_line(trial: Path, text: str, lines: list[str]) -> None:
    with pytest.raises(ParameterError) as caught:
        read_settings(trial, text)
    told = "\n".join(caught.value.lines)
    for line in lines:
        assert line in told
    assert all(str(trial) in each for each in caught.value.lines)


def test_identity_trust_certificates_and_parties_are_told_together(trial: Path) -> None:
    head = 'identity = "nowhere"\ntrust = "nobody"\nhttps = { certificate = "web.pem", key = "web.key" }\n'
    with pytest.raises(ParameterError) as caught:
        read_settings(trial, '[parties.assembler]\naddress = "127.0.0.1:1"\n[parties.bank]\n', head=head)
    told = caught.value.lines
    assert len(told) == 6
    for place in ("nowhere", "nobody", "parties.assembler", "parties.bank.address", "web.pem", "web.key"):
        assert sum(place in line for line in told) == 1
    for key in ("identity", "trust"):
        assert any(line.startswith(f"{trial / 'coordinator.toml'}: {key}: ") for line in told)
    with pytest.raises(ParameterError) as caught:
        read_settings(trial, 'name = "Me"\n[parties.shop]\naddress = "127.0.0.1:1"\n')
    party, name = caught.value.lines
    assert '"Me" cannot name a party' in name
    assert "parties.shop: its certificate is not in the trust store" in party
    assert not (trial / "state").exists()


@pytest.mark.parametrize("path", ["\\u0000", "x" * 300])
@pytest.mark.parametrize("key", ["identity", "trust"])
def test_a_folder_that_no_disk_can_have(trial: Path, key: str, path: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read_settings(trial, f'{key} = "{path}"\n' + PARTIES, head="")
    assert any(line.startswith(f"{trial / 'coordinator.toml'}: {key}: ") for line in caught.value.lines)


def test_settings_that_are_not_there_are_named(trial: Path) -> None:
    with pytest.raises(ParameterError, match="no such configuration"):
        CoordinatorSettings.load(trial / "other.toml")


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.8.8:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("10.0.0.1:1", False),
        ("example.org:1", False),
        ("[::]:1", False),
    ],
)
def test_loopback_is_this_machine_alone(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
