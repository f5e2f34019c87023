"""Training that tells the truth: private training with an account that holds, and gossip that bears loss.

Needs torch and dp-accounting: `pip install "duetlink[learning]"`. They are loaded with the first name that
needs them (PEP 562), so that a process which only passes models on stays light. `Gossip` is in a package of
its own, `pip install "duetlink[gossip]"`, which is found by its entry point.
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from duetlink.attributes import unknown
from duetlink.errors import MissingLibrary

if TYPE_CHECKING:
    from duetlink.learning.audit.probe import Probe, Verdict, audit, share_noise
    from duetlink.learning.averaging.local_steps import LocalSteps
    from duetlink.learning.dp.accounting import Spending, most_steps, noise_for
    from duetlink.learning.dp.training import DpSgd

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
    "LocalSteps": "duetlink.learning.averaging.local_steps",
    "Probe": "duetlink.learning.audit.probe",
    "Spending": "duetlink.learning.dp.accounting",
    "Verdict": "duetlink.learning.audit.probe",
    "audit": "duetlink.learning.audit.probe",
    "most_steps": "duetlink.learning.dp.accounting",
    "noise_for": "duetlink.learning.dp.accounting",
    "share_noise": "duetlink.learning.audit.probe",
}

ENTRY_POINTS = "duetlink.learning"
# names that another package provides, and the extra that brings it
_EXTRAS = {"Gossip": "gossip"}


def __getattr__(name: str) -> Any:
    if name in _EXTRAS:
        return globals().setdefault(name, _provided(name))
    if name not in _HOMES:
        if name.startswith("_"):  # Python and its tools ask for many
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise unknown(__name__, name, __all__)
    module = importlib.import_module(_HOMES[name])
    # all of a home at once: to import the package `audit` puts it in the place of the function of that name
    globals().update({each: getattr(module, each) for each, home in _HOMES.items() if home == _HOMES[name]})
    return globals()[name]


def _provided(name: str) -> Any:
    found = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
    if found is None:
        raise MissingLibrary(
            f"duetlink.learning.{name} comes with a package of its own: pip install"
            f" 'duetlink[{_EXTRAS[name]}]'"
        )
    return found.load()


def __dir__() -> list[str]:
    return sorted(__all__)
