"""Tell the coordinator what the party publishes: at the start, and whenever a table, a schema or a policy changes.

The files are looked at every few seconds, the configuration and the taxonomies among them. While the coordinator is
away it is tried again, ever more rarely, and the log hears of it once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path

from masquerade.errors import MasqueradeError, ParameterError
from masquerade.service.clock import wait
from masquerade.service.control import Published
from masquerade.service.control_link import ControlLink
from masquerade.service.logs import log
from masquerade.service.node.datasets import read_all, reopen_datasets
from masquerade.service.node.node import PartyNode
from masquerade.service.node.settings import Settings

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0

Look = tuple[tuple[int, int], ...]


class Publisher:
    """Watches the files, and publishes what has changed."""

    def __init__(self, node: PartyNode, look: Look) -> None:
        self._node = node
        self._told: Published | None = None
        self._away = False
        self._problems: tuple[str, ...] = ()  # what stands in the way of publishing, and
        self._unused: tuple[str, ...] = ()  # of a changed configuration, as the log was told
        self._files, self._look = watched(node.settings), look

    async def run(self) -> None:
        """Publish what is new, again and again, until cancelled."""
        coordinator = self._node.settings.coordinator
        settings = self._node.settings
        clock = self._node.clock
        async with self._node.network.link(
            coordinator.name,
            coordinator.address,
            settings.identity,
            settings.trust,
            notes=self._node.notes,
        ) as link:
            delay, due = _FIRST_DELAY, 0.0
            while True:
                self._node.changed.clear()
                pause = settings.timings.watch
                try:
                    await self._reload_when_changed()
                    if clock.monotonic() >= due:
                        if await self._publish(link):
                            delay = _FIRST_DELAY
                        else:  # not all nodes at once, when it comes back
                            due = clock.monotonic() + delay * random.uniform(0.7, 1)  # noqa: S311 # no secret
                            delay = min(2 * delay, _LONGEST_DELAY)
                    if self._away:
                        pause = min(pause, max(due - clock.monotonic(), 0.05))
                    self._problems = ()
                except Exception as error:  # a folder that is full, for one; the next look may find it mended
                    self._tell(error)
                changed = asyncio.ensure_future(self._node.changed.wait())
                try:
                    await wait(clock, {changed}, pause)
                finally:
                    changed.cancel()

    async def _publish(self, link: ControlLink) -> bool:
        """Publish what is new; return whether the coordinator knows it all."""
        published = await asyncio.to_thread(self._node.published, asked=False)
        if published == self._told:
            return True
        try:
            await link.call("POST", "/v1/datasets", published)
        except MasqueradeError as error:
            if not self._away:
                log().warning("the coordinator is not told; trying on", problems=list(error.lines))
            self._away = True
            return False
        self._told, self._away = published, False
        log().info("published", datasets=[each.card.dataset for each in published.datasets])
        return True

    def _tell(self, error: Exception) -> None:
        """Log once why nothing can be published. A ParameterError names a file; nothing of a table gets this far."""
        kind = type(error).__name__
        problems = error.lines if isinstance(error, ParameterError) else (kind,)
        if problems != self._problems:
            log().error("publishing failed; trying on", kind=kind, problems=list(problems))
        self._problems = problems

    async def _reload_when_changed(self) -> None:
        """Adopt a changed configuration, if nothing is wrong with the file; otherwise the old one stays."""
        look = await asyncio.to_thread(looked_at, self._files)
        if look == self._look:
            return
        node = self._node
        try:
            settings = await asyncio.to_thread(Settings.load, node.settings.path)
            given = node.settings.name, settings, node.state, node.datasets, node.clock
            datasets = await asyncio.to_thread(reopen_datasets, *given)
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
    """Times and sizes, by which a change is seen. Take them before the files are read."""
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
        fields = type(settings).model_fields.keys() - {"datasets", "trust", "clients"}
        return settings.path, *(getattr(settings, name) for name in sorted(fields))

    return plain(one) == plain(other)
