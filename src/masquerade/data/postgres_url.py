"""PostgreSQL's URLs taken apart: for the driver, and for people without their password.

A password may be written as `${NAME}`: whoever connects looks the environment variable up, so a URL that travels to the
workers of a cluster carries no secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

from masquerade.errors import DataError

# As libpq reads it: the user's part ends at the first "@" before a "/"; a password keeps "?" and "#".
_POSTGRESQL = re.compile(
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<hosts>[^/?@]*)(?:/(?P<database>[^/?@]*))?(?:\?(?P<parameters>.*))?",
    re.DOTALL,
)
_HOST = r"(?:\[[^\]]*\]|[^:,\[\]]*)(?::[0-9]*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")  # braces cannot be in a URL as they are
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
        parameters = _SECRET_PARAMETER.sub(
            lambda match: f"{match['key']}={self._looked_up(match['value'])}", self.parameters or ""
        )
        if "connect_timeout=" not in parameters:
            parameters += "&connect_timeout=10" if parameters else "connect_timeout=10"
        return self._written(self._looked_up(self.password), parameters)

    def _looked_up(self, secret: str | None) -> str | None:
        """Return a password as a URL has it, also where it is in an environment variable."""
        if secret is None or (match := _VARIABLE.fullmatch(secret)) is None:
            return secret
        if (found := os.environ.get(match[1])) is None:
            raise DataError.about(
                self.shown(), f"the environment variable {match[1]} is not set where the database is read"
            )
        return quote(found, safe="")

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
            if (match := _VARIABLE.fullmatch(secret)) is not None:
                secret = quote(os.environ.get(match[1], ""), safe="")
            if secret:
                yield secret
                yield unquote(secret)
