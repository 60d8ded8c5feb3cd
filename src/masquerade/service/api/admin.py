"""For admins: accounts, and the end of the audit log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from masquerade.errors import Conflict, ParameterError
from masquerade.service.accounts import LONGEST_PASSWORD, SHORTEST_PASSWORD
from masquerade.service.api.access import Admin, Service
from masquerade.service.api.problems import error_responses
from masquerade.service.api.shapes import Body, Limit, page
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import Page, Role, User, UserDetails

router = APIRouter(tags=["admin"])

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
    unlock: bool | None = Field(
        None, description="true forgets the wrong guesses: nobody has to wait any more"
    )
    password: Password | None = Field(None, description="another password; it revokes all tokens")


@router.get("/users", responses=error_responses(401, 403, 422, 429, 500, 503))
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


@router.post("/users", status_code=201, responses=error_responses(401, 403, 409, 413, 422, 429, 500, 503))
def add_user(body: NewUser, admin: Admin, coordinator: Service, response: Response) -> UserDetails:
    """A new account."""
    made = coordinator.accounts.by(admin.name).create(body.name, body.password, body.role)
    response.headers["Location"] = f"/api/v1/users/{made.name}"
    return _details(coordinator, made)


@router.get("/users/{name}", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def user(name: UserPath, _admin: Admin, coordinator: Service) -> UserDetails:
    """One account."""
    return _details(coordinator, coordinator.store.users.get(name))


@router.patch("/users/{name}", responses=error_responses(401, 403, 404, 409, 413, 422, 429, 500, 503))
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
        (accounts.disable if body.disabled else accounts.enable)(name)
    if body.unlock:
        accounts.unlock(name)
    return _details(coordinator, coordinator.store.users.get(name))


@router.get("/audit", responses=error_responses(401, 403, 422, 429, 500, 503))
def audit(admin: Admin, coordinator: Service, limit: Limit = 100) -> Page[dict[str, Any]]:
    """The end of the coordinator's audit log, the newest last; for all of it see `masquerade audit verify`."""
    return Page[dict[str, Any]](items=tuple(coordinator.audit_tail(admin, limit)))


def _details(coordinator: Coordinator, user: User) -> UserDetails:
    return UserDetails(**dict(user), wrong_guesses=coordinator.accounts.wrong_guesses(user.name))
