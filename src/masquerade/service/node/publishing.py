"""Tells the coordinator what the party publishes: at the start, and whenever a table, a schema or a policy changes.

The files are looked at every few seconds, the configuration and the taxonomies among them. While the coordinator is
away it is tried again, ever more rarely, and the log hears of it once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from masquerade.errors import MasqueradeError, ParameterError
from masquerade.service.control import Published
from masquerade.service.node.logs import log
from masquerade.service.node.node import PartyNode
from masquerade.service.node.opening import read_all, reopen_datasets
from masquerade.service.node.settings import Settings, read_settings
from masquerade.service.peer_http import PeerHttp

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0

Look = tuple[tuple[int, int], ...]


class Publisher:
    """Watches and publishes, until it is cancelled."""

    def __init__(self, node: PartyNode, look: Look) -> None:
        self._node = node
        self._told: Published | None = None
        self._away = False
        self._problems: tuple[str, ...] = ()  # what stands in the way of publishing, and
        self._unused: tuple[str, ...] = ()  # of a changed configuration, as the log was told
        self._files, self._look = watched(node.settings), look

    async def run(self) -> None:
        """Publish what is new; look again; and so on."""
        coordinator = self._node.settings.coordinator
        settings = self._node.settings
        async with PeerHttp(
            coordinator.name,
            coordinator.address,
            settings.identity,
            settings.trust,
            notes=self._node.notes,
        ) as http:
            delay, due = _FIRST_DELAY, 0.0
            while True:
                self._node.changed.clear()
                wait = settings.watch_every
                try:
                    await self._reload_when_changed()
                    if time.monotonic() >= due:
                        if await self._publish(http):
                            delay = _FIRST_DELAY
                        else:  # not all nodes at once, when it comes back
                            due = time.monotonic() + delay * random.uniform(0.7, 1)  # noqa: S311 # no secret
                            delay = min(2 * delay, _LONGEST_DELAY)
                    wait = min(wait, max(due - time.monotonic(), 0.05)) if self._away else wait
                    self._problems = ()
                except Exception as error:  # a folder that is full, for one; the next look may find it mended
                    self._tell(error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._node.changed.wait()

    async def _publish(self, http: PeerHttp) -> bool:
        """Whether the coordinator knows all that there is to know."""
        published = await asyncio.to_thread(self._node.published, asked=False)
        if published == self._told:
            return True
        try:
            await http.call("POST", "/v1/datasets", published)
        except MasqueradeError as error:
            if not self._away:
                log().warning("the coordinator is not told; trying on", problems=list(error.lines))
            self._away = True
            return False
        self._told, self._away = published, False
        log().info("published", datasets=[each.card.dataset for each in published.datasets])
        return True

    def _tell(self, error: Exception) -> None:
        """Say once what stands in the way. Of the tables nothing gets this far; a ParameterError names a file."""
        kind = type(error).__name__
        problems = error.lines if isinstance(error, ParameterError) else (kind,)
        if problems != self._problems:
            log().error("publishing failed; trying on", kind=kind, problems=list(problems))
        self._problems = problems

    async def _reload_when_changed(self) -> None:
        """Take over a changed configuration, if nothing is wrong with the file; otherwise the old one stays."""
        look = await asyncio.to_thread(looked_at, self._files)
        if look == self._look:
            return
        node = self._node
        try:
            settings = await asyncio.to_thread(read_settings, node.settings.path)
            name, state, before = node.settings.name, node.state, node.datasets
            datasets = await asyncio.to_thread(reopen_datasets, name, settings, state, before)
        except MasqueradeError as error:  # tried again at every look: a file that it names may come yet
            if error.lines != self._unused:
                log().error("the changed configuration is not used", problems=list(error.lines))
            self._unused = error.lines
            return
        self._look, self._unused = look, ()
        if not _same_node(settings, node.settings):
            log().warning("names, addresses and folders of the configuration count from the next start")
        node.datasets = datasets  # before its tables are read: what they are like does not hold up a policy
        log().info("configuration read again", datasets=list(datasets))
        if (now := watched(settings)) != self._files:  # a new one may have changed since it was read
            self._files, self._look = now, ()
        await asyncio.to_thread(node.state.note_configuration, settings.digest)
        await asyncio.to_thread(read_all, datasets)


def watched(settings: Settings) -> tuple[Path, ...]:
    """The configuration's own file, and those of its taxonomies."""
    return (settings.path, *(path for each in settings.datasets.values() for path in each.files))


def looked_at(files: Iterable[Path]) -> Look:
    """By which it is seen that one of them has changed. To be taken before they are read."""
    found = []
    for path in files:
        try:
            status = path.stat()
        except OSError:
            found.append((0, 0))
        else:
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


def _same_node(one: Settings, other: Settings) -> bool:
    def plain(settings: Settings) -> tuple[object, ...]:
        left_out = ("datasets", "trust", "digest")
        fields = [each.name for each in dataclasses.fields(settings) if each.name not in left_out]
        return tuple(getattr(settings, name) for name in fields)

    return plain(one) == plain(other)
