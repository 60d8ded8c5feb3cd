"""The command line: one file a command; `main` turns errors into lines and exit codes."""

from masquerade.cli.main import main

__all__ = ["main"]
