"""The certificates of clients who sign their requests: one file `USER.pem` each, in a folder of the node's own.

They are kept apart from the trust store: a client's certificate opens no connection. Like the store, they follow
their folder when it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from cryptography import x509

from masquerade.errors import ParameterError
from masquerade.files import FolderLook, look_at, read_file
from masquerade.net.identity import signing_key

SUFFIX = ".pem"


class ClientCertificates:
    """Users with their certificates (PEM)."""

    def __init__(self, certificates: Mapping[str, bytes] | None = None) -> None:
        self._read = dict(certificates or {})
        self._folder: Path | None = None
        self._look: FolderLook = ()

    def __len__(self) -> int:
        return len(self._read)

    def of(self, user: str) -> bytes | None:
        """Return a user's certificate, or None."""
        self._follow()
        return self._read.get(user)

    def _follow(self) -> None:
        """Read the folder again if it has changed; a file that is no certificate is nobody's."""
        if self._folder is None or (look := look_at(self._folder, SUFFIX)) == self._look:
            return
        found = {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with suppress(ParameterError):
                found[path.stem] = _checked(read_file(path), path)
        self._read, self._look = found, look

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the certificates in a folder; a missing folder holds none. ParameterError names a file that is none."""
        certificates = cls()
        certificates._folder, certificates._look = folder, look_at(folder, SUFFIX)
        try:
            paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
        except OSError as error:
            raise ParameterError(f"{folder}: cannot be read: {error.strerror}") from None
        certificates._read = {path.stem: _checked(read_file(path), path) for path in paths}
        return certificates


def _checked(pem: bytes, path: Path) -> bytes:
    try:
        count = len(x509.load_pem_x509_certificates(pem))
    except ValueError:
        count = 0
    if count != 1 or signing_key(pem) is None:
        raise ParameterError(f"{path}: must be one certificate in PEM, for an ECDSA key on P-256")
    return pem
