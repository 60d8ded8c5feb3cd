"""The coordinator's web pages: sign in, ask, watch, download; users, ledger and audit log for admins.

`app.mount` puts them on the coordinator's FastAPI app, under /console. The pages decide nothing: every action asks the
coordinator as the user whose browser it comes from, at that moment.
"""
