"""The command line: one file a command; `main` turns errors into lines and exit codes."""

import gc

_OBJECTS_BETWEEN_COLLECTIONS = 10_000


def main() -> None:
    """Run the command line. An interrupt while it still loads is an interrupt like any other."""
    # Loading makes some hundred thousand objects that all stay: with the usual threshold of 700, looking for garbage
    # among them takes a tenth of a short command's time.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        from masquerade.cli.main import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()
