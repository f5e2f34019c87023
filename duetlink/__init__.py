"""Link two Jupyter notebooks: a data owner's and a data scientist's.

`duetlink.launch()` prints a session code, `duetlink.join(code)` connects. See README.md.
"""

from __future__ import annotations

import gc
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from duetlink.version import __version__ as __version__

if TYPE_CHECKING:
    from duetlink.assembly import group
    from duetlink.base.event_log import log_to
    from duetlink.base.runtime.job_progress import progress
    from duetlink.compute.mocks import Mock
    from duetlink.data.values.empty import empty, empty_like
    from duetlink.duet.answering.policies.policy import Policy
    from duetlink.duet.duet import Duet, duets
    from duetlink.duet.objects.budget import Budget
    from duetlink.errors import DuetError
    from duetlink.prep.prep import Prep
    from duetlink.session import join, launch
    from duetlink.settings import IceServer, Settings

__all__ = [
    "Budget",
    "Duet",
    "DuetError",
    "IceServer",
    "Mock",
    "Policy",
    "Prep",
    "Settings",
    "duets",
    "empty",
    "empty_like",
    "errors",
    "group",
    "join",
    "launch",
    "log_to",
    "progress",
]

# loaded when first used (PEP 562), so that `import duetlink` is fast
_HOMES = {
    "Budget": "duetlink.duet.objects.budget",
    "Duet": "duetlink.duet.duet",
    "DuetError": "duetlink.errors",
    "IceServer": "duetlink.settings",
    "Mock": "duetlink.compute.mocks",
    "Policy": "duetlink.duet.answering.policies.policy",
    "Prep": "duetlink.prep.prep",
    "Settings": "duetlink.settings",
    "duets": "duetlink.duet.duet",
    "empty": "duetlink.data.values.empty",
    "empty_like": "duetlink.data.values.empty",
    "group": "duetlink.assembly",
    "join": "duetlink.session",
    "launch": "duetlink.session",
    "log_to": "duetlink.base.event_log",
    "progress": "duetlink.base.runtime.job_progress",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(_load(_HOMES[name]), name)
    if name == "errors":
        return importlib.import_module("duetlink.errors")
    if name.startswith("_"):  # Python and its tools look up many such names
        raise AttributeError(f"module 'duetlink' has no attribute {name!r}")
    raise importlib.import_module("duetlink.attributes").unknown("duetlink", name, __all__)


def _load(module: str) -> ModuleType:
    """Import a module without the garbage collector, which finds nothing then: modules are no garbage, and
    it would look through them again and again.
    """
    enabled = gc.isenabled()
    try:
        gc.disable()
        return importlib.import_module(module)
    finally:
        if enabled:
            gc.enable()


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
