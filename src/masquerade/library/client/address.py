"""Parse a coordinator's address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from masquerade.errors import ParameterError, shown

_API = "/api/v1"


@dataclass(frozen=True)
class Address:
    """A coordinator's address; paths are appended to `base`."""

    base: str
    secure: bool
    loopback: bool

    @classmethod
    def read(cls, url: str) -> Address:
        """Parse a coordinator's URL; that of its API or of its console will do as well."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        else:
            if parts.username is not None or parts.password is not None:  # and the URL is not repeated
                raise ParameterError(
                    "the coordinator's URL holds a name or a password; give user and password apart"
                )
        if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
            raise ParameterError(
                f"{shown(url)} is no coordinator's address; write it as https://coordinator.example:8080"
            )
        path = parts.path.rstrip("/").removesuffix("/console").removesuffix(_API).rstrip("/")
        host = f"[{host}]" if ":" in host else host
        base = f"{parts.scheme}://{host}{f':{port}' if port is not None else ''}{path}"
        loopback = _is_loopback(parts.hostname or "")
        if parts.scheme == "http" and not loopback:
            raise ParameterError(
                f"{base}: a token never travels over plain http to another machine; use https://"
            )
        return cls(base, parts.scheme == "https", loopback)

    def of(self, path: str) -> str:
        """Return the URL of an API path."""
        return f"{self.base}{_API}{path}"


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
