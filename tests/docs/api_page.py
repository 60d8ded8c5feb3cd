"""docs/reference/api.md, followed by a shell with curl: what it sends, what comes back, what the prose names."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

import masquerade as mq
from docs.walkthrough import DOCS, Block, Reader, Special, blocks, compare
from masquerade.service import Scope

PAGE = DOCS / "reference" / "api.md"
_DEFINITION = re.compile(r"[A-Z]+=|\w+\(\) ")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_CURL = 'curl() { command curl -sS --fail-with-body "$@"; }'  # quiet, and an error's status is a failure


def steps(block: Block) -> Iterator[tuple[str, list[str]]]:
    """The lines of a block that a shell takes, each with the lines of output that stand in comments below it."""
    lines = block.text.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("#"):
            below = lines[number + 1 :]
            shown = next((at for at, each in enumerate(below) if not each.startswith("#")), len(below))
            yield line, [each.removeprefix("# ") for each in below[:shown]]


@dataclass
class Shell:
    """One shell's definitions, and the API that its commands call."""

    url: str
    password: str
    names: list[str] = field(default_factory=lambda: [_CURL])

    def run(self, reader: Reader, line: str) -> str:
        """What a line prints."""
        if _DEFINITION.match(line):
            self.names.append(line)
        script = "\n".join([*self.names, line])
        done = subprocess.run(
            ["bash", "-c", script], cwd=reader.folder, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def follow(self, reader: Reader, block: Block) -> list[str]:
        """Run a block, and compare what it shows; what each line printed."""
        said = []
        for line, shown in steps(block):
            said.append(self.run(reader, line))
            for each in shown:
                compare(_TIME.sub("…", each), said[-1], line, figures=False)
        return said

    def api(self, token: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=900)

    def token(self, user: str) -> str:
        body = {"user": user, "password": self.password}
        return str(httpx.post(f"{self.url}/api/v1/sign-in", json=body, timeout=900).json()["token"])


def specials(shell: Shell) -> dict[str, Special]:
    """What is to be done with the page's blocks."""
    wish = next(json.loads(block.text) for block in blocks(PAGE) if block.language == "json")
    tokens: list[str] = []
    sessions: list[str] = []

    def sign_in(reader: Reader, block: Block) -> None:
        enter, *others = steps(block)
        answer = shell.run(reader, enter[0].replace('"…"', f'"{shell.password}"'))
        compare(_TIME.sub("…", enter[1][0]), answer, enter[0])
        for line, _ in others:
            shell.run(reader, line.replace("mq_…", json.loads(answer)["token"]))
        tokens.append(shell.token("ana"))  # the last line has signed out
        shell.names.append(f'AUTH="Authorization: Bearer {tokens[0]}"')
        _tokens(shell, tokens[0])

    def ask(reader: Reader, block: Block) -> None:
        (reader.folder / "request.json").write_text(json.dumps(wish))
        asked = shell.follow(reader, block)[-1]
        sessions.append(asked.partition("location: /api/v1/sessions/")[2].split()[0])
        shell.names.append(f"ID={sessions[0]}")

    def events(reader: Reader, block: Block) -> None:
        with mq.Client(shell.url, token=tokens[0]) as client:
            assert client.wait(sessions[0]).status == "published"
        session, _, _, stream = shell.follow(reader, block)
        _says_what_it_has(json.loads(session))
        _kinds_are_told(stream)

    def decisions(reader: Reader, block: Block) -> None:
        """Each of a session of its own, whose table tells nothing and so misses what was wished."""
        nothing = [{**each, "k": 150} for each in wish["privacy"]]
        ends = iter(("published", "cancelled", "published"))
        for line, _ in steps(block):
            if _DEFINITION.match(line):
                shell.run(reader, line)
                continue
            with mq.Client(shell.url, token=tokens[0]) as client:
                asked = client.request({**wish, "privacy": nothing, "most_error": 0.1}).id
                waiting = client.wait(asked)
                assert waiting.status == "awaiting_client", (waiting.status, waiting.reasons)
                shell.names.append(f"ID={asked}")
                shell.run(reader, line)
                assert client.wait(asked).status == next(ends), line
        shell.names.append(f"ID={sessions[0]}")

    def release(reader: Reader, block: Block) -> None:
        told, *_ = shell.follow(reader, block)
        names = block.text.partition("\n")[0].rpartition("# ")[2].split(", ")
        assert {*names} <= json.loads(told).keys()
        for suffix in ("csv", "parquet", "html"):
            assert list(reader.folder.glob(f"*{sessions[0]}*.{suffix}")), suffix

    return {
        "from a shell `masquerade request`": lambda reader, block: _discard(shell.follow(reader, block)),
        "## Sign in": sign_in,
        "## Ask for a table": ask,
        "with the keys of a client's `[request]`": lambda _reader, _block: None,  # written before it was sent
        "## Follow it": events,
        "nothing is published before its client decides": decisions,
        "## Fetch the release": release,
    }


def _discard(_said: list[str]) -> None:
    """A special block gives nothing back."""


def _prose(heading: str) -> str:
    text = PAGE.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.sub("```.*?```", "", text, flags=re.DOTALL)


def _tokens(shell: Shell, token: str) -> None:
    """What the page tells of tokens, done."""
    text = " ".join(_prose("Sign in").split())
    body = json.loads(re.search(r"`POST /tokens (\{.+?\})`", text)[1])  # type: ignore[index] # the page has it
    assert set(re.findall(r"^\| `(\w+)` \|", _prose("Sign in"), re.MULTILINE)) == {*Scope}
    with shell.api(token) as api:
        made = api.post("/tokens", json=body).raise_for_status().json()
        listed = api.get("/tokens").raise_for_status().json()["items"]
        [mine] = [each for each in listed if each["name"] == body["name"]]
        assert mine["scopes"] == body["scopes"]
        with shell.api(made["token"]) as program:
            assert program.get("/me").status_code == 200
            assert program.post("/tokens", json=body).status_code == 403
        usual = api.post("/tokens", json={"name": "usual"}).raise_for_status().json()
        assert usual["scopes"] == ["read", "request", "download"]
        api.delete(f"/tokens/{mine['id']}").raise_for_status()
        with shell.api(made["token"]) as program:
            assert program.get("/me").status_code == 401


def _says_what_it_has(session: dict[str, Any]) -> None:
    text = _prose("Follow it").partition("The stream begins")[0]
    names = re.findall(r"`(\w+)`", text.partition("`GET /sessions`")[0])
    assert len(names) > 8
    assert [name for name in names if name not in session and name != "lost"] == []


def _kinds_are_told(stream: str) -> None:
    """Every event of the session is on the page, with every key of its data."""
    told = {
        kind: text
        for kinds, text in re.findall(r"^- ((?:`\w+`(?:, )?)+): (.+?)(?=^- |\n\n)", _prose("Follow it"), re.M | re.S)
        for kind in re.findall(r"`(\w+)`", kinds)
    }
    seen = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]
    assert {"status", "offer", "contract", "quality"} <= {event["kind"] for event in seen}
    for event in seen:
        keys = set(re.findall(r"`(\w+)`", told[event["kind"]]))
        assert event["data"].keys() <= keys, (event["kind"], event["data"].keys() - keys)


def is_run_by_admins(shell: Shell) -> None:
    """What only admins may, and what needs no token."""
    with shell.api(shell.token("root")) as admin:
        for path in ("/users", "/users/ana", "/audit", "/sessions?everyone=true", "/ledger?user=ana&party=bank"):
            admin.get(path).raise_for_status()
        admin.post("/users", json={"name": "eve", "password": shell.password}).raise_for_status()
        for change in ({"role": "admin"}, {"role": "analyst"}, {"disabled": True}, {"unlock": True}):
            admin.patch("/users/eve", json=change).raise_for_status()
        refused = admin.patch("/users/root", json={"disabled": True})
        assert refused.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "detail", "problems", "errors"} <= refused.json().keys()
        for name in ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"):
            assert name in refused.headers
    for path in ("/health/live", "/health/ready", "/metrics"):
        assert httpx.get(f"{shell.url}{path}", timeout=900).status_code == 200, path
