"""A job: the TOML file that says what to read, what must hold, how to get there and what to write."""
