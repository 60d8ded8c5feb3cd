"""Run a module in a process that does not outlive its parent.

`python bound_process.py PARENT MODULE WORDS…` becomes `python -m MODULE WORDS…`. On Linux, the process is asked to stop
as soon as its parent dies, even if the parent was killed and could not clean up.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_TELL_ME_WHEN_MY_PARENT_DIES = 1  # PR_SET_PDEATHSIG; survives exec


def main() -> None:
    """Bind this process to its parent, then become the module."""
    parent, *words = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_TELL_ME_WHEN_MY_PARENT_DIES, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):  # the parent died before we could ask
        sys.exit(0)
    os.execv(sys.executable, [sys.executable, "-m", *words])  # noqa: S606 - our own interpreter


if __name__ == "__main__":
    main()
