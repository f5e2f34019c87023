"""Strict reading of a JSON object: every field is of its type, and none is left over."""

from __future__ import annotations

import datetime
from typing import Any, TypeVar

T = TypeVar("T")


class Fields:
    """The fields of one object; each can be taken once. All methods raise ValueError for what is not as it
    was written.
    """

    def __init__(self, record: object) -> None:
        if not isinstance(record, dict):
            raise ValueError(f"an object was expected, not a {type(record).__name__}")
        self._left = dict(record)

    def text(self, name: str) -> str:
        return self._take(name, str)

    def whole(self, name: str) -> int:
        """A whole number from 0 on."""
        number = self._take(name, int)
        if number < 0:
            raise ValueError(f"{name} is negative")
        return number

    def whole_or_none(self, name: str) -> int | None:
        return None if self._is_null(name) else self.whole(name)

    def flag(self, name: str) -> bool:
        return self._take(name, bool)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(texts(name, self._take(name, list)))

    def texts_or_none(self, name: str) -> tuple[str, ...] | None:
        return None if self._is_null(name) else self.texts(name)

    def has(self, name: str) -> bool:
        """Whether it was written: earlier versions wrote fewer fields."""
        return name in self._left

    def moment(self, name: str) -> datetime.datetime:
        return moment(self.text(name))

    def moment_or_none(self, name: str) -> datetime.datetime | None:
        return None if self._is_null(name) else self.moment(name)

    def items(self, name: str) -> list[Any]:
        return self._take(name, list)

    def inner(self, name: str) -> Any:
        """Of any type: for whoever reads it."""
        if name not in self._left:
            raise ValueError(f"{name} is missing")
        return self._left.pop(name)

    def end(self) -> None:
        """Nothing else was written."""
        if self._left:
            raise ValueError(f"it has unknown fields: {', '.join(sorted(self._left))[:200]}")

    def _is_null(self, name: str) -> bool:
        if self._left.get(name, 0) is not None:
            return False
        del self._left[name]
        return True

    def _take(self, name: str, kind: type[T]) -> T:
        value = self.inner(name)
        if type(value) is not kind:  # bool is an int to isinstance
            raise ValueError(f"{name} is a {type(value).__name__}")
        return value


def texts(name: str, items: list[Any]) -> list[str]:
    if not all(type(item) is str for item in items):
        raise ValueError(f"{name} are not all texts")
    return items


def moment(text: str) -> datetime.datetime:
    """A moment as `isoformat` wrote it, with its time zone."""
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a moment without a time zone")
    return found
