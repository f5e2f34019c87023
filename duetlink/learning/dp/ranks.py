"""Members that are ranks of torch.distributed: their sums use the same process group as DDP's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

Floats = npt.NDArray[np.float64]


class Ranks:
    """A process group of torch.distributed, with any backend for the CPU, as the `Adder` of `DpSgd`."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group

    @property
    def size(self) -> int:
        return dist.get_world_size(self._group)

    def all_reduce(self, value: Callable[[int, int], Floats] | Floats, /, **secure: Any) -> Floats:
        """Return the sum over all ranks, which is not secure. Raises torch's error if a rank is lost."""
        assert not secure
        rank = dist.get_rank(self._group)
        total = torch.from_numpy(np.array(value(rank, self.size) if callable(value) else value))
        dist.all_reduce(total, group=self._group)
        return np.asarray(total.numpy())
