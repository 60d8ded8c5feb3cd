"""Hide pandas from a process that has no use for it.

Wherever it is installed, pyarrow imports it to see whether it has been handed one of its frames; no command and no
party of a trial has any, and the import takes longer than most jobs. Only lifelines, which some models are fitted by,
is made of such frames: once it is loaded, pandas is to be seen.

Every command loads this module first, so it stands apart from what starts processes.
"""

from __future__ import annotations

import sys


def hide_pandas() -> None:
    """Let nothing in this process but lifelines import pandas from now on."""
    sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:
    """A finder that answers for pandas alone."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Say that there is no pandas, and leave all else to others."""
        if name == "pandas" and "lifelines" not in sys.modules:
            raise ModuleNotFoundError("hidden from this process", name=name)
