"""The engine that an `[engine]` section names, of a job or of a party node."""

from __future__ import annotations

from masquerade.engine.chunks import Engine
from masquerade.engine.local import LocalEngine
from masquerade.job.model import EngineSection


def engine_of(section: EngineSection) -> Engine:
    """Open an engine, to be closed by whoever uses it. What is wrong with it names the key below `engine`."""
    if section.name == "dask":
        from masquerade.engine.cluster import DaskEngine

        assert section.address is not None
        return DaskEngine(section.address)
    return LocalEngine(section.memory_bytes)
