"""Signing in and out, and API tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Path, Response
from pydantic import Field

from masquerade.errors import Conflict, NotAllowed
from masquerade.service.accounts import LONGEST_PASSWORD
from masquerade.service.api.access import Asking, Service, Someone, visitor
from masquerade.service.api.problems import Unauthenticated, error_responses
from masquerade.service.api.shapes import Body
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import Account, IssuedToken, Page, SignedIn, Token, User
from masquerade.service.store import ApiToken

SIGNED_IN_FOR = timedelta(hours=12)
_MOST_DAYS = 366
_SIGN_INS_AT_ONCE = 4
_MOST_TOKENS = 100  # per user
_MOST_SIGN_INS = 100
_SIGN_IN = "sign-in"

router = APIRouter(tags=["sign-in and tokens"])
# A password takes long to verify, on purpose: sign-ins have a queue of their own and delay no other request.
_line = anyio.CapacityLimiter(_SIGN_INS_AT_ONCE)


class Credentials(Body):
    """Who signs in."""

    user: str = Field(min_length=1, max_length=200, description="the user's name", examples=["ana"])
    password: str = Field(
        min_length=1,
        max_length=LONGEST_PASSWORD,
        description="the password",
        json_schema_extra={"format": "password"},
    )


class NewToken(Body):
    """What token is wanted."""

    name: str = Field(min_length=1, max_length=128, description="what you call it", examples=["notebook"])
    days: int = Field(90, ge=1, le=_MOST_DAYS, description="for how many days")


@router.post(
    "/sign-in", dependencies=[Depends(visitor)], responses=error_responses(401, 413, 422, 429, 500, 503)
)
async def sign_in(body: Credentials, coordinator: Service) -> SignedIn:
    """Sign in with a password: a token for twelve hours.

    A wrong name and a wrong password look the same. After five guesses the name is locked for a minute, then longer.
    """

    def signed_in() -> SignedIn:
        accounts = coordinator.accounts
        user, token, made = accounts.sign_in_for_token(body.user, body.password, _SIGN_IN, SIGNED_IN_FOR)
        _forget_old_sign_ins(coordinator, user)
        assert made.expires is not None
        return SignedIn(token=token, expires=made.expires, user=user.name, role=user.role)

    try:
        return await anyio.to_thread.run_sync(signed_in, limiter=_line)
    except NotAllowed as error:
        raise Unauthenticated(str(error)) from None


@router.delete("/sign-in", status_code=204, responses=error_responses(401, 422, 429, 500, 503))
def sign_out(caller: Asking, coordinator: Service) -> Response:
    """Sign out: the token of this request opens nothing from now on."""
    found = coordinator.store.users.by_token(caller.token)
    if found is not None:
        coordinator.accounts.revoke(caller.user, found[0].id, for_sign_out=True)
    return Response(status_code=204)


@router.get("/me", responses=error_responses(401, 422, 429, 500, 503))
def me(user: Someone) -> Account:
    """Who asks."""
    return Account.model_validate(user)


@router.get("/tokens", responses=error_responses(401, 422, 429, 500, 503))
def tokens(user: Someone, coordinator: Service) -> Page[Token]:
    """Your tokens that open something: their descriptions, never themselves."""
    return Page[Token](items=tuple(map(Token.model_validate, _living(coordinator, user))))


@router.post("/tokens", status_code=201, responses=error_responses(401, 409, 413, 422, 429, 500, 503))
def make_token(body: NewToken, user: Someone, coordinator: Service) -> IssuedToken:
    """A new token, for a program."""
    if len([each for each in _living(coordinator, user) if each.name != _SIGN_IN]) >= _MOST_TOKENS:
        raise Conflict(f"you have {_MOST_TOKENS} tokens already; revoke one first")
    token, made = coordinator.accounts.create_token(user, body.name, timedelta(days=body.days))
    return IssuedToken(**dict(made), token=token)


@router.delete("/tokens/{id}", status_code=204, responses=error_responses(401, 404, 422, 429, 500, 503))
def revoke(
    id: Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="the token's id")],
    user: Someone,
    coordinator: Service,
) -> Response:
    """Make one of your tokens worthless."""
    coordinator.accounts.revoke(user, id)
    return Response(status_code=204)


def _living(coordinator: Coordinator, user: User) -> list[ApiToken]:
    now = coordinator.clock.now()
    kept = [each for each in coordinator.accounts.tokens(user) if each.revoked is None]
    return [each for each in kept if each.expires is None or each.expires > now]


def _forget_old_sign_ins(coordinator: Coordinator, user: User) -> None:
    """Revoke all but a user's newest sign-in tokens, for programs that sign in repeatedly and never out."""
    own = [each for each in _living(coordinator, user) if each.name == _SIGN_IN]
    for old in own[: max(0, len(own) - _MOST_SIGN_INS)]:
        coordinator.accounts.revoke(user, old.id, for_sign_out=True)
