"""A node's configuration: read whole, or refused with every problem, each with its file and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings as settings_of, strategies as st

from examples import examples
from masquerade.errors import BadInput, ParameterError
from masquerade.net import TrustStore, self_signed
from masquerade.service import NodeSettings, StateFolder, open_datasets
from masquerade.service.node.serving import warn_of_certificates
from net.nodes import expired
from service.party_nodes import PEOPLE, Folder


def problems(path: Path) -> list[str]:
    with pytest.raises(ParameterError) as refused:
        NodeSettings.load(path)
    assert all(line.startswith(f"{path}: ") for line in refused.value.lines), refused.value.lines
    return [line.removeprefix(f"{path}: ") for line in refused.value.lines]


def test_a_configuration_is_read(folder: Folder) -> None:
    extra = 'session_ports = [7200, 7299]\nsession_host = "bank.example"\npublic_address = "bank.example:7001"'
    settings = NodeSettings.load(folder.write_conf("bank", extra=extra))
    assert (settings.name, settings.address, settings.public_address) == ("bank", "127.0.0.1:0", "bank.example:7001")
    assert (settings.listening_host, settings.listening_ports, settings.announced_host) == (
        "127.0.0.1",
        (7200, 7299),
        "bank.example",
    )
    assert (settings.coordinator.name, settings.coordinator.address) == ("coordinator", "127.0.0.1:1")
    assert settings.state == folder.path / "bank" / "state"
    customers = settings.datasets["customers"]
    assert customers.columns == ("ssn", "job", "salary", "income")
    assert customers.schema["salary"].upper == 4711
    assert customers.policy.least_k == 3
    assert customers.files == (folder.path / "bank" / "job.csv",)


def test_a_node_may_have_an_engine(folder: Folder) -> None:
    settings = NodeSettings.load(folder.write_conf("bank", extra='[engine]\nmemory = "2GB"'))
    assert settings.engine is not None
    assert settings.engine.memory_bytes == 2 << 30
    for engine, said in (
        ('name = "dask"', "engine.address: missing; name the scheduler"),
        ('memory = "4MB"', "engine.memory: must be a size of at least 512MB"),
    ):
        assert problems(folder.write_conf("bank", extra=f"[engine]\n{engine}"))[0].startswith(said)


def test_every_problem_is_told_at_once(folder: Folder) -> None:
    path = folder.conf("bank")
    path.write_text(
        """
        addres = "127.0.0.1:7001"
        session_ports = [9, 3]
        [coordinator]
        address = "nowhere"
        [timings]
        connect = -1
        [datasets."../evil"]
        sorce = "customers.csv"
        id = "ssn"
        [datasets.customers]
        source = "mysql://root:geheim@db/x"
        id = "ssn"
        sensitive = ["ssn", "job"]
        [datasets.customers.attributes.job]
        taxonmy = "job.csv"
        [datasets.customers.attributes.town]
        [datasets.customers.policy]
        purposes = "research"
        [datasets.Customers]
        source = "customers.csv"
        id = "ssn"
        [datasets.Customers.attributes.salary]
        type = "continuous"
        [datasets.Customers.policy]
        least_k = 2
        """
    )
    found = problems(path)
    for start in (
        'addres: unknown key (did you mean "address"?)',
        "name: missing",
        "session_ports: must be two ports",
        "coordinator.address: must be an address host:port",
        "timings.connect: must be a number of seconds above 0; got -1",
        'datasets."../evil": cannot name a dataset',
        'datasets."../evil".sorce: unknown key (did you mean "source"?)',
        'datasets."../evil".policy.least_k: missing',
        'datasets.customers.source: a source cannot be a URL that begins with "mysql://"',
        'datasets.customers.id: "ssn" identifies people',
        'datasets.customers.sensitive: "job" is released as it is',
        'datasets.customers.attributes.job.taxonmy: unknown key (did you mean "taxonomy"?)',
        "datasets.customers.attributes.town: a categorical attribute of a QID needs taxonomy",
        "datasets.customers.policy.purposes: must be a list of purposes",
        'datasets.Customers: published under the same name as "customers"',
    ):
        assert any(line.startswith(start) for line in found), (start, found)
    assert "geheim" not in "".join(found)


def test_peers_must_be_told_a_host_that_they_can_reach(folder: Folder) -> None:
    path = folder.conf("bank")
    path.write_text(path.read_text().replace("127.0.0.1:0", "0.0.0.0:7001"))
    assert problems(path) == ['session_host: missing; peers cannot reach "0.0.0.0": name the host that they know']
    path.write_text('public_address = "bank.example:7001"\n' + path.read_text())
    settings = NodeSettings.load(path)
    assert (settings.listening_host, settings.announced_host) == ("0.0.0.0", "bank.example")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "bank"', 'name = "shop"', 'name: "shop", but the certificate that identity names is of "bank"'),
        (
            "[coordinator]",
            '[coordinator]\nname = "hub"',
            'coordinator.name: "hub" is not in identity/trust, which knows clinic, coordinator, stranger',
        ),
        ("[coordinator]", '[coordinator]\nname = "bank"', 'coordinator.name: "bank" is this party itself'),
        ("start = 900", "start = true", "timings.start: must be a number of seconds above 0; got true"),
        ("start = 900", 'start = "9"', 'timings.start: must be a number of seconds above 0; got "9"'),
        ('"127.0.0.1:0"', '"::1"', "address: must be an address host:port"),
        (
            '"127.0.0.1:0"',
            '"127.0.0.1:0"\nsession_host = "http://x"',
            "session_host: must be the name or number of a host, without a",
        ),
        (
            '"127.0.0.1:0"',
            '"127.0.0.1:0"\nsession_host = "1.2.3.4:99999"',
            "session_host: must be the name or number of a host",
        ),
        ('"127.0.0.1:0"', f'"127.0.0.1:0"\ntrust = "{"x" * 256}"', "trust: "),
        ('"127.0.0.1:0"', f'"127.0.0.1:0"\ntrust = "/tmp/{"x" * 190}/{"y" * 9}"', "trust: "),
        ("least_k = 3", f"least_k = {10**30}", "datasets.customers.policy.least_k: must be a whole number from 1"),
        (
            "least_k = 3",
            f'least_k = 3\nprivacy = [{{ model = "k-anonymity", qid = ["job"], k = {10**30} }}]',
            "datasets.customers.policy.privacy[1].k: must be at most 2^53",
        ),
    ],
)
def test_nonsense_is_refused_before_the_start(folder: Folder, old: str, new: str, said: str) -> None:
    conf = folder.conf("bank")
    conf.write_text(conf.read_text().replace(old, new, 1))
    assert any(line.startswith(said) for line in problems(conf)), problems(conf)


def test_certificates_that_end_are_told_to_the_log(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    settings = NodeSettings.load(folder.conf("bank"))
    warn_of_certificates(settings)
    assert capsys.readouterr().out == ""
    pins = {name: settings.trust.pin(name) for name in settings.trust.names}
    pins["clinic"] = self_signed("clinic", days=5).certificate
    soon = settings.model_copy(update={"identity": self_signed("bank", days=9), "trust": TrustStore(pins)})
    warn_of_certificates(soon)
    told = capsys.readouterr().out.splitlines()
    assert [("our own certificate ends soon" in line, "peer=clinic" in line) for line in told] == [
        (True, False),
        (False, True),
    ]
    warn_of_certificates(settings.model_copy(update={"identity": expired("bank")}))
    assert "our own certificate is of no use" in capsys.readouterr().out


@given(data=st.data())
@settings_of(max_examples=examples(60), deadline=None)
def test_whatever_is_written_is_read_or_explained(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = _shared(tmp_path_factory)
    lines = folder.write_conf("bank").read_text().splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        value = data.draw(st.sampled_from(["3", "-1", "true", "[]", "{}", '""', '"x"', "[1, 2]", "1e999"]))
        name = lines[at].partition(" = ")[0]
        changed = st.sampled_from(["", f"{name} = {value}", f"{name}x = {value}", lines[at] + "x"])
        lines[at] = data.draw(changed)
    path = folder.conf("bank")
    path.write_text("\n".join(lines))
    told: tuple[str, ...] = (f"{path}: fine",)
    try:
        NodeSettings.load(path)
    except ParameterError as error:
        told = error.lines
    assert told
    assert all(line.startswith(f"{path}: ") and line.isprintable() for line in told)


_folders: list[Folder] = []


def _shared(factory: pytest.TempPathFactory) -> Folder:
    """One folder for all examples: identities are slow to make."""
    if not _folders:
        _folders.append(Folder(factory.mktemp("shared")))
    return _folders[0]


def test_the_same_table_twice_is_no_toml(folder: Folder) -> None:
    path = folder.conf("bank")
    path.write_text(path.read_text() + '\n[datasets.customers]\nsource = "a.csv"\n')
    assert "not valid TOML" in problems(path)[0]


@pytest.mark.parametrize("content", ["", "name = 3\naddress = []\ndatasets = 7\ncoordinator = 2\n"])
def test_what_is_hardly_a_configuration(folder: Folder, content: str) -> None:
    path = folder.conf("bank")
    path.write_text(content)
    found = problems(path)
    for key in ("name: ", "address: ", "datasets: ", "coordinator.address: "):
        assert any(line.startswith(key) for line in found), (key, found)


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no such configuration"):
        NodeSettings.load(tmp_path / "bank.toml")


def test_certificates_that_are_out_of_date(folder: Folder, tmp_path: Path) -> None:
    old = tmp_path / "old"
    expired("bank").save(old)
    TrustStore({"coordinator": expired("coordinator").certificate}).save(old / "trust")
    path = folder.write_conf("bank", extra='identity = "../old"\ntrust = "../old/trust"')
    found = problems(path)
    assert len(found) == 2
    assert found[0].startswith("identity: our own certificate (bank) expired on ")
    assert found[1].startswith("coordinator.name: its certificate in ../old/trust expired on ")


def test_a_party_is_not_called_assembler(folder: Folder, tmp_path: Path) -> None:
    self_signed("assembler").save(tmp_path / "as")
    path = folder.write_conf("bank", extra='identity = "../as"')
    path.write_text(path.read_text().replace('name = "bank"', 'name = "assembler"'))
    assert any("is the name of the one who joins the columns" in line for line in problems(path))


def test_a_private_key_that_others_may_read(folder: Folder) -> None:
    (folder.path / "bank" / "identity" / "key.pem").chmod(0o644)
    assert "chmod 600" in problems(folder.conf("bank"))[0]


def test_the_tables_are_looked_at_before_the_start(folder: Folder) -> None:
    path = folder.write_conf("bank")
    table = path.parent / "customers.csv"
    table.write_text(table.read_text().replace("Qzjanitor", "Qzpilot", 1))
    path.write_text(path.read_text() + "[datasets.customers.policy.price]\nattributes = { salari = 5 }\n")
    settings = NodeSettings.load(path)
    state = StateFolder(settings.state)
    state.make()
    with pytest.raises(BadInput) as refused:
        open_datasets(settings, state)
    assert "price.attributes: customers has no column" in refused.value.lines[0]
    path.write_text(path.read_text().replace("salari =", "salary ="))
    with pytest.raises(BadInput) as refused:
        open_datasets(NodeSettings.load(path), state)
    assert "Qzpilot" in refused.value.lines[0]
    assert "row 1 (line 2)" in refused.value.lines[0]


def test_doubled_identifiers_are_told_before_the_start(folder: Folder) -> None:
    table = folder.path / "bank" / "customers.csv"
    table.write_text(table.read_text().replace("1001,", "1000,"))
    settings = NodeSettings.load(folder.conf("bank"))
    state = StateFolder(settings.state)
    state.make()
    with pytest.raises(BadInput, match="the same identifier as row 1"):
        open_datasets(settings, state)


def test_secrets_are_the_owners(folder: Folder) -> None:
    state = StateFolder(folder.state("bank"))
    state.make()
    secret = state.secret("customers")
    path = state.folder / "secrets" / "customers.key"
    assert (len(secret), path.stat().st_mode & 0o777) == (32, 0o600)
    assert state.secret("customers") == secret
    assert state.secret("others") != secret
    path.chmod(0o640)
    with pytest.raises(ParameterError, match="others may read this secret"):
        state.secret("customers")
    assert state.folder.stat().st_mode & 0o777 == 0o700


def test_one_node_uses_a_state_folder(folder: Folder) -> None:
    state = StateFolder(folder.state("bank"))
    state.make()
    with state.locked():
        other = StateFolder(folder.state("bank"))
        with pytest.raises(ParameterError, match="another node uses this state folder"), other.locked():
            pass
    with state.locked():
        pass


def test_who_is_trusted_is_this_nodes_own_affair(folder: Folder) -> None:
    settings = NodeSettings.load(folder.conf("clinic"))
    assert settings.trust.fingerprint("bank") == PEOPLE["bank"].fingerprint
    assert "clinic" not in settings.trust.names
