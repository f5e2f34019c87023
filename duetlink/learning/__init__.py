"""Training that tells the truth: private training with an account that holds, and gossip that bears loss.

Needs torch and dp-accounting: `pip install "duetlink[learning]"`. They are loaded with the first name that
needs them (PEP 562), so that a process which only passes models on stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from duetlink.attributes import unknown

if TYPE_CHECKING:
    from duetlink.learning.audit.probe import Probe, Verdict, audit, share_noise
    from duetlink.learning.averaging.local_steps import LocalSteps
    from duetlink.learning.dp.accounting import Spending, most_steps, noise_for
    from duetlink.learning.dp.training import DpSgd
    from duetlink.learning.gossip.training import Gossip

__all__ = [
    "DpSgd",
    "Gossip",
    "LocalSteps",
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
    "Gossip": "duetlink.learning.gossip.training",
    "LocalSteps": "duetlink.learning.averaging.local_steps",
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
        if name.startswith("_"):  # Python and its tools ask for many
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise unknown(__name__, name, __all__)
    module = importlib.import_module(_HOMES[name])
    # all of a home at once: to import the package `audit` puts it in the place of the function of that name
    globals().update({each: getattr(module, each) for each, home in _HOMES.items() if home == _HOMES[name]})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
