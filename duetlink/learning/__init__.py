"""Training that tells the truth: private training with an account that holds, alone or in a group.

Needs torch and dp-accounting: `pip install "duetlink[learning]"`. They are loaded with the first name that
needs them (PEP 562), so that a process which only passes models on stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duetlink.learning.audit.probe import Probe, Verdict, audit, share_noise
    from duetlink.learning.dp.accounting import Spending, most_steps, noise_for
    from duetlink.learning.dp.training import DpSgd

__all__ = [
    "DpSgd",
    "Probe",
    "Spending",
    "Verdict",
    "audit",
    "most_steps",
    "noise_for",
    "share_noise",
]

_HOMES = {
    "DpSgd": "duetlink.learning.dp.training",
    "Probe": "duetlink.learning.audit.probe",
    "Spending": "duetlink.learning.dp.accounting",
    "Verdict": "duetlink.learning.audit.probe",
    "audit": "duetlink.learning.audit.probe",
    "most_steps": "duetlink.learning.dp.accounting",
    "noise_for": "duetlink.learning.dp.accounting",
    "share_noise": "duetlink.learning.audit.probe",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
