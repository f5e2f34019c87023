"""The outer step: how all members move the shared numbers by the mean of their updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duetlink.errors import SettingError
from duetlink.learning.averaging.flat import Floats


@dataclass(frozen=True, slots=True)
class OuterStep:
    """SGD with the mean update in the role of a gradient.

    A rate of 1 without momentum gives the mean of the models: federated averaging (McMahan et al. 2017,
    algorithm 1). With Nesterov momentum it is DiLoCo (Douillard et al. 2023, algorithm 1), whose authors use
    a rate of 0.7 and a momentum of 0.9.
    """

    rate: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.rate <= 2.0:
            raise SettingError(f"outer_rate is {self.rate!r}: it lies above 0, and up to 2")
        if not 0.0 <= self.momentum < 1.0:
            raise SettingError(f"outer_momentum is {self.momentum!r}: it lies from 0 to below 1")

    def step(
        self, numbers: Floats, velocity: Floats, update: Floats, parameters: int
    ) -> tuple[Floats, Floats]:
        """Return the next numbers and velocity, given the mean update: the models now, minus the models
        before.

        Only the first `parameters` numbers have momentum: buffers, such as running variances, are averaged.
        """
        after = numbers + update
        if self.rate != 1.0 or self.momentum:
            mine = update[:parameters]
            velocity = np.float32(self.momentum) * velocity + mine
            step = mine + np.float32(self.momentum) * velocity if self.momentum else mine
            after[:parameters] = numbers[:parameters] + np.float32(self.rate) * step
        return after, velocity
