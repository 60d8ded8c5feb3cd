"""A party's process of a trial that writes down, when it ends, the files in which its functions ran.

`python -m structure.walked_party` in place of `masquerade.jobs.party_process`; `WALKED` names the folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from masquerade.jobs import party_process
from structure.walks import walked

if __name__ == "__main__":
    with walked() as files:
        ended = party_process.main()
    Path(os.environ["WALKED"], f"{os.getpid()}.txt").write_text("\n".join(sorted(files)))
    os._exit(ended)
