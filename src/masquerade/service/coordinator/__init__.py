"""The coordinator: takes requests, negotiates, starts sessions, assembles and publishes. It holds no party's data."""
