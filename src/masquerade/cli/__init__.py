"""The command line: one file a command; `main` turns errors into lines and exit codes."""


def main() -> None:
    """Run the command line. An interrupt while it still loads is an interrupt like any other."""
    try:
        from masquerade.cli.main import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()
