"""The kinds of problems that the API answers with: what each means, and what a client can do about it.

An answer names its kind in `type` (RFC 9457): the address of its section on a page that every coordinator serves. That
page and docs/reference/problems.md are made from this list.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE = "/api/v1/problems"  # on the coordinator itself: the explanation fits its version, and needs no network


@dataclass(frozen=True)
class ProblemType:
    """One kind of problem; `name` is its place on the page."""

    name: str
    status: int
    title: str
    meaning: str
    remedy: str

    @property
    def address(self) -> str:
        """What `type` says: where this kind is explained."""
        return f"{PAGE}#{self.name}"


INVALID = ProblemType(
    "invalid",
    422,
    "Something that was sent is wrong",
    "The body is not JSON, or a key, a value or a query parameter is wrong, or no party can meet the request.",
    "Correct what `problems` lists; it has every problem at once, and `errors` has the key of each.",
)
UNAUTHENTICATED = ProblemType(
    "unauthenticated",
    401,
    "No valid token",
    "The request has no token, or one that is unknown, expired or revoked; or name and password do not fit, or their"
    " address has to wait after wrong guesses: all of these look the same.",
    "Sign in, or send a valid token in the header `Authorization: Bearer TOKEN`.",
)
NOT_ALLOWED = ProblemType(
    "not-allowed",
    403,
    "Not allowed",
    "The user is known, but the role, the session or the token's scopes do not allow this.",
    "Use a token with the scope that `detail` names, or ask somebody who may.",
)
NOT_FOUND = ProblemType(
    "not-found",
    404,
    "Nothing there",
    "There is no such thing, or it is not yours: both look the same. A release that has expired is gone, too.",
    "Check the address and the identifier; list what you have with `GET /sessions`.",
)
NO_SUCH_METHOD = ProblemType(
    "no-such-method",
    405,
    "No such method",
    "The path does not have this method. There is no `HEAD` or `OPTIONS`.",
    "Use one of those in the header `Allow`.",
)
CONFLICT = ProblemType(
    "conflict",
    409,
    "Things have changed",
    "The request does not fit the state that things are in now: somebody was faster, or it is too late.",
    "Read the state again (`GET /sessions/{id}`), and decide anew.",
)
TOO_LARGE = ProblemType(
    "too-large",
    413,
    "Too large",
    "The body has more bytes than are read.",
    "Send a smaller one; `detail` has the limit.",
)
TOO_MANY = ProblemType(
    "too-many-requests",
    429,
    "Too many requests",
    "The user, or an address without a valid token, has no request or stream left.",
    "Wait for as many seconds as `Retry-After` says.",
)
BUG = ProblemType(
    "bug",
    500,
    "A mistake of ours",
    "The coordinator failed. The answer does not have the error's text, which may hold what is not yours to see.",
    "Tell the coordinator's operator: its log has the place.",
)
PARTY_AWAY = ProblemType(
    "party-away",
    503,
    "A party does not answer",
    "What was asked for depends on a party that cannot be reached, or has not published anything yet.",
    "Try again later; `errors` names the party where you may know it.",
)
DATABASE_AWAY = ProblemType(
    "database-away",
    503,
    "The database does not answer",
    "The coordinator runs, but cannot reach its database. Sessions that were computing are tried again.",
    "Try again after as many seconds as `Retry-After` says.",
)

PROBLEM_TYPES = (
    INVALID,
    UNAUTHENTICATED,
    NOT_ALLOWED,
    NOT_FOUND,
    NO_SUCH_METHOD,
    CONFLICT,
    TOO_LARGE,
    TOO_MANY,
    BUG,
    PARTY_AWAY,
    DATABASE_AWAY,
)


def usual_type(status: int) -> ProblemType | None:
    """Return the type of a status that says nothing more; None where no status of ours is like it."""
    return next((each for each in PROBLEM_TYPES if each.status == status), None)
