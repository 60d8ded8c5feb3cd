"""Serves a coordinator's API and console on a free port, without its background work: `served.py CONF`."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import uvicorn

from masquerade.console import mount
from masquerade.service import Coordinator, CoordinatorSettings, create_app


class Told(uvicorn.Server):
    """Tells its address once it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        host, port = sockets[0].getsockname()[:2]
        scheme = "https" if self.config.is_ssl else "http"
        sys.stdout.write(json.dumps({"address": f"{scheme}://{host}:{port}"}) + "\n")
        sys.stdout.flush()


def main() -> None:
    coordinator = Coordinator(CoordinatorSettings.load(Path(sys.argv[1])))
    app = create_app(coordinator)
    mount(app, coordinator)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        settings = coordinator.settings
        config = uvicorn.Config(
            app,
            log_level="warning",
            timeout_graceful_shutdown=1,
            ssl_certfile=settings.https.certificate,
            ssl_keyfile=settings.https.key,
        )
        Told(config).run([listening])


if __name__ == "__main__":
    main()
