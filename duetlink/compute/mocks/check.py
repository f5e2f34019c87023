"""Inspects a mock that the owner wrote by hand: does it have the object's schema, and is it not the
data itself?
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from duetlink.compute.mocks.base import MockBuilder, Span
from duetlink.compute.mocks.registry import builder_of, is_known, unsupported
from duetlink.errors import SettingError

_MAX_LISTED = 6


def check(obj: object, mock: object) -> None:
    """Return if `mock` may be shown in place of `obj`; raise if it may not.

    It must have the same type, dtypes, column names and number of dimensions. Texts of fixed width may differ
    in width, and categories in their values. It must be another object, share no memory with `obj`, and hold
    neither the same values nor the same first rows. Copies of other rows are not found.

    For objects of libraries that are unknown here, only type and identity are compared.

    Raises:
        SettingError: the mock may not be used; the message says why, and what to do.
    """
    try:
        differences = list(_differences(obj, mock))
        mistake = "" if differences else _mistake(obj, mock)
    except RecursionError:
        raise unsupported(obj, "it contains itself, or is nested too deep") from None
    if differences:
        more = f"; and {len(differences) - _MAX_LISTED} more" if len(differences) > _MAX_LISTED else ""
        raise SettingError(
            f"the mock does not fit the object: {'; '.join(differences[:_MAX_LISTED])}{more}. Code that "
            'runs on the mock would fail on the data; change the mock, or have one made with mock="auto"'
        )
    if mistake:
        raise SettingError(
            f"the mock {mistake}, and would show the data to the other side; give invented values, or have "
            'them made with mock="auto"'
        )


def _differences(obj: Any, mock: Any, path: str = "") -> Iterator[str]:
    if _plain_type(obj) is not _plain_type(mock):
        yield f"{path}the object is a {_name(obj)}, the mock a {_name(mock)}"
        return
    if not is_known(obj):
        return
    for difference in builder_of(obj).differences(obj, mock):
        yield f"{path}{difference}"
    ours, theirs = _members(obj) or {}, _members(mock) or {}
    if list(ours) == list(theirs):
        for name in ours:
            yield from _differences(ours[name], theirs[name], f"{path}[{name!r}] ")


def _mistake(obj: Any, mock: Any) -> str:
    """Return the mistake as a predicate of "the mock …"; empty if there is none."""
    if not is_known(obj):
        return "is the object itself" if obj is mock else ""
    if obj is mock and (_held(obj) or builder_of(obj).rows(obj)):
        return "is the object itself"
    shared = _shared(list(_spans(obj)), list(_spans(mock)))
    if shared:
        return f"shares memory with the object ({shared})"
    return _copied(obj, mock, "")


def _spans(obj: Any, path: str = "") -> Iterator[Span]:
    if is_known(obj) and builder_of(obj).rows(obj) != 0:  # an empty slice may point into the whole memory
        for span in builder_of(obj).memory(obj):
            yield span._replace(part=f"{path}{span.part}")
    for name, part in _held(obj).items():
        yield from _spans(part, f"{path}[{name!r}] ")


def _shared(ours: list[Span], theirs: list[Span]) -> str:
    """Return the name of the part of `ours` that overlaps a span of `theirs`; empty if there is none."""
    events = [(span.start, span.stop, True, span.part) for span in ours]
    events += [(span.start, span.stop, False, span.part) for span in theirs]
    reach = {True: (0, ""), False: (0, "")}  # of each side: the end of its memory so far, and the part there
    for start, stop, is_ours, part in sorted(events):
        end, other = reach[not is_ours]
        if start < end:
            return part if is_ours else other
        reach[is_ours] = max(reach[is_ours], (stop, part))
    return ""


def _copied(obj: Any, mock: Any, path: str) -> str:
    where = f" ({path.strip()})" if path else ""
    if not is_known(obj) or type(obj) is not type(mock):
        return ""
    ours, theirs = _held(obj), _held(mock)
    if ours:
        found = (_copied(ours[name], theirs[name], f"{path}[{name!r}] ") for name in ours if name in theirs)
        return next(filter(None, found), "")
    handler = builder_of(obj)
    if handler.is_ordinary(mock):
        return ""
    rows, mocked = handler.rows(obj), handler.rows(mock)
    if rows is None or mocked is None:
        return f"has the object's own value{where}" if handler.equal(obj, mock) else ""
    if not 0 < mocked <= rows or not handler.equal(handler.part(obj, 0, mocked), mock):
        return ""
    if mocked == rows:
        return f"has the object's own values{where}"
    # constant rows, such as zeros, are probably invented
    return (
        "" if mocked < 2 or _is_constant(handler, mock, mocked) else f"has the object's own first rows{where}"
    )


def _is_constant(handler: MockBuilder, mock: Any, rows: int) -> bool:
    return handler.equal(handler.part(mock, 1, rows), handler.part(mock, 0, rows - 1))


def _members(obj: Any) -> Mapping[Hashable, Any] | None:
    from duetlink.compute.mocks.builtins_ import members  # loads NumPy

    return members(obj)


def _held(obj: Any) -> Mapping[Hashable, Any]:
    from duetlink.compute.mocks.builtins_ import held

    return held(obj)


def _plain_type(obj: Any) -> type:
    type_ = type(obj)
    return type_.__bases__[0] if type_.__module__ == "numpy" and type_.__name__ == "memmap" else type_


def _name(obj: Any) -> str:
    type_ = type(obj)
    return (
        type_.__qualname__ if type_.__module__ == "builtins" else f"{type_.__module__}.{type_.__qualname__}"
    )
