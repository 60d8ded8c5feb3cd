"""The coordinator's web pages: sign in, ask, watch, download; users, ledger and audit log for admins.

`app.mount` puts them on the coordinator's FastAPI app, under /console. The pages decide nothing: every action asks the
coordinator as the user whose browser it comes from, at that moment.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
