"""Signing in and out, and API tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from masquerade.errors import NotAllowed
from masquerade.service.accounts import LONGEST_LIFETIME, LONGEST_PASSWORD, USUAL_LIFETIME, USUAL_SCOPES
from masquerade.service.api.access import Asking, Service, Someone, TokenOwner, to_manage_tokens, visitor
from masquerade.service.api.limits import address_key
from masquerade.service.api.problems import Unauthenticated, error_responses
from masquerade.service.api.shapes import Body
from masquerade.service.lockout import Source
from masquerade.service.resources import Account, IssuedToken, Page, SignedIn, Token
from masquerade.service.token_scopes import Scope, TokenKind

SIGNED_IN_FOR = timedelta(hours=12)
_SIGN_INS_AT_ONCE = 4

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
    days: int = Field(USUAL_LIFETIME.days, ge=1, le=LONGEST_LIFETIME.days, description="for how many days")
    scopes: tuple[Annotated[Scope, Field(strict=False)], ...] = Field(
        USUAL_SCOPES,
        strict=False,
        min_length=1,
        max_length=len(Scope),
        description="what it opens: read, request, download, tokens (to make further tokens), admin",
    )


@router.post(
    "/sign-in", dependencies=[Depends(visitor)], responses=error_responses(401, 413, 422, 429, 500, 503)
)
async def sign_in(body: Credentials, coordinator: Service, request: Request) -> SignedIn:
    """Sign in with a password: a token with all scopes, for twelve hours.

    A wrong name and a wrong password look the same. After five wrong guesses at a name the address that they came from
    waits for a minute, then longer; others do not.
    """
    source = Source(address_key(request.client.host if request.client else None))

    def signed_in() -> SignedIn:
        user, token, made = coordinator.accounts.sign_in_for_token(
            body.user, body.password, TokenKind.SIGN_IN, SIGNED_IN_FOR, source
        )
        return SignedIn(token=token, expires=made.expires, user=user.name, role=user.role)

    try:
        return await anyio.to_thread.run_sync(signed_in, limiter=_line)
    except NotAllowed as error:
        raise Unauthenticated(str(error)) from None


@router.delete("/sign-in", status_code=204, responses=error_responses(401, 422, 429, 500, 503))
def sign_out(caller: Asking, coordinator: Service) -> Response:
    """Sign out: the token of this request opens nothing from now on."""
    coordinator.accounts.revoke(caller.user, caller.described.id, for_sign_out=True)
    return Response(status_code=204)


@router.get("/me", responses=error_responses(401, 422, 429, 500, 503))
def me(user: Someone) -> Account:
    """Who asks."""
    return Account.model_validate(user)


@router.get("/tokens", responses=error_responses(401, 403, 422, 429, 500, 503))
def tokens(user: TokenOwner, coordinator: Service) -> Page[Token]:
    """Your valid tokens, sign-ins among them: their descriptions, never themselves."""
    return Page[Token](items=tuple(map(Token.model_validate, coordinator.accounts.tokens(user))))


@router.post(
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


@router.delete("/tokens/{id}", status_code=204, responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def revoke(
    id: Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="the token's id")],
    user: TokenOwner,
    coordinator: Service,
) -> Response:
    """Make one of your tokens worthless, or end one of your sign-ins."""
    coordinator.accounts.revoke(user, id)
    return Response(status_code=204)
