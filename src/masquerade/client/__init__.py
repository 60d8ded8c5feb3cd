"""`Client` and `AsyncClient`: ask a coordinator for an integrated table, watch it being made, take it home.

    import masquerade as mq
    with mq.Client("https://coordinator.example:8080") as client:      # the token from MASQUERADE_TOKEN
        session = client.request("client.toml")
        for event in client.watch(session.id):
            print(event.kind, event.data)
        frame = client.table(session.id)                               # a pyarrow.Table

`AsyncClient` has the same methods, to be awaited; its `watch` is an async iterator. Failures are the errors of
`masquerade.errors`.

Every call is declared once, in calls.py, as a coroutine over a transport; clients.py runs it, with asyncio or without.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
