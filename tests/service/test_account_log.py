"""What is written down of accounts: who came in and who changed what, and no secret."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from masquerade.errors import NotAllowed, ParameterError
from masquerade.service.accounts import AccountLog, Accounts, Lockout, client_address
from masquerade.service.store import Store
from masquerade.service.token_scopes import TokenKind
from service.credentials import CHEAP, RIGHT, WRONG


class Book:
    """A log and an audit log."""

    def __init__(self) -> None:
        self.log = CapturingLogger()
        self.entered: list[dict[str, Any]] = []
        self.full = False

    def enter(self, event: str, fields: Any) -> None:
        if self.full:
            raise ParameterError("audit.jsonl: cannot be written")
        assert event == "account"
        self.entered.append(dict(fields))

    @property
    def told(self) -> list[tuple[str, str | None]]:
        return [(call.args[0], call.kwargs["user"]) for call in self.log.calls]


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def watched(store: Store, book: Book) -> Accounts:
    lockout = Lockout(failures=2)
    return Accounts(store, lockout=lockout, hasher=CHEAP, log=AccountLog(book.log, book.enter))


def test_sign_ins_and_guesses_are_logged_and_a_lock_out_is_audited(watched: Accounts, book: Book) -> None:
    watched.create("ann", RIGHT)
    client_address.set("192.0.2.7")
    watched.sign_in("ann", RIGHT)
    for _ in range(2):
        with pytest.raises(NotAllowed):
            watched.sign_in("ann", WRONG)
    assert book.told[1:] == [
        ("signed in", "ann"), ("sign-in refused", "ann"), ("locked out", "ann"), ("sign-in refused", "ann"),
    ]  # fmt: skip
    assert {call.kwargs["address"] for call in book.log.calls[1:]} == {"192.0.2.7"}
    assert [each["what"] for each in book.entered] == ["account made", "locked out"]


def test_a_name_that_nobody_has_is_not_written_down(watched: Accounts, book: Book) -> None:
    for _ in range(2):
        with pytest.raises(NotAllowed):
            watched.sign_in(RIGHT, "ann")  # typed in the wrong field
    assert book.told == [("sign-in refused", None), ("locked out", None), ("sign-in refused", None)]


def test_changes_are_audited_with_who_made_them_and_without_a_secret(watched: Accounts, book: Book) -> None:
    ann, admin = watched.create("ann", RIGHT), watched.by("root")
    token, made = watched.create_token(ann, "laptop")
    watched.revoke(ann, made.id)
    _, browser, signed_in = watched.sign_in_for_token("ann", RIGHT, TokenKind.SIGN_IN, timedelta(hours=1))
    watched.revoke(ann, signed_in.id, for_sign_out=True)
    admin.set_role("ann", "admin")
    admin.set_password("ann", WRONG)
    admin.disable("ann")
    admin.enable("ann")
    admin.unlock("ann")
    assert [(each["what"], each["by"]) for each in book.entered] == [
        ("account made", "ann"), ("token made", "ann"), ("token revoked", "ann"), ("role changed", "root"),
        ("password changed", "root"), ("account disabled", "root"), ("account enabled", "root"),
        ("account unlocked", "root"),
    ]  # fmt: skip
    written = json.dumps(book.entered) + repr(book.log.calls)
    for secret in (RIGHT, WRONG, token, token[3:], browser):
        assert secret not in written


def test_whoever_guesses_hears_nothing_of_a_full_disk(watched: Accounts, book: Book) -> None:
    book.full = True
    for _ in range(2):
        with pytest.raises(NotAllowed):
            watched.sign_in("ann", WRONG)
    assert ("audit log not written", None) in book.told
