"""Where something is defined, for tests that change what stands beside it: modules may move, and their content stays.

monkeypatch.setattr(home(batches), "_MOST_SWITCHES", 32)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def home(thing: Any) -> ModuleType:
    """The module that defines a function or a class, and in which its code looks names up."""
    return sys.modules[thing.__module__]
