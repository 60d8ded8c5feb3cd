"""`python -m masquerade`: the command line, for where its script is not on the path."""

from masquerade.cli import main

if __name__ == "__main__":
    main()
