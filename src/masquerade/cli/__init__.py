"""The command line: one file a command; `main` turns errors into lines and exit codes."""

import gc

_OBJECTS_BETWEEN_COLLECTIONS = 250_000


def main() -> None:
    """Run the command line. An interrupt while it still loads is an interrupt like any other."""
    # Loading makes nearly two hundred thousand objects that all stay. To look for garbage among them after every 700,
    # as is usual, takes a fifth of a short command's time, after every 10,000 a tenth, and even once a tenth.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        from masquerade.cli.app import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()
