"""Identities and trust stores: files, names, dates, and what is refused."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given, strategies as st

from masquerade.errors import ParameterError, PeerRefused
from masquerade.net import Identity, TrustStore, check_name, make_trial, out_of_date, self_signed, trial_identities
from masquerade.net.identity import issue, make_authority
from net.nodes import AUTHORITY, PEOPLE, TRUST, expired, issued


def test_an_issued_certificate_is_valid_under_its_authority() -> None:
    leaf = x509.load_pem_x509_certificate(PEOPLE["bank"].certificate)
    store = Store([x509.load_pem_x509_certificate(AUTHORITY.certificate)])
    verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName("bank"))
    assert len(verifier.verify(leaf, [])) == 2
    PolicyBuilder().store(store).build_client_verifier().verify(leaf, [])
    with pytest.raises(x509.verification.VerificationError):
        PolicyBuilder().store(store).build_server_verifier(x509.DNSName("loans")).verify(leaf, [])
    other = Store([x509.load_pem_x509_certificate(make_authority().certificate)])
    with pytest.raises(x509.verification.VerificationError):
        PolicyBuilder().store(other).build_client_verifier().verify(leaf, [])


@pytest.mark.system
def test_openssl_agrees(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    make_trial(tmp_path / "trial", ["bank", "loans"])
    files = [str(tmp_path / "trial" / "ca.pem"), str(tmp_path / "trial" / "bank" / "identity.pem")]
    done = subprocess.run([openssl, "verify", "-CAfile", *files], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("identity.pem: OK\n"), done.stderr


def test_each_identity_has_a_key_of_its_own_and_shows_it_to_nobody() -> None:
    first, second = issue(AUTHORITY, "bank"), issue(AUTHORITY, "bank")
    assert first.key != second.key
    assert first.fingerprint != second.fingerprint
    assert "PRIVATE" not in repr(first) + repr(AUTHORITY) + str(first)


def test_saved_and_loaded(tmp_path: Path) -> None:
    PEOPLE["bank"].save(tmp_path / "bank")
    assert stat.S_IMODE((tmp_path / "bank" / "key.pem").stat().st_mode) == 0o600
    assert Identity.load(tmp_path / "bank") == PEOPLE["bank"]
    assert Identity.load(tmp_path / "bank").name == "bank"
    with pytest.raises(ParameterError, match=r"key.pem: exists already, and is not overwritten"):
        PEOPLE["bank"].save(tmp_path / "bank")


def test_dates() -> None:
    assert out_of_date(PEOPLE["bank"].certificate) is None
    old = expired("bank")
    assert (out_of_date(old.certificate) or "").startswith("expired on ")
    with pytest.raises(ParameterError, match=r"our own certificate \(bank\) expired on .*; renew it"):
        old.check_dates()
    with issued(days_ago=-9):
        young = self_signed("bank")
    assert (out_of_date(young.certificate) or "").startswith("is valid from ")


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_days_are_checked(days: int) -> None:
    with pytest.raises(ParameterError, match=f"valid for 1 to 3650 days, not {days}"):
        self_signed("bank", days=days)


@pytest.mark.parametrize(
    "name", ["", "Bank", "-bank", "a" * 64, "bank.example", "../bank", "bänk", "a b", "bank\n", "٣"]
)
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(ParameterError, match="cannot name a party: small letters a-z, digits and hyphens"):
        check_name(name)


@given(st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True))
def test_names_that_can_be(name: str) -> None:
    assert check_name(name) == name


def _without_password(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_broken_identities_are_named_with_their_file(tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    with pytest.raises(ParameterError, match=r"bank/identity.pem: cannot be read: No such file"):
        Identity.load(folder)
    PEOPLE["bank"].save(folder)
    key = folder / "key.pem"
    key.write_bytes(PEOPLE["loans"].key)
    with pytest.raises(ParameterError, match=r"bank: the key is not the one of bank's certificate"):
        Identity.load(folder)
    key.write_bytes(b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    with pytest.raises(ParameterError, match=r"key.pem: not a private key") as caught:
        Identity.load(folder)
    assert "c2VjcmV0" not in str(caught.value)
    key.write_bytes(_without_password(ec.generate_private_key(ec.SECP384R1())))
    with pytest.raises(ParameterError, match=r"key.pem: not an ECDSA key on P-256"):
        Identity.load(folder)
    key.write_bytes(PEOPLE["bank"].key)
    key.chmod(0o644)
    with pytest.raises(ParameterError, match=r"key.pem: others may read this private key; chmod 600 it"):
        Identity.load(folder)
    (folder / "identity.pem").write_bytes(b"not a certificate")
    with pytest.raises(ParameterError, match=r"identity.pem: not a PEM certificate"):
        Identity.load(folder)


# --- trust stores ---


def test_a_trust_store_saved_and_loaded(tmp_path: Path) -> None:
    TRUST.save(tmp_path / "trust")
    loaded = TrustStore.load(tmp_path / "trust")
    assert loaded.names == ("bank", "loans", "shop")
    assert loaded.pin("bank") == PEOPLE["bank"].certificate
    assert loaded.fingerprint("bank") == PEOPLE["bank"].fingerprint
    assert loaded.owner(PEOPLE["shop"].certificate) == "shop"
    assert loaded.owner(self_signed("shop").certificate) is None


def test_an_unknown_peer_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PeerRefused, match=r'party lonas: is not in our trust store.*did you mean "loans"') as caught:
        TRUST.pin("lonas")
    assert caught.value.peer == "lonas"


def test_trust_stores_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="there is no such folder"):
        TrustStore.load(tmp_path / "nowhere")
    folder = tmp_path / "trust"
    folder.mkdir()
    assert TrustStore.load(folder).names == ()
    (folder / "bank.pem").write_bytes(PEOPLE["loans"].certificate)
    with pytest.raises(ParameterError, match=r'bank.pem: the certificate is for party "loans", not for "bank"'):
        TrustStore.load(folder)
    (folder / "bank.pem").write_bytes(PEOPLE["bank"].certificate + AUTHORITY.certificate)
    with pytest.raises(ParameterError, match=r"bank.pem: more than one certificate"):
        TrustStore.load(folder)
    (folder / "bank.pem").write_bytes(AUTHORITY.certificate)
    with pytest.raises(ParameterError, match=r"bank.pem: not a PEM certificate with the party's name"):
        TrustStore.load(folder)
    (folder / "bank.pem").rename(folder / "My Bank.pem")
    with pytest.raises(ParameterError, match=r'My Bank.pem: "My Bank" cannot name a party'):
        TrustStore.load(folder)


def test_a_store_follows_its_folder(tmp_path: Path) -> None:
    TRUST.save(tmp_path)
    store = TrustStore.load(tmp_path)
    late = self_signed("late")
    (tmp_path / "late.pem").write_bytes(late.certificate)
    assert store.owner(late.certificate) == "late"
    renewed = self_signed("bank")
    (tmp_path / "bank.pem").write_bytes(renewed.certificate)
    assert store.pin("bank") == renewed.certificate
    assert store.owner(PEOPLE["bank"].certificate) is None
    (tmp_path / "shop.pem").unlink()
    (tmp_path / "loans.pem").write_bytes(late.certificate[:100])  # half copied
    assert store.names == ("bank", "late")  # the others count
    (tmp_path / "loans.pem").write_bytes(PEOPLE["loans"].certificate)
    assert store.pin("loans") == PEOPLE["loans"].certificate


# --- trials ---


def test_a_trial_trusts_all_the_others_and_nobody_else(tmp_path: Path) -> None:
    identities = make_trial(tmp_path / "trial", ["bank", "loans", "shop"])
    for name in identities:
        folder = tmp_path / "trial" / name
        assert Identity.load(folder) == identities[name]
        assert set(TrustStore.load(folder / "trust").names) == set(identities) - {name}
    keys = [path for path in (tmp_path / "trial").rglob("*") if path.is_file() and b"PRIVATE" in path.read_bytes()]
    assert sorted(path.parent.name for path in keys) == ["bank", "loans", "shop"]


def test_a_trial_is_extended(tmp_path: Path) -> None:
    first = make_trial(tmp_path, ["bank", "loans"])
    more = make_trial(tmp_path, ["shop"])
    for name, identity in (first | more).items():
        assert Identity.load(tmp_path / name) == identity
        trusted = TrustStore.load(tmp_path / name / "trust")
        assert {each: trusted.pin(each) for each in trusted.names} == {
            other: who.certificate for other, who in (first | more).items() if other != name
        }


def test_trials_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="party bank is named twice"):
        trial_identities(["bank", "loans", "bank"])
    with pytest.raises(ParameterError, match="at least two parties"):
        trial_identities(["bank"])
    make_trial(tmp_path, ["bank", "loans"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.pem")}
    for names in (["bank", "loans"], ["new", "loans"]):
        with pytest.raises(ParameterError, match="exists already, and is not overwritten"):
            make_trial(tmp_path, names)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.pem")} == before
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match=r"file/x: cannot be made: Not a directory"):
        make_trial(tmp_path / "file" / "x", ["bank", "loans"])
