"""Runs a command and prints, as one line of JSON, its seconds, those of the processor, its peak memory and output.

A process of its own: the peak of a child counts from that of whoever starts it, and this one is small.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time


def main() -> None:
    started = time.perf_counter()
    finished = subprocess.run(sys.argv[1:], check=True, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "seconds": seconds,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024,
    }
    print(json.dumps({**figures, "output": finished.stdout}))


if __name__ == "__main__":
    main()
