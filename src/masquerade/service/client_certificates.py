"""The certificates of clients who sign their requests: one file `USER.pem` each, in a folder of the node's own.

They are kept apart from the trust store: a client's certificate opens no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from cryptography import x509

from masquerade.errors import ParameterError
from masquerade.files import read_file
from masquerade.net.identity import signing_key


class ClientCertificates:
    """Users with their certificates (PEM)."""

    def __init__(self, certificates: Mapping[str, bytes] | None = None) -> None:
        self._certificates = dict(certificates or {})

    def __len__(self) -> int:
        return len(self._certificates)

    def of(self, user: str) -> bytes | None:
        """Return a user's certificate, or None."""
        return self._certificates.get(user)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the certificates in a folder; a missing folder holds none. ParameterError names a file that is none."""
        try:
            paths = sorted(folder.glob("*.pem")) if folder.is_dir() else []
        except OSError as error:
            raise ParameterError(f"{folder}: cannot be read: {error.strerror}") from None
        return cls({path.stem: _checked(read_file(path), path) for path in paths})


def _checked(pem: bytes, path: Path) -> bytes:
    try:
        count = len(x509.load_pem_x509_certificates(pem))
    except ValueError:
        count = 0
    if count != 1 or signing_key(pem) is None:
        raise ParameterError(f"{path}: must be one certificate in PEM, for an ECDSA key on P-256")
    return pem
