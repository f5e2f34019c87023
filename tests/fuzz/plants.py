"""Defects that are put back in a child process, to show that the fuzzer finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _nothing(*arguments: Any) -> None:
    """In place of a check."""


def _fields() -> None:
    from duetlink.data.values import dtype

    dtype.check_field = _nothing  # type: ignore[assignment]


def _items() -> None:
    from duetlink.data.values import reach

    reach.check = _nothing  # type: ignore[assignment]


def _views() -> None:
    from duetlink.data.values import arrow_views

    arrow_views.check_slots = _nothing  # type: ignore[assignment]


PLANTS: dict[str, Callable[[], None]] = {"fields": _fields, "items": _items, "views": _views}


def plant(name: str) -> None:
    """Leave out the check of that name in this process; nothing for an empty one."""
    if name:
        PLANTS[name]()
