"""A crowd for the service: parties with generated people and policies of several tempers, and many requests at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from masquerade.client import AsyncClient
from masquerade.data import generate_people, people_taxonomies, split_people
from masquerade.demo.demo import LocalServices
from masquerade.demo.scene import PartyDataset, coordinator_configuration
from masquerade.errors import BadInput
from masquerade.net import make_trial, run_async
from masquerade.service import Accounts, Role, Session, Store

COORDINATOR = "coordinator"
SEED = 7

_ATTRIBUTES = {
    "birth_date": 'type = "date"\nmin = 1930-01-01\nmax = 2010-01-01',
    "sex": 'taxonomy = "flat"',
    "town": 'taxonomy = "taxonomies/town.csv"',
    "hours": 'type = "continuous"\ntaxonomy = "taxonomies/hours.csv"',
    "job": 'taxonomy = "taxonomies/job.yaml"',
    "education": 'taxonomy = "taxonomies/education.csv"',
    "salary": 'type = "continuous"\nmin = 0\nmax = 1000',
    "children": 'type = "continuous"\nmin = 0\nmax = 20',
    "tier": 'taxonomy = "flat"',
}
_OPEN = 'access = "public"\npurposes = ["*"]\nleast_k = 5\nsessions = 4\nshare_class = true\nallow_rerelease = true\n'
_OPEN += "alignments = { per_week = 1_000_000, identifiers_per_week = 1_000_000_000 }  # of a load\n"
# Each party: its columns, its kind of file, and its temper.
_PARTIES: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "bank": (("salary", "approved"), "bank.db", _OPEN + "[price]\nper_attribute = 100\n"),
    "registry": (("sex", "town"), "registry.csv", _OPEN),
    "clinic": (
        ("birth_date", "disease"),
        "clinic.parquet",
        _OPEN.replace('["*"]', '["research"]') + '[[privacy]]\nmodel = "l-diversity"\nsensitive = "disease"\nl = 3\n',
    ),
    "employer": (("job",), "employer.db", _OPEN.replace("least_k = 5", "least_k = 20")),
    "agency": (("hours",), "agency.csv", _OPEN + "[price]\nper_attribute = 100\nper_record = 1\n"),
    "university": (("education",), "university.parquet", _OPEN.replace("allow_rerelease = true\n", "")),
    "insurer": (("children",), "insurer.csv", _OPEN.replace("sessions = 4", "sessions = 2")),
    "shop": (
        ("tier",),
        "shop.parquet",
        _OPEN.replace('"public"', '"private"\nusers = ["u0", "u1", "u2", "u3", "u4", "u5", "u6"]'),
    ),
}


@dataclass(frozen=True)
class Crowd:
    """How much is asked of how many."""

    parties: int = 8
    people: int = 3000
    users: int = 10
    requests: int = 200
    kinds: int = 40  # so many different requests; the others repeat one of them


@dataclass(frozen=True)
class Seen:
    """What came of it."""

    sessions: list[Session]
    turned_away: list[tuple[str, ...]]  # why requests were not even taken: what a user may not ask for is not there
    seconds: float  # from the first request posted to the last session's end
    posting: float  # until the last request was taken
    peaks: Mapping[str, int]  # bytes of memory by process
    again: list[Session]  # afterwards each user asked once more for what was published: the cache answers
    sent: int  # bytes that the parties of all releases sent to each other


def run_crowd(folder: Path, crowd: Crowd) -> Seen:
    """Set the service up in a folder, post all requests at once, and wait until every session has ended."""
    names = list(_PARTIES)[: crowd.parties]
    holdings = {name: _holding(name) for name in names}
    make_trial(folder, [COORDINATOR, *names])
    people = generate_people(crowd.people, SEED)
    random = np.random.default_rng(SEED)
    tiers = pa.array(np.array(["bronze", "silver", "gold"])[random.integers(0, 3, crowd.people)])
    people = people.append_column("tier", tiers)
    tables = split_people(people, {name: _PARTIES[name][0] for name in names}, SEED)
    for name, holding in holdings.items():
        holding.write(folder / name, tables[name])
    (folder / "logs").mkdir()
    return run_async(_run(folder, crowd, holdings, _open_accounts(folder, crowd.users)))


def _holding(name: str) -> PartyDataset:
    columns, file, policy = _PARTIES[name]
    return PartyDataset(
        "records",
        file,
        "ssn",
        {each: _ATTRIBUTES[each] for each in columns if each in _ATTRIBUTES},
        policy,
        sensitive=[each for each in columns if each == "disease"],
        class_name="approved" if "approved" in columns else None,
        taxonomies={file: text for file, text in people_taxonomies().items() if file.partition(".")[0] in columns},
    )


def _open_accounts(folder: Path, users: int) -> list[str]:
    """A token for each user."""
    state = folder / COORDINATOR / "state"
    state.mkdir(mode=0o700)
    with Store.open("sqlite:///coordinator.db", base=state) as store:
        accounts = Accounts(store)
        made = [accounts.create(f"u{n}", f"a long password {n}", Role.ANALYST) for n in range(users)]
        return [accounts.create_token(user, "crowd", timedelta(days=1))[0] for user in made]


def requests(crowd: Crowd) -> list[dict[str, Any]]:
    """Everybody's requests: some of them meet a policy that refuses them, and many repeat another."""
    random = np.random.default_rng(SEED)
    names = list(_PARTIES)[: crowd.parties]
    # Who gives one release of a snapshot and no second is asked less often: those after the first are refused.
    chances = np.array([0.3 if name == "university" else 1.0 for name in names])
    kinds: list[dict[str, Any]] = []
    while len(kinds) < crowd.kinds:
        size = int(random.integers(2, min(4, len(names)) + 1))
        chosen = random.choice(len(names), size, replace=False, p=chances / chances.sum())
        columns = [each for at in sorted(chosen) for each in _PARTIES[names[at]][0] if each != "approved"]
        qid = [each for each in columns if each != "disease"]
        number = len(kinds)
        wish = {
            "purpose": "marketing" if number % 5 == 4 else "research",
            "attributes": columns,
            "privacy": [{"model": "k-anonymity", "qid": qid, "k": int(random.choice([5, 10, 25]))}],
            "budget": 150 if number % 7 == 6 else 100_000,
            **({"class": "approved", "most_error": 0.6} if 0 in chosen else {}),
        }
        if wish not in kinds:
            kinds.append(wish)
    repeats = random.integers(0, crowd.kinds, crowd.requests - crowd.kinds)
    return [*kinds, *(kinds[at] for at in repeats)]


