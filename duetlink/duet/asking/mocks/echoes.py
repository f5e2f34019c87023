"""Finds mocks that the user passes as arguments: made-up values would become part of a real result.

It finds a mock itself, a view of its memory, and an exact copy of its values. It cannot find values that were
computed from a mock: nothing in them shows their origin.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any

from duetlink.duet.asking.mocks.mock_tensors import AsMocks
from duetlink.errors import OperationRefused

_FEWEST_ITEMS = 8  # arrays with fewer items may be equal by chance
_MOST_COLUMNS = 1000  # columns of a frame that are compared


class Echoes:
    """The mocks that one program has shown to the user, as long as they live."""

    def __init__(self) -> None:
        self.own: set[int] = set()  # ids of values of this side, which may be passed again
        self._seen: dict[int, weakref.ref[Any]] = {}  # mocks by their `id()`
        # labels of pandas, by their identity, with the names that they had when they were handed out
        self._lent: dict[int, tuple[weakref.ref[Any], list[Any]]] = {}

    def hand_out(self, mock: Any, id_: int) -> None:
        """Remember a mock that the user has read with `.mock`."""
        if id_ in self.own or not getattr(mock, "shape", ()):
            return
        for number in [number for number, seen in self._seen.items() if seen() is None]:
            del self._seen[number]
        self._seen[id(mock)] = weakref.ref(mock)

    def lend(self, labels: Any) -> None:
        """Remember labels that the user has read, such as `frame.columns`.

        The user can set their names, which would change this side's object only; `check_lent` finds that.
        """
        if hasattr(labels, "nlevels") and id(labels) not in self._lent:
            number = id(labels)
            gone = weakref.ref(labels, lambda _: self._lent.pop(number, None))
            self._lent[number] = gone, list(labels.names)

    def check_lent(self) -> None:
        """Raise OperationRefused if the names of lent labels have changed, and restore them."""
        for reference, names in list(self._lent.values()):
            labels = reference()
            if labels is not None and list(labels.names) != names:
                new, labels.names = list(labels.names), names
                raise OperationRefused(
                    f"the names of labels were set to {new} on this side only: name the columns with "
                    "frame = frame.rename_axis(columns=…)"
                )

    def check(self, obj: Any) -> None:
        """Raise OperationRefused if the argument `obj` is one of these mocks, a view or a copy of one."""
        references = list(self._seen.values())
        ours = list(_arrays(obj)) if references else ()
        if not ours:
            return
        for reference in references:
            mock = reference()
            if mock is obj or any(_is_echo(array, part) for part in _arrays(mock) for array in ours):
                raise OperationRefused(
                    f"this {type(obj).__name__} has the values of a mock, and a result of it would say "
                    "nothing about the real data; give the pointer in place of its mock"
                )


def _arrays(obj: Any) -> Iterator[Any]:
    """Yield the arrays of an object: an array or tensor itself, the columns of a frame."""
    import numpy as np

    module = type(obj).__module__.partition(".")[0]
    if isinstance(obj, np.ndarray):
        yield obj
    elif (torch := sys.modules.get("torch")) is not None and isinstance(obj, torch.Tensor):
        with AsMocks():
            if obj.layout == torch.strided and obj.dtype != torch.bfloat16 and not obj.is_conj():
                yield torch.Tensor.as_subclass(obj.detach(), torch.Tensor).resolve_neg().numpy()
    elif module in ("pandas", "polars") and hasattr(obj, "columns"):
        for index in range(min(obj.shape[1], _MOST_COLUMNS)):
            yield (obj.iloc[:, index] if module == "pandas" else obj.to_series(index)).to_numpy()
    elif module in ("pandas", "polars") and hasattr(obj, "to_numpy"):
        yield obj.to_numpy()


def _is_echo(ours: Any, theirs: Any) -> bool:
    import numpy as np

    if ours.dtype != theirs.dtype or ours.dtype.kind not in "iufcmM" or not ours.ndim:
        return False
    if np.may_share_memory(ours, theirs):
        return True
    if ours.shape != theirs.shape or ours.size < _FEWEST_ITEMS:
        return False
    equal = np.array_equal(ours, theirs, equal_nan=True)
    return bool(equal and len(np.unique(np.diff(ours.ravel()))) > 2)  # zeros or a range prove nothing
