"""Training among several notebooks: with differential privacy, by federated averaging, or by gossip.

- DP-SGD (`DpSgd`): clips each sample's gradient and adds noise to the sum, so that the trained model reveals
  little about any single row. epsilon and delta measure how little.
- account, spending: the sampling rate, noise and number of steps of a training. Its epsilon follows from it.
- round: one averaging of all members' updates. Between rounds each member makes local steps (`LocalSteps`).
- update: a model's numbers now, minus those after the last round.
- canary: a row made by the auditor, whose gradient is known. `audit` trains on canaries.
- suspicion: the result of one statistical test of an audit: a finding, and its probability if all is well.

Example: 60,000 rows, batches of 256, noise 1.1, 10 epochs are 2,340 steps at a rate of 256 / 60,000.
`Spending(256 / 60_000, 1.1, 2_340).epsilon(1e-5)` returns the epsilon of that training, and `noise_for(2.0,
1e-5, 256 / 60_000, 2_340)` the noise at which it would be 2.

Needs torch and dp-accounting: `pip install "duetlink[learning]"`. Both are loaded with the first name that
needs them (PEP 562), so a process that only passes models on stays light. `Gossip` comes with a package of
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
# names that another package provides, and the extra that installs it
_EXTRAS = {"Gossip": "gossip"}


def __getattr__(name: str) -> Any:
    if name in _EXTRAS:
        return globals().setdefault(name, _provided(name))
    if name not in _HOMES:
        if name.startswith("_"):  # Python and its tools look up many such names
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise unknown(__name__, name, __all__)
    module = importlib.import_module(_HOMES[name])
    # all names of a module at once: importing the package `audit` would replace the function of that name
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
