"""The accounts, for admins: add, disable, forget wrong guesses, change roles."""

from __future__ import annotations

from collections.abc import Callable

from nicegui.element import Element

from masquerade.console.elements import button, choice, table, tag, text_field
from masquerade.console.frame import View, page, problem_place
from masquerade.console.wording import moment
from masquerade.errors import Conflict
from masquerade.service.accounts import SHORTEST_PASSWORD, Accounts, require
from masquerade.service.resources import Role, User

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
            text_field("Name", "", shown.set("name"), autocomplete="off", autocapitalize="none")
            text_field(
                "Password",
                "",
                shown.set("password"),
                hint=f"At least {SHORTEST_PASSWORD} characters",
                kind="password",
                autocomplete="new-password",
            )
            choice("Role", {role.value: role.value for role in Role}, Role.ANALYST.value, shown.set("role"))
        shown.new_problems = problem_place()
        button("Add the account", shown.add, "first")


class _Users:
    problems: Element
    new_problems: Element
    place: Element

    def __init__(self, view: View) -> None:
        self._view = view
        self._new = {"name": "", "password": "", "role": Role.ANALYST.value}

    def set(self, key: str) -> Callable[[str], None]:
        """Return the change handler for a field of the form."""

        def change(text: str) -> None:
            self._new[key] = text

        return change

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
        while (
            len(found := self._view.coordinator.store.users.all(_PAGE, users[-1].name if users else "")) > 0
        ):
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
            new = self._new
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


def _state(user: User, guesses: int) -> str:
    if user.disabled:
        return "disabled"
    return f"active; {guesses} wrong guess{'es' if guesses > 1 else ''} in a day" if guesses else "active"
