"""The face for torch 2.14 and later: a `Backend`, which can be combined with others in one process group.

It has the operations of `Face`, by the names that torch's base class expects. duetlink is tested with torch
2.13, in which a `Backend` cannot be constructed in Python, so this class has not run yet. `ProcessGroup` is
the face unless `Options(as_backend=True)` asks for this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import Backend

from duetlink.errors import GroupError
from duetlink.groups.torch.face import Face
from duetlink.groups.torch.job import TorchJob

_Base: Any = Backend


class DuetlinkBackend(Face, _Base):  # type: ignore[misc]
    """A process group as a `Backend`. `create` makes one on all of its ranks."""

    def __init__(self, job: TorchJob, options: Any, ranks: Sequence[int], *, allow_pickle: bool) -> None:
        """Raises GroupError if this release of torch does not support it."""
        try:
            _Base.__init__(self, options.group_rank, options.group_size)
        except TypeError as error:
            raise GroupError(
                f"torch {torch.__version__} takes no Backend that is written in Python, 2.14 does: leave "
                "as_backend out"
            ) from error
        self._begin(job, options, ranks, allow_pickle=allow_pickle)

    allreduce_sparse = Face.allreduce
