"""A process that appends to an audit log, and prints each record's anchor once it is written.

Arguments: the log, the identity's folder, how many records (0: until killed), how long each is, a word to know it by.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from masquerade.audit import AuditLog
from masquerade.net import Identity


def main() -> None:
    log_path, folder, records, size, word = sys.argv[1:]
    identity = Identity.load(Path(folder))
    with AuditLog(Path(log_path), identity, durable=False, seal_every=7) as log:
        for number in range(int(records)) if int(records) else count():
            anchor = log.append("test", {"padding": "x" * int(size), "turn": number, "writer": word})
            sys.stdout.write(f"{anchor}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
