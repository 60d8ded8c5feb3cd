"""Authentication, and what a token opens: each route names the scope that it needs.

A token is accepted only in the Authorization header: not in a URL, not in a cookie. A browser sends no
credentials here by itself, so no other site can act for a user (CSRF).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from masquerade.errors import NotAllowed, ParameterError, shown
from masquerade.service.accounts import require
from masquerade.service.api.limits import RateLimit, address_key
from masquerade.service.api.problems import Unauthenticated, unknown_parameter
from masquerade.service.api.surface import known_parameters
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import Role, User
from masquerade.service.store import ApiToken
from masquerade.service.token_scopes import Scope

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="An API token, from `POST /sign-in`, `POST /tokens` or `masquerade coordinator token`.",
)


@dataclass(frozen=True)
class Caller:
    """The user who makes a request, the token used, and its description."""

    user: User
    token: str = field(repr=False)
    described: ApiToken


async def _coordinator(request: Request) -> Coordinator:
    coordinator: Coordinator = request.app.state.coordinator
    return coordinator


async def no_unknown_parameters(request: Request) -> None:
    """Refuse unknown and repeated parameters: a typo must not be silently ignored."""
    known = known_parameters(request)
    asked = [name for name, _value in request.query_params.multi_items()]
    problems = [unknown_parameter(name, known) for name in dict.fromkeys(asked) if name not in known]
    problems += [f"query {name}: given twice" for name in known if asked.count(name) > 1]
    problems += _given_twice(await request.body())
    if problems:
        raise ParameterError(*problems)


def _given_twice(body: bytes) -> list[str]:
    """Return the keys that occur twice in a JSON body; empty for a body that is not JSON."""
    problems: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        counted = Counter(key for key, _value in pairs)
        problems.extend(f"{shown(key)}: given twice" for key, times in counted.items() if times > 1)

    try:
        json.loads(body, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return []
    return problems


def visitor(request: Request) -> None:
    """Admit a client without a token, rate-limited by address."""
    limit: RateLimit = request.app.state.rate_limit
    request.state.allowance = limit.take(address_key(request.client.host if request.client else None))


def _caller(
    request: Request,
    coordinator: Service,
    held: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    if held is None:
        visitor(request)
        raise Unauthenticated("a token is needed, in the header Authorization: Bearer TOKEN")
    try:
        described, user = coordinator.accounts.bearer(held.credentials)
    except NotAllowed as error:
        visitor(request)
        raise Unauthenticated(str(error)) from None
    limit: RateLimit = request.app.state.rate_limit
    request.state.allowance = limit.take(f"user {user.name}")
    return Caller(user, held.credentials, described)


def scoped(scope: Scope) -> Callable[[Caller], User]:
    """Return the dependency that admits the user of a token with this scope."""

    def admit(caller: Asking) -> User:
        scopes = caller.described.scopes
        if scope not in scopes:
            raise NotAllowed(f"this needs a token with the scope {scope}; yours has {', '.join(scopes)}")
        return caller.user

    return admit


def _user(caller: Asking) -> User:
    return caller.user


def _admin(user: Annotated[User, Depends(scoped(Scope.ADMIN))]) -> User:
    return require(user, Role.ADMIN)


Service = Annotated[Coordinator, Depends(_coordinator)]
Asking = Annotated[Caller, Depends(_caller)]
Someone = Annotated[User, Depends(_user)]  # with any token
to_read, to_manage_tokens = scoped(Scope.READ), scoped(Scope.TOKENS)
Reader = Annotated[User, Depends(to_read)]
Requester = Annotated[User, Depends(scoped(Scope.REQUEST))]
Recipient = Annotated[User, Depends(scoped(Scope.DOWNLOAD))]
TokenOwner = Annotated[User, Depends(to_manage_tokens)]
Admin = Annotated[User, Depends(_admin)]
SessionId = Annotated[
    str,
    Path(pattern="^[0-9a-f]{32}$", description="a session's identifier", examples=["0f" * 16]),
]
