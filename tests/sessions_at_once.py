"""Sessions that start at once in a process that has decoded nothing yet: `sessions_at_once.py JOB …`.

Each job is played by a thread, and its parties by threads of theirs; prints how each ended, in the jobs' order.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from masquerade.errors import MasqueradeError
from masquerade.jobs import mashup_job
from parties_here import parties_here


def main(jobs: list[str]) -> None:
    """Play all of them."""
    sys.setswitchinterval(1e-6)  # as if the machine were busy
    begin = Barrier(len(jobs))

    def play(job: str) -> str:
        begin.wait()
        try:
            return str(mashup_job(job).summary["released"])
        except MasqueradeError as error:
            return str(error)

    with parties_here(), ThreadPoolExecutor(len(jobs)) as threads:
        print(*threads.map(play, jobs), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
