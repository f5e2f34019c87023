"""Mocks that come back as arguments: what was computed on a mock here would become part of a real result.

What is found is a mock itself, a part of its memory, and an exact copy of its values. What is computed from a
mock has other values, and nothing in it tells where they come from.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any

from duetlink.duet.asking.mocks.mock_tensors import AsMocks
from duetlink.errors import OperationRefused

_FEWEST_ITEMS = 8  # fewer may well be equal by chance
_MOST_COLUMNS = 1000  # of a frame, which are looked at one by one


class Echoes:
    """The mocks of one program that can be seen here, as long as they live."""

    def __init__(self) -> None:
        self.own: set[int] = set()  # the results that are values of this side's, which may come again
        self._seen: dict[int, weakref.ref[Any]] = {}  # mocks, each by its identity
        # labels of pandas, by their identity, with the names that they had when they were handed out
        self._lent: dict[int, tuple[weakref.ref[Any], list[Any]]] = {}

    def hand_out(self, mock: Any, id_: int) -> None:
        """Remember the mock of a result, which the user has asked for."""
        if id_ in self.own or not getattr(mock, "shape", ()):
            return
        for number in [number for number, seen in self._seen.items() if seen() is None]:
            del self._seen[number]
        self._seen[id(mock)] = weakref.ref(mock)

    def lend(self, labels: Any) -> None:
        """Remember the labels of a mock, such as its columns, which the user has asked for: their name can be
        set, and would be set here only.
        """
        if hasattr(labels, "nlevels") and id(labels) not in self._lent:
            number = id(labels)
            gone = weakref.ref(labels, lambda _: self._lent.pop(number, None))
            self._lent[number] = gone, list(labels.names)

    def check_lent(self) -> None:
        """Raise OperationRefused where labels were given another name since, and give them their old one."""
        for reference, names in list(self._lent.values()):
            labels = reference()
            if labels is not None and list(labels.names) != names:
                new, labels.names = list(labels.names), names
                raise OperationRefused(
                    f"a name of labels that was set here, {new}, is not the owner's: name the columns with "
                    "frame = frame.rename_axis(columns=…)"
                )

    def check(self, obj: Any) -> None:
        """Raise OperationRefused where `obj`, which is to be an argument, is one of these mocks."""
        references = list(self._seen.values())
        ours = list(_arrays(obj)) if references else ()
        if not ours:
            return
        for reference in references:
            mock = reference()
            if mock is obj or any(_is_echo(array, part) for part in _arrays(mock) for array in ours):
                raise OperationRefused(
                    f"this {type(obj).__name__} has the values of a mock, and what comes of it would say "
                    "nothing about the real data; give the pointer in place of its mock"
                )


def _arrays(obj: Any) -> Iterator[Any]:
    """The arrays that an object consists of, where it is of a library that has any."""
    import numpy as np

    module = type(obj).__module__.partition(".")[0]
    if isinstance(obj, np.ndarray):
        yield obj
    elif (torch := sys.modules.get("torch")) is not None and isinstance(obj, torch.Tensor):
        with AsMocks():
            if obj.layout == torch.strided and obj.dtype != torch.bfloat16 and not obj.is_conj():
                yield torch.Tensor.as_subclass(obj.detach(), torch.Tensor).resolve_neg().numpy()
    elif module in ("pandas", "polars") and hasattr(obj, "columns"):
        for place in range(min(obj.shape[1], _MOST_COLUMNS)):
            yield (obj.iloc[:, place] if module == "pandas" else obj.to_series(place)).to_numpy()
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
    return bool(equal and len(np.unique(np.diff(ours.ravel()))) > 2)  # zeros, or a range, are anybody's
