"""Authentication, and what a token opens: each route names the scope that it needs.

A token is accepted only in the Authorization header: not in a URL, not in a cookie. A browser sends no
credentials here by itself, so no other site can act for a user (CSRF).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from masquerade.errors import Conflict, NotAllowed, ParameterError, hint, shown
from masquerade.service.accounts import (
    LONGEST_LIFETIME,
    LONGEST_PASSWORD,
    SHORTEST_PASSWORD,
    USUAL_LIFETIME,
    USUAL_SCOPES,
    SignInSource,
    require,
)
from masquerade.service.api.middleware import RateLimit, address_key
from masquerade.service.api.problems import Unauthenticated, error_responses, operations
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import (
    Account,
    IssuedToken,
    Page,
    Role,
    Scope,
    SignedIn,
    Token,
    TokenKind,
    User,
    UserDetails,
)
from masquerade.service.store import ApiToken

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="An API token, from `POST /sign-in`, `POST /tokens` or `masquerade coordinator token`.",
)


@dataclass(frozen=True)
class ApiCaller:
    """The user who makes a request, the token used, and its description."""

    user: User
    token: str = field(repr=False)
    described: ApiToken


async def _coordinator(request: Request) -> Coordinator:
    coordinator: Coordinator = request.app.state.coordinator
    return coordinator


async def no_unknown_parameters(request: Request) -> None:
    """Refuse unknown and repeated parameters: a typo must not be silently ignored."""
    known = operations(request).get(request.method, [])
    there = f"; known here: {', '.join(known)}" if known else "; nothing can be asked here"
    asked = [name for name, _value in request.query_params.multi_items()]
    strange = [name for name in dict.fromkeys(asked) if name not in known]
    problems = [f"query {name}: unknown{hint(name, known)}{there}" for name in strange]
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
    request: Request, coordinator: Service, held: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> ApiCaller:
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
    return ApiCaller(user, held.credentials, described)


def scoped(scope: Scope) -> Callable[[ApiCaller], User]:
    """Return the dependency that admits the user of a token with this scope."""

    def admit(caller: Asking) -> User:
        scopes = caller.described.scopes
        if scope not in scopes:
            raise NotAllowed(f"this needs a token with the scope {scope}; yours has {', '.join(scopes)}")
        return caller.user

    return admit


def _admin(user: Annotated[User, Depends(scoped(Scope.ADMIN))]) -> User:
    return require(user, Role.ADMIN)


Service = Annotated[Coordinator, Depends(_coordinator)]
Asking = Annotated[ApiCaller, Depends(_caller)]
to_read, to_manage_tokens = scoped(Scope.READ), scoped(Scope.TOKENS)
Reader = Annotated[User, Depends(to_read)]
Requester = Annotated[User, Depends(scoped(Scope.REQUEST))]
Recipient = Annotated[User, Depends(scoped(Scope.DOWNLOAD))]
TokenOwner = Annotated[User, Depends(to_manage_tokens)]
Admin = Annotated[User, Depends(_admin)]
SessionId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="a session's identifier", examples=["0f" * 16])]
Limit = Annotated[int, Query(ge=1, le=200, description="the largest number of items")]
Item = TypeVar("Item")


class Body(BaseModel):
    """Anything that the API is sent. Unknown keys are errors, and nothing is converted in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def page(found: Sequence[Item], limit: int) -> tuple[tuple[Item, ...], bool]:
    """Split off the extra item that was fetched: return the page's items, and whether there are more."""
    return tuple(found[:limit]), len(found) > limit


# --- admin --------------------------------------------------------------------------------------------------
# For admins: accounts, and the end of the audit log.

admin_router = APIRouter(tags=["admin"])

UserPath = Annotated[str, Path(min_length=1, max_length=128, description="the user's name", examples=["ana"])]
Password = Annotated[
    str,
    Field(
        min_length=SHORTEST_PASSWORD,
        max_length=LONGEST_PASSWORD,
        description="a password",
        json_schema_extra={"format": "password"},
    ),
]
Roles = Annotated[Role, Field(strict=False, description="what the user may do")]


class NewUser(Body):
    """The account that is wanted."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9._@+-]{0,127}$",
        description="small letters, digits and . _ @ + -, first a letter or a digit",
        examples=["ana"],
    )
    password: Password
    role: Roles = Role.ANALYST


class UserChange(Body):
    """What is to become of an account; what is left out stays."""

    role: Roles | None = Field(None, description="what the user may do")
    disabled: bool | None = Field(None, description="true shuts the account, false opens it again")
    unlock: bool | None = Field(None, description="true forgets the wrong guesses: nobody has to wait any more")
    password: Password | None = Field(None, description="another password; it revokes all tokens")


@admin_router.get("/users", responses=error_responses(401, 403, 422, 429, 500, 503))
def users(
    _admin: Admin,
    coordinator: Service,
    limit: Limit = 50,
    after: Annotated[str, Query(max_length=128, description="the last name of the page before")] = "",
) -> Page[UserDetails]:
    """All accounts."""
    if "\0" in after:
        raise ParameterError("query after: no name holds such characters")
    items, more = page(coordinator.store.users.all(limit + 1, after), limit)
    told = tuple(_details(coordinator, each) for each in items)
    return Page[UserDetails](items=told, next=items[-1].name if more else None)


@admin_router.post("/users", status_code=201, responses=error_responses(401, 403, 409, 413, 422, 429, 500, 503))
def add_user(body: NewUser, admin: Admin, coordinator: Service, response: Response) -> UserDetails:
    """A new account."""
    made = coordinator.accounts.by(admin.name).create(body.name, body.password, body.role)
    response.headers["Location"] = f"/api/v1/users/{made.name}"
    return _details(coordinator, made)


@admin_router.get("/users/{name}", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def user(name: UserPath, _admin: Admin, coordinator: Service) -> UserDetails:
    """One account."""
    return _details(coordinator, coordinator.store.users.get(name))


@admin_router.patch("/users/{name}", responses=error_responses(401, 403, 404, 409, 413, 422, 429, 500, 503))
def change_user(name: UserPath, body: UserChange, admin: Admin, coordinator: Service) -> UserDetails:
    """Change an account. Nobody takes the admin's role or account from themselves: somebody must be left."""
    accounts = coordinator.accounts.by(admin.name)
    found = coordinator.store.users.get(name)
    if found.name == admin.name and (body.disabled or body.role is Role.ANALYST):
        raise Conflict("your own account stays open, and an admin's; let another admin change it")
    if body.password is not None:
        accounts.set_password(name, body.password)
    if body.role is not None:
        accounts.set_role(name, body.role)
    if body.disabled is not None:
        accounts.disable(name, body.disabled)
    if body.unlock:
        accounts.unlock(name)
    return _details(coordinator, coordinator.store.users.get(name))


