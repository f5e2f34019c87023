"""Refuses operations that would write into an object of this side, or into an asset.

An operation runs here on the mocks of its arguments. If it wrote into a local array, tensor, list or random
generator, that object would hold numbers of a mock from then on, and nothing would distinguish them from
real ones.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import BACKWARD, IN_PLACE, Allowed
from duetlink.compute.operations.allow_lists.rules import plan_of
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.duet.asking.mocks.mock_tensors import AsMocks, is_tensor
from duetlink.errors import OperationRefused

_NUMBERS = ("add", "floordiv", "matmul", "mod", "mul", "pow", "sub", "truediv")
_BITS = ("and", "lshift", "or", "rshift", "xor")
IN_PLACE_OPERATORS = frozenset(f"operator.i{name}" for name in (*_NUMBERS, *_BITS))  # Python's `x += y`
_NEVER_CHANGE = (int, float, complex, bool, str, bytes, type(None))
_FIRST: tuple[int, ...] = (0,)


def check_targets(
    operation: str,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    allowed: Allowed,
    shared: SharedMemory,
) -> None:
    """Check the objects that an operation would write into. `shared` is the memory of the assets' mocks.

    Raises:
        OperationRefused: one of them is an object of this side, an asset, or a view of an asset.
    """
    if worst_effect(operation) not in (IN_PLACE, BACKWARD):
        return
    positions = _FIRST
    if operation[0] not in ".@":
        positions = allowed.function(operation).changes or _FIRST
    names: Sequence[str] = ()
    for position in positions:
        if position < len(arguments):
            _check(operation, arguments[position], shared)
        elif keywords:
            kind: type = type(arguments[0]) if arguments else type(None)
            names = names or plan_of(operation, kind).names
            if position < len(names) and names[position] in keywords:
                _check(operation, keywords[names[position]], shared)


def _check(operation: str, target: Any, shared: SharedMemory) -> None:
    if hasattr(type(target), "_is_remote"):
        check_own = getattr(type(target), "_check_own", None)
        if check_own is not None:
            check_own(target)
        if shared.has(target._mock):
            raise OperationRefused(
                f"{operation} would write into an asset, of which {target._title()} is a view; assets are "
                "their owner's and cannot be changed: work on a copy, such as .copy() or .clone()"
            )
    elif isinstance(target, (list, tuple)) and target:
        for part in target:
            _check(operation, part, shared)
    elif not isinstance(target, _NEVER_CHANGE):
        raise OperationRefused(
            f"{operation} would write values of a mock into a {type(target).__name__} of this side: place it "
            "at the owner first, x = duet.remote(x), or write into it what .get(reason=…) brings"
        )


class SharedMemory:
    """The memory of the assets' mocks: address ranges of arrays and tensors, and the frames of pandas."""

    def __init__(self) -> None:
        # both by the id of the asset in its program
        self._labelled: dict[int, Any] = {}  # frames and series of pandas
        self._ranges: dict[int, range] = {}  # addresses

    def add(self, id_: int, mock: Any) -> None:
        """Remember the mock of an asset. Only arrays, tensors and objects of pandas can have views."""
        if hasattr(mock, "iloc"):
            self._labelled[id_] = mock
            return
        start = _address(mock)
        if start is None:
            return
        if type(mock).__module__ == "numpy":
            from numpy.lib.array_utils import byte_bounds

            self._ranges[id_] = range(*byte_bounds(mock))
        else:
            with AsMocks():
                storage = mock.untyped_storage()
                self._ranges[id_] = range(storage.data_ptr(), storage.data_ptr() + storage.nbytes())

    def forget(self, id_: int) -> None:
        self._ranges.pop(id_, None)
        self._labelled.pop(id_, None)

    def has(self, mock: Any) -> bool:
        """Return True for a view of an asset's mock: an array or tensor in its memory, `loc`, or `iloc`."""
        frame = getattr(mock, "obj", None) if hasattr(mock, "ndim") and self._labelled else None
        if frame is not None and any(frame is each for each in list(self._labelled.values())):
            return True
        if not self._ranges:
            return False
        address = _address(mock)
        return address is not None and any(address in memory for memory in list(self._ranges.values()))


def _address(mock: Any) -> int | None:
    """Return the address of the first item of an array or tensor; None if it has no items or is neither."""
    kind = type(mock)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return int(mock.__array_interface__["data"][0]) if mock.size else None
    if is_tensor(mock):
        with AsMocks():
            if mock.layout is sys.modules["torch"].strided and mock.numel():
                return int(mock.data_ptr())
    return None
