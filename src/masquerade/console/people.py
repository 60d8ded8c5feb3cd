"""The user's own account: API tokens and password."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from nicegui import ui
from nicegui.element import Element

from masquerade.console.elements import button, choice, facts, table, tag, text_field, tick
from masquerade.console.frame import View, page, problem_place
from masquerade.console.words import moment
from masquerade.errors import Conflict, NotAllowed, ParameterError
from masquerade.service import (
    LONGEST_LIFETIME,
    SHORTEST_PASSWORD,
    USUAL_LIFETIME,
    USUAL_SCOPES,
    Accounts,
    ApiToken,
    Role,
    Scope,
    SignInSource,
    TokenKind,
    User,
    require,
)

_MOST_DAYS = LONGEST_LIFETIME.days
_ALLOWS = {
    Scope.READ: "Read: providers, sessions, contracts, the ledger",
    Scope.REQUEST: "Request: ask for tables, cancel, decide",
    Scope.DOWNLOAD: "Download releases",
    Scope.TOKENS: "Tokens: list, make and revoke tokens",
    Scope.ADMIN: "Admin: accounts, everybody's sessions, the audit log",
}
_HELD_BY = {TokenKind.SIGN_IN: "sign-in by password", TokenKind.BROWSER: "sign-in of a browser"}
_CHANGING = SignInSource("change of password")  # whoever gets there is signed in


@page("/account", "Account")
async def account_page(view: View) -> None:
    """Draw the account page: name, role, debts and API tokens."""
    owed = await view.ask(lambda user: view.coordinator.owed(user, of_user=user.name))
    tag("h1", "Account")
    facts([("Name", view.user.name), ("Role", view.user.role.value), ("Owed", view.money(owed))])
    shown = _Tokens(view)
    with tag("section"):
        tag("h2", "API tokens")
        tag(
            "p",
            "For the command line, Python and the HTTP API. A token is shown once; sign-ins are listed too.",
            "quiet",
        )
        shown.place = tag("div")
        await shown.refresh()
        with tag("div", look="cols"):
            text_field("Name of the new token", "", shown.named, hint="Such as laptop")
            text_field("Days that it lasts", shown.days, shown.lasting, inputmode="numeric")
        with tag("fieldset"):
            tag("legend", "What it allows")
            for scope, words in _ALLOWS.items():
                if scope is not Scope.ADMIN or view.user.role is Role.ADMIN:
                    tick(words, scope in USUAL_SCOPES, partial(shown.allow, scope))
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
        self._name, self.days = "", str(USUAL_LIFETIME.days)
        self._scopes = set(USUAL_SCOPES)

    def named(self, text: str) -> None:
        """Set the name of the next token."""
        self._name = text.strip()

    def lasting(self, text: str) -> None:
        """Set how many days the next token stays valid."""
        self.days = text.strip()

    def allow(self, scope: Scope, wanted: bool) -> None:
        """Add or remove one of the scopes of the next token."""
        (self._scopes.add if wanted else self._scopes.discard)(scope)

    async def refresh(self) -> None:
        """Redraw the list of valid tokens."""
        living = await self._view.ask(self._view.coordinator.accounts.tokens)
        self.place.clear()
        with self.place:
            if not living:
                tag("p", "None.", "quiet")
                return
            rows = [
                [
                    _HELD_BY.get(each.kind, each.name),
                    "everything" if each.kind in _HELD_BY else ", ".join(each.scopes),
                    moment(each.created),
                    moment(each.last_used),
                    moment(each.expires),
                    self._revoke(each),
                ]
                for each in living
            ]
            table("Your tokens", ["Token", "Allows", "Made", "Last used", "Until", "Revoke"], rows)

    def _revoke(self, token: ApiToken) -> Callable[[], object]:
        async def revoke() -> None:
            asked = self._view.ask(self._view.coordinator.accounts.revoke, token.id)
            if await self._view.trying(asked, self.problems) is not None:
                await self._view.trying(self.refresh(), self.problems)

        name = _HELD_BY.get(token.kind, f"token {token.name}")
        return lambda: button(
            "Revoke",
            revoke,
            sure=f"Revoke the {name}? Whatever uses it is signed out at once, and it cannot be brought back.",
            aria_label=f"Revoke {token.name} of {moment(token.created)}",
        )

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
        if not self._name:
            raise ParameterError("the token needs a name")
        if not self.days.isascii() or not self.days.isdigit() or not 1 <= int(self.days[:9]) <= _MOST_DAYS:
            raise ParameterError(f"a token lasts from 1 to {_MOST_DAYS} days")
        lifetime = timedelta(days=int(self.days))
        return self._view.coordinator.accounts.create_token(user, self._name, lifetime, self._scopes)


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
                set_old = partial(setattr, self, "_old")
                text_field("Current password", "", set_old, kind="password", autocomplete="current-password")
                _new_password("New password", partial(setattr, self, "_new"))
            self._problems = problem_place()
            button("Change the password", self._change)

    async def _change(self) -> None:
        if await self._view.trying(self._view.ask(self._changed), self._problems):
            ui.navigate.to("/sign-in?over=1")

    def _changed(self, user: User) -> bool:
        accounts = self._view.coordinator.accounts
        try:
            accounts.sign_in(user.name, self._old, _CHANGING)
        except NotAllowed:
            raise NotAllowed("the current password is wrong, or was guessed at too often") from None
        accounts.set_password(user.name, self._new)
        return True


# --- users --------------------------------------------------------------------------------------------------
# The accounts, for admins: add, disable, forget wrong guesses, change roles.

_PAGE = 100


@page("/users", "Users", admin=True)
async def users_page(view: View) -> None:
    """Draw all accounts and a form for a new one."""
    shown = _Users(view)
    tag("h1", "Users")
    with tag("section"):
        tag("h2", "Accounts")
        shown.problems = problem_place()
        shown.place = tag("div")
        await shown.refresh()
    with tag("section"):
        tag("h2", "New account")
        with tag("div", look="cols"):
            set_in_form = shown.form.__setitem__
            text_field("Name", "", partial(set_in_form, "name"), autocomplete="off", autocapitalize="none")
            _new_password("Password", partial(set_in_form, "password"))
            roles = {role.value: role.value for role in Role}
            choice("Role", roles, Role.ANALYST.value, partial(set_in_form, "role"))
        shown.new_problems = problem_place()
        button("Add the account", shown.add, "first")


class _Users:
    problems: Element
    new_problems: Element
    place: Element

    def __init__(self, view: View) -> None:
        self._view = view
        self.form = {"name": "", "password": "", "role": Role.ANALYST.value}  # as it is filled in

    async def refresh(self) -> None:
        """Redraw the list of accounts."""
        found = await self._view.ask(self._all)
        self.place.clear()
        with self.place:
            rows = [
                [
                    user.name,
                    user.role.value,
                    _state(user, guesses),
                    moment(user.created),
                    self._actions(user, guesses > 0),
                ]
                for user, guesses in found
            ]
            table("Accounts", ["Name", "Role", "State", "Since", "Change"], rows)

    def _all(self, admin: User) -> list[tuple[User, int]]:
        accounts = self._allowed(admin)
        users: list[User] = []
        while len(found := self._view.coordinator.store.users.all(_PAGE, users[-1].name if users else "")) > 0:
            users += found
        return [(user, accounts.wrong_guesses(user.name)) for user in users]

    def _actions(self, user: User, guessed: bool) -> Callable[[], object]:
        other = Role.ADMIN if user.role is Role.ANALYST else Role.ANALYST

        def draw() -> None:
            with tag("div", look="row"):
                if user.disabled:
                    self._button("Enable", user, lambda accounts: accounts.enable(user.name))
                elif user.name != self._view.user.name:
                    self._button(
                        "Disable",
                        user,
                        lambda accounts: accounts.disable(user.name),
                        sure=f"Disable the account of {user.name}? Its tokens and sign-ins end at once.",
                    )
                if guessed:
                    self._button("Forget guesses", user, lambda accounts: accounts.unlock(user.name))
                if user.name != self._view.user.name:
                    self._button(f"Make {other}", user, lambda accounts: accounts.set_role(user.name, other))

        return draw

    def _button(self, text: str, user: User, change: Callable[[Accounts], object], *, sure: str = "") -> None:
        def changed(admin: User) -> bool:
            accounts = self._allowed(admin)
            if admin.name == user.name:
                raise Conflict("nobody disables the account or changes the role of which is in use here")
            change(accounts)
            return True

        async def act() -> None:
            if await self._view.trying(self._view.ask(changed), self.problems):
                await self._view.trying(self.refresh(), self.problems)
                self._view.say(f"{user.name}: done")

        button(text, act, sure=sure, aria_label=f"{text}: {user.name}")

    async def add(self) -> None:
        """Create an account from the form."""

        def added(admin: User) -> User:
            new = self.form
            return self._allowed(admin).create(new["name"].strip(), new["password"], new["role"])

        made = await self._view.trying(self._view.ask(added), self.new_problems)
        if made is not None:
            await self._view.trying(self.refresh(), self.problems)
            with self.new_problems:
                tag("p", f"{made.name} can sign in now.", "told", role="status")

    def _allowed(self, admin: User) -> Accounts:
        """Return the accounts, after checking that the user still is an admin."""
        require(admin, Role.ADMIN)
        return self._view.coordinator.accounts.by(admin.name)


def _new_password(label: str, typed: Callable[[str], None]) -> None:
    hint = f"At least {SHORTEST_PASSWORD} characters"
    text_field(label, "", typed, hint=hint, kind="password", autocomplete="new-password")


def _state(user: User, guesses: int) -> str:
    if user.disabled:
        return "disabled"
    return f"active; {guesses} wrong guess{'es' if guesses > 1 else ''} in a day" if guesses else "active"
