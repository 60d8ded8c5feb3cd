"""What a token opens, and who holds it."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """What a token opens, of all that its user may do."""

    READ = "read"  # providers, previews, sessions, contracts, the ledger
    REQUEST = "request"  # ask for tables, cancel, decide
    DOWNLOAD = "download"  # releases and their reports
    TOKENS = "tokens"  # list, make and revoke tokens
    ADMIN = "admin"  # what only an admin may


class TokenKind(StrEnum):
    """Who holds a token: a program, somebody who signed in with a password, or a browser of the console."""

    PROGRAM = "program"
    SIGN_IN = "sign-in"
    BROWSER = "browser"
