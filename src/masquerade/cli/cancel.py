"""`masquerade cancel SESSION`: end a session."""

from __future__ import annotations

from masquerade.cli.client_conf import Conf, SessionId, client_of, lines_of
from masquerade.cli.output import Json, print_json, say


def cancel(session: SessionId, conf: Conf = None, json: Json = False) -> None:
    """End a session, whatever it is doing. What is published stays published: that is exit code 1.

    Example: masquerade cancel 5f2c0e…
    """
    with client_of(conf) as client:
        ended = client.cancel(session)
    if json:
        print_json(ended.content())
    else:
        say(*lines_of(ended, conf))
