"""Answers questions about the sizes, column names and dtypes of private objects.

Only what is the same for any data is answered, and it is read from the mock. If a size of the real object
depends on the data, the mock's size would be a wrong number that looks right, so the question raises
PrivateValue. Example: `len(frame)` of an asset is known from its description; `len(frame[frame.age > 60])`
raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from duetlink.compute.operations.sizes.frames import ndim_of
from duetlink.compute.operations.sizes.mask import (
    COLUMNS,
    EVERY,
    LABELS,
    LENGTHS,
    NAMES,
    PUBLIC,
    ROWS,
    UNCOUNTED,
    trimmed,
)
from duetlink.data import values
from duetlink.errors import PrivateLength, PrivateValue

_OF_COLUMNS = frozenset({"columns", "dtypes", "schema", "collect_schema", "get_column_index"})
_NUMBER_OF_AXES = frozenset({"ndim", "dim", "ndimension"})
# attributes that follow from all lengths together
_OF_ALL = frozenset(
    {"size", "nbytes", "empty", "numel", "nelement", "stride", "strides", "is_same_size", "dim_order"}
)
_OF_SERIES = frozenset({"dtype", "name"})
_OF_ITEMS = frozenset({"dtype", "dtypes", "schema", "collect_schema"})
_OF_ONE = frozenset({"width", "height", "ngroups"})
_TELLING = _OF_COLUMNS | _NUMBER_OF_AXES | _OF_ALL | _OF_SERIES | _OF_ITEMS | _OF_ONE
_ROWS = "duet.remote(len)(x).get(reason=…)"
_LENGTHS = re.compile(r"\((.*)\)$")


def length(remote: Any) -> int:
    """Return `len(remote)`.

    Raises:
        PrivateLength: the length depends on the data.
        TypeError: the mock has no length.
    """
    for hidden in _hidden_of(remote):
        if hidden & LENGTHS and _is_hidden(remote, 0):
            raise PrivateLength(_words(remote, "the length", _ROWS))
    try:
        return len(remote._mock)
    except TypeError as error:  # torch.tensor(x) knows no pointers, and iterates over x
        raise TypeError(
            f"{error}; if this was torch.tensor or torch.as_tensor of a pointer, it is "
            "duet.remote(torch).tensor(x)"
        ) from None


def metadata(remote: Any, name: str) -> Any:
    """Return an attribute that describes sizes, types or names. Raises PrivateValue if it depends on data."""
    if name == "shape" and (remote._hidden & LENGTHS or _with_mates(remote) & LENGTHS):
        return _shape(remote)
    check(remote, name)
    found = getattr(remote._mock, name)
    if name in ("dtype", "dtypes"):
        found = _without_categories(found)
    remote._program.echoes.lend(found)
    return found


def _without_categories(dtypes: Any) -> Any:
    """Remove the categories, which are data, from a dtype or from the dtypes of a frame."""
    if hasattr(dtypes, "map"):
        return dtypes.map(_without_categories)
    if type(dtypes).__name__ == "CategoricalDtype":
        return type(dtypes)(ordered=dtypes.ordered)
    return dtypes


def check(remote: Any, name: str) -> None:
    """Raise PrivateValue if the attribute `name` depends on the data."""
    if name not in _TELLING:
        return
    for hidden in _hidden_of(remote):
        if hidden:
            _check(remote, name, hidden)
    if name in _OF_ITEMS and remote._program.difference_to_mates(remote).dtypes:
        _refuse(remote, f"{name!r}", "x.get(reason=…); or settle it for any data with .astype(…)")


def _hidden_of(remote: Any) -> Iterator[int]:
    """Yield the mask of private sizes by the rules, then the mask by the rules and the mates.

    The second takes a run on the mates; a caller that refuses by the first never pays for it.
    """
    yield remote._hidden
    yield _with_mates(remote)


def _with_mates(remote: Any) -> int:
    """Add the sizes that differ between mock and mates to the mask of `remote`, and return the mask."""
    difference_to_mates = remote._program.difference_to_mates(remote).hidden
    if difference_to_mates & ~remote._hidden:
        remote._hidden |= difference_to_mates
    hidden: int = remote._hidden
    return hidden


def _check(remote: Any, name: str, hidden: int) -> None:
    if name in _OF_COLUMNS:
        if ndim_of(remote._mock) == 2 and hidden & (COLUMNS | NAMES):
            _refuse(remote, f"{name!r}", f"x.head(0).get(reason=…).{name}")
    elif name in _NUMBER_OF_AXES:
        if hidden == UNCOUNTED:
            _refuse(remote, "the number of dimensions", "numpy.ndim(x).get(reason=…)")
    elif name in _OF_SERIES and hidden == UNCOUNTED and hasattr(remote._mock, "iloc"):
        _refuse(remote, f"whether this is one row, which has a {name}, or several,", "x.get(reason=…)")
    elif name == "width":
        if hidden & COLUMNS:
            _refuse(remote, "the number of columns", "x.head(0).get(reason=…).width")
    elif name == "height":
        if hidden & ROWS:
            _refuse(remote, "the number of rows", _ROWS)
    elif name == "ngroups":
        _refuse(remote, "the number of groups", "duet.remote(len)(x.size()).get(reason=…)")
    elif name in _OF_ALL and hidden & LENGTHS:
        _refuse(remote, f"{name!r}", _all_items(remote))


def of_tensor(name: str, arguments: Sequence[Any], keywords: Any) -> Any:
    """Answer torch's question `name` about the sizes of a tensor; None if its mock may answer.

    Raises:
        PrivateValue: the answer depends on the data.
    """
    tensor = arguments[0] if arguments else keywords.get("input")
    hidden = getattr(tensor, "_hidden", PUBLIC)
    if not hidden:
        return None
    bare = name.rpartition(".")[2].lstrip("@")
    if bare == "__len__":
        return length(tensor)
    if bare == "shape" or (bare == "size" and len(arguments) == 1 and not keywords):
        return _shape(tensor)
    if bare == "size":
        return _shape(tensor)[arguments[1] if len(arguments) > 1 else keywords["dim"]]
    check(tensor, bare)
    return None


def mock_words(remote: Any) -> str:
    """Return the words that introduce the mock in the `repr` of a pointer."""
    return "its mock, made up, whose size is its own" if remote._hidden & LENGTHS else "its mock, made up"


class Shape(Sequence[int]):
    """The shape of a private object with some unknown lengths; reading one of those raises PrivateValue."""

    __slots__ = ("_lengths", "_remote")

    def __init__(self, remote: Any, lengths: tuple[int | None, ...]) -> None:
        self._remote = remote
        self._lengths = lengths

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, key: Any) -> Any:
        found = self._lengths[key]
        parts = found if isinstance(found, tuple) else (found,)
        if None in parts:
            first = self._lengths[0] is None and (key == 0 or isinstance(key, slice))
            axis = key % len(self._lengths) if isinstance(key, int) else self._lengths.index(None)
            advice = _ROWS if first else f"{_moved(self._remote, axis)}.get(reason=…)"
            _refuse(self._remote, "this length", advice)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        return tuple(self[:]) == other

    def __hash__(self) -> int:
        return hash(self[:])

    def numel(self) -> int:
        """Raise PrivateValue: the number of items follows from a length that is unknown."""
        _refuse(self._remote, "the number of items", _all_items(self._remote))

    def __repr__(self) -> str:
        return f"({', '.join('?' if one is None else str(one) for one in self._lengths)})"


def hidden_of_asset(mock: Any, detail: str, size_bytes: int) -> int:
    """Return the mask of the asset's sizes that its mock does not show correctly.

    A size counts as known if the mock has the size that the asset's description states. Row labels are data
    and always private.
    """
    summary = values.summarise(mock)
    nested = isinstance(mock, (dict, list, tuple))
    if summary.detail == detail and (not nested or summary.size_bytes == size_bytes):
        return trimmed(LABELS, mock)
    if hasattr(mock, "columns"):
        return ROWS | LABELS  # a mock has the columns of its asset
    ndim = getattr(mock, "ndim", None)
    ours, theirs = (_LENGTHS.search(text) for text in (summary.detail, detail))
    if ndim and ours and theirs and ours[1].split(",")[1:] == theirs[1].split(",")[1:]:
        return trimmed(1 << (ndim - 1) | LABELS, mock)
    return trimmed(EVERY, mock)


def _shape(remote: Any) -> Shape:
    mock = remote.mock
    if not all(_is_hidden(remote, axis) for axis in range(len(mock.shape))):
        _with_mates(remote)
    if remote._hidden == UNCOUNTED:
        check(remote, "ndim")
    lengths = tuple(
        None if _is_hidden(remote, axis) else int(length) for axis, length in enumerate(mock.shape)
    )
    if all(one is None for one in lengths):
        _refuse(remote, "the shape", _ROWS if len(lengths) == 1 else _every_length(remote))
    return Shape(remote, lengths)


def _is_hidden(remote: Any, axis: int) -> bool:
    mock, hidden = remote.mock, remote._hidden
    shape = getattr(mock, "shape", None)
    if hidden == UNCOUNTED or not shape:
        return True
    return bool(hidden >> (len(shape) - 1 - axis) & 1)


def _is_tensor(remote: Any) -> bool:
    return type(remote.mock).__module__.partition(".")[0] == "torch"


def _every_length(remote: Any) -> str:
    return _ROWS if _is_tensor(remote) else "duet.remote(numpy).shape(x), whose parts have .get(reason=…)"


def _moved(remote: Any, axis: int) -> str:
    return f"duet.remote(len)(x.moveaxis({axis}, 0))" if _is_tensor(remote) else f"numpy.shape(x)[{axis}]"


def _all_items(remote: Any) -> str:
    if _is_tensor(remote):
        return "duet.remote(len)(x.ravel()).get(reason=…)"
    is_sized = type(remote.mock).__module__.startswith(("numpy", "pandas"))
    return "numpy.size(x).get(reason=…)" if is_sized else _ROWS


def _refuse(remote: Any, what: str, advice: str) -> NoReturn:
    raise PrivateValue(_words(remote, what, advice))


def _words(remote: Any, what: str, advice: str) -> str:
    return (
        f"{what} of {remote._title()} depends on the data, and its mock has one of its own; ask for it, x "
        f"being this: {advice}"
    )
