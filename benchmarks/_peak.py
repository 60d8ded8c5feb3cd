"""Runs a command and prints, as one line of JSON, its seconds, its peak memory in bytes, and what it printed.

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
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak, "output": finished.stdout}))


if __name__ == "__main__":
    main()
