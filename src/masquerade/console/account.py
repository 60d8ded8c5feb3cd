"""The user's own account: API tokens and password."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from nicegui import ui
from nicegui.element import Element

from masquerade.console.elements import button, facts, table, tag, text_field
from masquerade.console.frame import View, page, problem_place
from masquerade.console.signed_in import SIGN_IN
from masquerade.console.wording import moment, money
from masquerade.errors import NotAllowed, ParameterError
from masquerade.service.accounts import SHORTEST_PASSWORD
from masquerade.service.resources import User
from masquerade.service.store import ApiToken

_MOST_DAYS = 3650


@page("/account", "Account")
async def account_page(view: View) -> None:
    """Draw the account page: name, role, debts and API tokens."""
    owed = await view.ask(lambda user: view.coordinator.owed(user, of_user=user.name))
    tag("h1", "Account")
    facts([("Name", view.user.name), ("Role", view.user.role.value), ("Owed", money(owed))])
    shown = _Tokens(view)
    with tag("section"):
        tag("h2", "API tokens")
        tag("p", "For the command line, Python and the HTTP API. A token is shown once.", "quiet")
        shown.place = tag("div")
        await shown.refresh()
        with tag("div", look="cols"):
            text_field("Name of the new token", "", shown.named, hint="Such as laptop")
            text_field("Days that it lasts", "90", shown.lasting, inputmode="numeric")
        shown.problems = problem_place()
        button("Make a token", shown.make, "first")
        shown.fresh = tag("div", aria_live="polite")
    _Password(view).draw()


class _Tokens:
    place: Element
    problems: Element
    fresh: Element

    def __init__(self, view: View) -> None:
        self._view = view
        self._name, self._days = "", "90"

    def named(self, text: str) -> None:
        """Set the name of the next token."""
        self._name = text.strip()

    def lasting(self, text: str) -> None:
        """Set how many days the next token stays valid."""
        self._days = text.strip()

    async def refresh(self) -> None:
        """Redraw the list of valid tokens."""
        found = await self._view.ask(self._view.coordinator.accounts.tokens)
        now = self._view.coordinator.clock.now()
        living = [
            each for each in found if each.revoked is None and (each.expires is None or each.expires > now)
        ]
        self.place.clear()
        with self.place:
            if not living:
                tag("p", "None.", "quiet")
                return
            rows = [
                [
                    each.name if each.name != SIGN_IN else "sign-in of a browser",
                    moment(each.created),
                    moment(each.last_used),
                    moment(each.expires),
                    self._revoke(each),
                ]
                for each in living
            ]
            table("Your tokens", ["Token", "Made", "Last used", "Until", "Revoke"], rows)

    def _revoke(self, token: ApiToken) -> Callable[[], object]:
        async def revoke() -> None:
            asked = self._view.ask(self._view.coordinator.accounts.revoke, token.id)
            if await self._view.trying(asked, self.problems) is not None:
                await self._view.trying(self.refresh(), self.problems)

        return lambda: button("Revoke", revoke, aria_label=f"Revoke {token.name} of {moment(token.created)}")

    async def make(self) -> None:
        """Create a token and show it, once."""
        self.fresh.clear()
        made = await self._view.trying(self._view.ask(self._made), self.problems)
        if made is None:
            return
        with self.fresh, tag("div", look="told"):
            tag("p", f"The token {made[1].name}. Keep it now; it is not shown again.")
            tag("code", made[0], "secret")
        await self._view.trying(self.refresh(), self.problems)

    def _made(self, user: User) -> tuple[str, ApiToken]:
        if not self._name or self._name == SIGN_IN:
            raise ParameterError("the token needs a name")
        if not self._days.isascii() or not self._days.isdigit() or not 1 <= int(self._days[:9]) <= _MOST_DAYS:
            raise ParameterError(f"a token lasts from 1 to {_MOST_DAYS} days")
        return self._view.coordinator.accounts.create_token(user, self._name, timedelta(days=int(self._days)))


class _Password:
    def __init__(self, view: View) -> None:
        self._view = view
        self._old = self._new = ""

    def draw(self) -> None:
        """Draw the password form."""
        with tag("section"):
            tag("h2", "Password")
            tag("p", "A new one revokes all your tokens and signs you out everywhere.", "quiet")
            with tag("div", look="cols"):
                text_field(
                    "Current password", "", self._set_old, kind="password", autocomplete="current-password"
                )
                text_field(
                    "New password",
                    "",
                    self._set_new,
                    hint=f"At least {SHORTEST_PASSWORD} signs",
                    kind="password",
                    autocomplete="new-password",
                )
            self._problems = problem_place()
            button("Change the password", self._change)

    def _set_old(self, text: str) -> None:
        self._old = text

    def _set_new(self, text: str) -> None:
        self._new = text

    async def _change(self) -> None:
        if await self._view.trying(self._view.ask(self._changed), self._problems):
            ui.navigate.to("/sign-in?over=1")

    def _changed(self, user: User) -> bool:
        accounts = self._view.coordinator.accounts
        try:
            accounts.sign_in(user.name, self._old)
        except NotAllowed:
            raise NotAllowed("the current password is wrong, or the account is locked") from None
        accounts.set_password(user.name, self._new)
        return True
