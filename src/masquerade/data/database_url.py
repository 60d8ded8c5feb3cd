"""Database URLs: parsing them, and showing them without their password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from masquerade.errors import DataError

# As libpq reads it: the user's part ends at the first "@" before a "/"; a password keeps "?" and "#".
_POSTGRESQL = re.compile(
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<hosts>[^/?@]*)(?:/(?P<database>[^/?@]*))?(?:\?(?P<parameters>.*))?",
    re.DOTALL,
)
_HOST = r"(?:\[[^\]]*\]|[^:,\[\]]*)(?::[0-9]*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_SECRET_PARAMETER = re.compile(r"(?P<key>(?:ssl)?password)=(?P<value>[^&]*)", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class PostgresUrl:
    """`postgresql://user:password@host:port/database?parameters`, taken apart."""

    user: str | None
    password: str | None
    hosts: str
    database: str | None
    parameters: str | None

    @classmethod
    def parse(cls, url: str) -> PostgresUrl:
        """Parse a URL. Reject what the driver would misread: its error message would show the password."""
        match = _POSTGRESQL.fullmatch(url.partition("://")[2])
        if match is None or _HOSTS.fullmatch(match["hosts"]) is None:
            raise DataError.about(
                f"{url.partition('://')[0]}://…",
                "not of the form postgresql://user:password@host:port/database; "
                'in a user name or password write "@" as %40, "/" as %2F, ":" as %3A and "%" as %25',
            )
        return cls(**match.groupdict())

    def shown(self) -> str:
        """Return the URL for display, with `***` for every password."""
        return self._written("***", _SECRET_PARAMETER.sub(r"\g<key>=***", self.parameters or ""))

    def for_driver(self) -> str:
        """Return the URL for libpq with a connection timeout; without one it waits minutes for a silent host."""
        parameters = self.parameters or ""
        if "connect_timeout=" not in parameters:
            parameters += "&connect_timeout=10" if parameters else "connect_timeout=10"
        return self._written(self.password, parameters)

    def _written(self, password: str | None, parameters: str) -> str:
        login = ""
        if self.user is not None:
            login = f"{self.user}@" if self.password is None else f"{self.user}:{password}@"
        path = f"/{self.database}" if self.database is not None else ""
        return f"postgresql://{login}{self.hosts}{path}{'?' if parameters else ''}{parameters}"

    def scrub(self, message: str) -> str:
        """Remove this URL's passwords from the message, percent-encoded or not."""
        for secret in sorted(set(self._secrets()), key=len, reverse=True):
            message = message.replace(secret, "***")
        return message

    def _secrets(self) -> Iterator[str]:
        written = [self.password or ""]
        written += [match["value"] for match in _SECRET_PARAMETER.finditer(self.parameters or "")]
        for secret in filter(None, written):
            yield secret
            yield unquote(secret)


FILE_SCHEMES = ("sqlite", "duckdb")  # databases that are a file
DATABASE_URLS = "sqlite:///file.db, duckdb:///file.duckdb and postgresql://user:password@host/database"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def database_path(url: str, base: Path) -> Path:
    """Return the file's path: `sqlite:///relative.db` is relative to `base`, `sqlite:////absolute.db` is not."""
    scheme, rest = url.partition(":")[0], url.partition("://")[2]
    if not rest.startswith("/") or len(rest) == 1:
        raise DataError.about(
            url,
            f"not of the form {scheme}:///file.db (three slashes; four for an absolute path: {scheme}:////data/file.db)",
        )
    return base / rest[1:]


def database_scheme(source: str) -> str | None:
    """Return a database URL's scheme in lower case, or None for a path; an unknown scheme is an error."""
    match = _URL.match(source)
    if match is None:
        return None
    scheme = match[1].lower()
    if scheme not in (*FILE_SCHEMES, "postgresql", "postgres"):
        # The rest of the URL may hold a password, so it is not repeated.
        raise DataError(
            f'a source cannot be a URL that begins with "{match[0]}"; allowed are {DATABASE_URLS}'
        )
    return scheme
