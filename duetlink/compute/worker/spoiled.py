"""Which results a failed write spoils: all that look at the memory that it should have changed.

A view of an array is a result of its own. If a write through the view fails at the owner, though it succeeded
on the mocks, the array is not what the scientist's program says that it is. So the array, and every view of
it, is a failure from then on. Frames of pandas need no look: with copy-on-write, no other object sees what is
written into one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

Extent = tuple[int, int]  # first address, and the one behind the last


def spoiled_by(target: Any, objects: Mapping[int, Any]) -> list[int]:
    """The ids of `objects` that share memory with what a failed write was to change."""
    written = list(_extents(target))
    if not written:
        return []
    return [id_ for id_, obj in objects.items() if _overlap(written, _extents(obj))]


def learning(objects: Mapping[int, Any]) -> list[int]:
    """The ids of tensors that gather gradients, of modules and of optimisers: a failed backward step may have
    left out any of these.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    return [
        id_
        for id_, obj in objects.items()
        if isinstance(obj, (torch.nn.Module, torch.optim.Optimizer))
        or (isinstance(obj, torch.Tensor) and obj.requires_grad)
    ]


def _overlap(written: list[Extent], others: Iterator[Extent]) -> bool:
    return any(start < last and first < end for first, last in others for start, end in written)


def _extents(obj: Any) -> Iterator[Extent]:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(obj, numpy.ndarray):
        yield numpy.lib.array_utils.byte_bounds(obj)
    elif torch is not None and isinstance(obj, torch.Tensor):
        storage = obj.untyped_storage()
        yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    elif torch is not None and isinstance(obj, torch.nn.Module):
        for tensor in (*obj.parameters(), *obj.buffers()):
            yield from _extents(tensor)
    elif torch is not None and isinstance(obj, torch.optim.Optimizer):
        for group in obj.param_groups:
            for tensor in group["params"]:
                yield from _extents(tensor)