@admin_router.get("/audit", responses=error_responses(401, 403, 422, 429, 500, 503))
def audit(admin: Admin, coordinator: Service, limit: Limit = 100) -> Page[dict[str, Any]]:
    """The end of the coordinator's audit log, the newest last; for all of it see `masquerade audit verify`."""
    return Page[dict[str, Any]](items=tuple(coordinator.audit_tail(admin, limit)))


def _details(coordinator: Coordinator, user: User) -> UserDetails:
    return UserDetails(**dict(user), wrong_guesses=coordinator.accounts.wrong_guesses(user.name))


# --- sign in ------------------------------------------------------------------------------------------------
# Signing in and out, and API tokens.

SIGNED_IN_FOR = timedelta(hours=12)
_SIGN_INS_AT_ONCE = 4

sign_in_router = APIRouter(tags=["sign-in and tokens"])
# A password takes long to verify, on purpose: sign-ins have a queue of their own and delay no other request.
_line = anyio.CapacityLimiter(_SIGN_INS_AT_ONCE)


class Credentials(Body):
    """Who signs in."""

    user: str = Field(min_length=1, max_length=200, description="the user's name", examples=["ana"])
    password: str = Field(
        min_length=1, max_length=LONGEST_PASSWORD, description="the password", json_schema_extra={"format": "password"}
    )


class NewToken(Body):
    """What token is wanted."""

    name: str = Field(min_length=1, max_length=128, description="what you call it", examples=["notebook"])
    days: int = Field(USUAL_LIFETIME.days, ge=1, le=LONGEST_LIFETIME.days, description="for how many days")
    scopes: tuple[Annotated[Scope, Field(strict=False)], ...] = Field(
        USUAL_SCOPES,
        strict=False,
        min_length=1,
        max_length=len(Scope),
        description="what it opens: read, request, download, tokens (to make further tokens), admin",
    )


@sign_in_router.post(
    "/sign-in", dependencies=[Depends(visitor)], responses=error_responses(401, 413, 422, 429, 500, 503)
)
async def sign_in(body: Credentials, coordinator: Service, request: Request) -> SignedIn:
    """Sign in with a password: a token with all scopes, for twelve hours.

    A wrong name and a wrong password look the same. After five wrong guesses at a name the address that they came from
    waits for a minute, then longer; others do not.
    """
    source = SignInSource(address_key(request.client.host if request.client else None))

    def signed_in() -> SignedIn:
        user, token, made = coordinator.accounts.sign_in_for_token(
            body.user, body.password, TokenKind.SIGN_IN, SIGNED_IN_FOR, source
        )
        return SignedIn(token=token, expires=made.expires, user=user.name, role=user.role)

    try:
        return await anyio.to_thread.run_sync(signed_in, limiter=_line)
    except NotAllowed as error:
        raise Unauthenticated(str(error)) from None


@sign_in_router.delete("/sign-in", status_code=204, responses=error_responses(401, 422, 429, 500, 503))
def sign_out(caller: Asking, coordinator: Service) -> Response:
    """Sign out: the token of this request opens nothing from now on."""
    coordinator.accounts.revoke(caller.user, caller.described.id, for_sign_out=True)
    return Response(status_code=204)


@sign_in_router.get("/me", responses=error_responses(401, 422, 429, 500, 503))
def me(caller: Asking) -> Account:
    """Who asks."""
    return Account.model_validate(caller.user)


@sign_in_router.get("/tokens", responses=error_responses(401, 403, 422, 429, 500, 503))
def tokens(user: TokenOwner, coordinator: Service) -> Page[Token]:
    """Your valid tokens, sign-ins among them: their descriptions, never themselves."""
    return Page[Token](items=tuple(map(Token.model_validate, coordinator.accounts.tokens(user))))


@sign_in_router.post(
    "/tokens",
    status_code=201,
    dependencies=[Depends(to_manage_tokens)],
    responses=error_responses(401, 403, 409, 413, 422, 429, 500, 503),
)
def make_token(body: NewToken, caller: Asking, coordinator: Service) -> IssuedToken:
    """A new token, for a program. It has no scope that the token of this request lacks.

    Made by a program's token, it ends no later than that one.
    """
    lifetime = timedelta(days=body.days)
    token, made = coordinator.accounts.create_token(
        caller.user, body.name, lifetime, body.scopes, maker=caller.described
    )
    return IssuedToken(**dict(made), token=token)


@sign_in_router.delete("/tokens/{id}", status_code=204, responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def revoke(
    id: Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="the token's id")],
    user: TokenOwner,
    coordinator: Service,
) -> Response:
    """Make one of your tokens worthless, or end one of your sign-ins."""
    coordinator.accounts.revoke(user, id)
    return Response(status_code=204)