async def _run(folder: Path, crowd: Crowd, holdings: Mapping[str, PartyDataset], tokens: list[str]) -> Seen:
    parties = {name: ("party", "serve", folder / name / "party.toml") for name in holdings}
    own = folder / COORDINATOR / "coordinator.toml"

    def configure(addresses: Mapping[str, str]) -> None:
        for name, holding in holdings.items():
            text = holding.configuration(name, addresses[name], addresses[COORDINATOR])
            (folder / name / "party.toml").write_text(text)
        others = {name: addresses[name] for name in holdings}
        more = "requests_per_minute = 100000\nconsole = false"
        own.write_text(coordinator_configuration(addresses[COORDINATOR], others, more))

    async with LocalServices(folder / "logs") as services:
        ready = await services.start_somewhere({COORDINATOR: ("coordinator", "serve", own), **parties}, configure)
        sessions, turned_away, seconds, posting, again, sent = await services.watched(
            _ask(str(ready[COORDINATOR]["address"]), crowd, tokens, set(holdings))
        )
        peaks = {name: _peak(int(said["pid"])) for name, said in ready.items()}
    return Seen(sessions, turned_away, seconds, posting, peaks, again, sent)


async def _ask(
    url: str, crowd: Crowd, tokens: list[str], parties: set[str]
) -> tuple[list[Session], list[tuple[str, ...]], float, float, list[Session], int]:
    async with AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(AsyncClient(url, token)) for token in tokens]
        while not parties <= await _published(clients[0]):
            await asyncio.sleep(0.1)

        async def post(number: int, wish: dict[str, Any]) -> tuple[AsyncClient, Session] | tuple[str, ...]:
            client = clients[number % len(clients)]
            try:
                return client, await client.request(wish)
            except BadInput as error:
                return error.problems

        started = time.perf_counter()
        posted = await asyncio.gather(*(post(*each) for each in enumerate(requests(crowd))))
        posting = time.perf_counter() - started
        taken = [each for each in posted if isinstance(each[0], AsyncClient)]
        ended = await asyncio.gather(*(_ended(client, session) for client, session in taken))
        seconds = time.perf_counter() - started
        first = {client: session for (client, _), session in zip(taken, ended, strict=True) if session.published}
        repeated = [(client, await client.request(session.request)) for client, session in first.items()]
        again = [await _ended(client, session) for client, session in repeated]
        sent = 0
        for (client, _), session in zip(taken, ended, strict=True):
            if session.published and session.started is not None:
                sent += sum((await client.release(session.id)).summary["bytes_sent"].values())
    turned_away = [each for each in posted if not isinstance(each[0], AsyncClient)]
    return list(ended), turned_away, seconds, posting, again, sent


async def _ended(client: AsyncClient, session: Session) -> Session:
    """Wait for a session's end; a release that waits because few people lose much is taken as it is."""
    ended = await client.wait(session.id)
    return await client.accept(session.id) if ended.status == "awaiting_client" else ended


async def _published(client: AsyncClient) -> set[str]:
    return {
        each.party
        for each in await client.providers()
        if each.reachable and any(dataset.snapshot for dataset in each.datasets)
    }


def _peak(process: int) -> int:
    """The most memory that a process had, in bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
