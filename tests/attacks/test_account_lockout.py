"""Guessing at somebody's password, to get in or to keep its owner out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from cryptography.fernet import Fernet

from fake_clock import FakeClock
from masquerade.console.frame import Browsers
from masquerade.service import Accounts, SignInSource, Store
from masquerade.service.accounts import Lockout
from masquerade.service.store import SignInFailures
from service.credentials import CHEAP, RIGHT, WRONG, refusal

HOME = SignInSource("address 192.0.2.1")


def attacker(number: int) -> SignInSource:
    return SignInSource(f"address 198.51.{number // 256}.{number % 256}")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def accounts(tmp_path: Path, clock: FakeClock) -> Accounts:
    made = Accounts(Store.open("sqlite:///store.db", base=tmp_path, clock=clock.now), hasher=CHEAP)
    made.create("ann", RIGHT)
    return made


def guesses_of_a_day(sources: list[SignInSource], every: timedelta) -> int:
    """Guess from all sources for a day by the rule of the service; return how many guesses were judged."""
    clock, rule, judged = FakeClock(), Lockout(), 0
    nothing = SignInFailures(0, 0, clock.now(), None)
    guards: dict[SignInSource | None, SignInFailures] = {}  # None: of all addresses
    end = clock.now() + timedelta(days=1)
    while clock.now() < end:
        for source in sources:
            own, crowd = guards.get(source, nothing), guards.get(None, nothing)
            judged += own.locked_until is None or own.locked_until <= clock.now()
            after, everybody, opened = rule.judge(own, crowd, False, clock.now(), known=source.known)
            assert not opened
            guards |= {source: after or nothing, None: everybody or nothing}
        clock.move(every)
    return judged


def test_guessing_from_elsewhere_keeps_no_owner_out(accounts: Accounts) -> None:
    """Hundreds of wrong guesses from a few addresses and from many: the owner gets in at once, from any other one."""
    for number in range(240):
        refusal(lambda number=number: accounts.sign_in("ann", WRONG, attacker(number % 80)))  # type: ignore[misc]
        if number % 60 == 0:
            assert accounts.sign_in("ann", RIGHT, HOME).name == "ann"
    assert accounts.sign_in("ann", RIGHT, HOME).name == "ann"
    assert accounts.sign_in("ann", RIGHT, SignInSource("a hotel")).name == "ann"


def test_guessing_from_the_same_address_keeps_no_known_browser_out(accounts: Accounts) -> None:
    """A colleague behind the same address, or anybody behind the same proxy."""
    browsers = Browsers(accounts._store, accounts, Fernet.generate_key())
    _, known = browsers.sign_in("ann", RIGHT, HOME.name)
    for _ in range(30):
        refusal(lambda: browsers.sign_in("ann", WRONG, HOME.name))
    refusal(lambda: browsers.sign_in("ann", RIGHT, HOME.name))  # a browser that nobody knows waits
    browsers.sign_in("ann", RIGHT, HOME.name, known)


def test_one_users_browser_is_not_known_for_another(accounts: Accounts) -> None:
    """The attacker has an account too, and a browser that is known for it."""
    browsers = Browsers(accounts._store, accounts, Fernet.generate_key())
    accounts.create("eve", RIGHT)
    _, known = browsers.sign_in("eve", RIGHT, "address 198.51.100.7")
    for _ in range(Lockout().failures):
        refusal(lambda: browsers.sign_in("ann", WRONG, "address 198.51.100.7", known))
    assert accounts.wrong_guesses("ann") == Lockout().failures
    refusal(lambda: browsers.sign_in("ann", RIGHT, "address 198.51.100.7", known))


@pytest.mark.parametrize("addresses", [1, 40, 1000])
def test_many_addresses_have_few_guesses_a_day(addresses: int) -> None:
    """At most 200 and one for each address in any 24 hours: no number that helps against twelve signs."""
    sources = [attacker(number) for number in range(addresses)]
    assert guesses_of_a_day(sources, timedelta(minutes=10)) <= 200 + addresses


def test_a_stolen_known_browser_has_few_guesses_a_day() -> None:
    assert guesses_of_a_day([SignInSource("browser 0f", known=True)], timedelta(seconds=30)) <= 150


def test_over_http_the_address_of_the_guesser_waits_and_not_the_account(tmp_path: Path) -> None:
    from service.api_server import PASSWORDS, room

    with room(tmp_path / "room") as place, place.client() as nobody:
        guess = {"user": "ana", "password": "a wrong password"}
        answers = [nobody.post("/sign-in", json=guess) for _ in range(Lockout().failures + 1)]
        assert {answer.status_code for answer in answers} == {401}
        right = {"user": "ana", "password": PASSWORDS["ana"]}
        assert nobody.post("/sign-in", json=right).text == answers[0].text
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=elsewhere, base_url=f"{place.url}/api/v1") as owner:
            assert owner.post("/sign-in", json=right).status_code == 200
