"""The user's token, and repeating a request when its answer calls for that."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from masquerade.errors import ParameterError, PeerError, PeerUnreachable
from masquerade.library.client.exchange import COORDINATOR, Answer, Ask, TooMany, Transport, read, refusal
from masquerade.service.resources import SignedIn

TRIES = 5  # per request, while the coordinator asks us to wait
LONGEST_PAUSE = 120.0  # seconds; if asked to wait longer, the call fails


class Caller:
    """A user with a token, or with a password that is exchanged for one when first needed."""

    def __init__(
        self, transport: Transport, token: str | None, user: str | None, password: str | None
    ) -> None:
        if (user is None) != (password is None):
            raise ParameterError("a sign-in needs both user and password")
        if token is None and user is None:
            raise ParameterError("no token: give one, or user and password, or set MASQUERADE_TOKEN")
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
            raise ParameterError(
                "the token holds characters that no token has; was it copied whole, on one line?"
            )
        self.transport = transport
        self._token = token
        self._user, self._password = user, password
        self._got: list[str] = []  # tokens obtained by password; concurrent calls may get one each

    async def ask(self, ask: Ask) -> Answer:
        """Send a request and return its answer; raise the error that a refusal stands for."""
        renewed = False
        for left in reversed(range(TRIES)):
            if self._token is None:
                await self._sign_in()
            sent = replace(ask, token=self._token)
            answer = await self.transport.send(sent)
            if answer.status == 401 and self._password is not None and not renewed:
                renewed = True
                self._forget(sent.token)  # a token lasts hours, and this client may outlive it
            elif await self._is_good(answer, left):
                return answer
        raise PeerUnreachable(COORDINATOR, "refuses the token that it has just given us")

    async def sign_out(self) -> None:
        """Revoke every token obtained by password; a token passed in stays valid."""
        for token in tuple(self._got):
            self._forget(token)
            with suppress(PeerError):  # it expires anyway if the request is lost
                await self.transport.send(Ask("DELETE", "/sign-in", token=token))

    def _forget(self, token: str | None) -> None:
        if self._token == token:
            self._token = None
        self._got = [each for each in self._got if each != token]

    async def _sign_in(self) -> None:
        ask = Ask("POST", "/sign-in", body={"user": self._user, "password": self._password})
        for left in reversed(range(TRIES)):
            answer = await self.transport.send(ask)
            if await self._is_good(answer, left):
                self._token = read(answer, SignedIn).token
                self._got.append(self._token)
                return

    async def _is_good(self, answer: Answer, left: int) -> bool:
        """Return whether an answer is a success; else wait if it asks us to and tries are left, or raise its error."""
        error = refusal(answer)
        if error is None:
            return True
        if not isinstance(error, TooMany) or not left or error.seconds > LONGEST_PAUSE:
            raise error
        await self.transport.sleep(error.seconds)
        return False
