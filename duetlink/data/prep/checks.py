"""Validate the arguments of a step: each function returns the valid value or raises SettingError."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from duetlink.errors import SettingError

MAX_NAME = 200  # characters of a column's name or of a category
MAX_COLUMNS = 20_000  # columns that a step may name
MAX_CATEGORIES = 4_096

Number = int | float


def settle(step: object, name: str, value: object) -> None:
    """Set a field of a frozen step that is being made."""
    object.__setattr__(step, name, value)


def column_name(name: Any) -> str:
    if type(name) is str and name == "":
        raise SettingError("a column's name is empty")
    return short_text(name, "a column's name")


def column_names(names: Any, *, fewest: int = 1) -> tuple[str, ...]:
    found = distinct_texts(names, "columns", most=MAX_COLUMNS)
    if len(found) < fewest:
        raise SettingError("no column is named")
    for name in found:
        column_name(name)
    return found


def distinct_texts(values: Any, what: str, *, most: int) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SettingError(f"the {what} are a list of texts")
    found = tuple(values)
    if len(found) > most:
        raise SettingError(f"there are {len(found):,} {what}, and there may be {most:,}")
    for text in found:
        short_text(text, f"one of the {what}")
    if len(set(found)) != len(found):
        raise SettingError(f"one of the {what} occurs twice")
    return found


def short_text(text: Any, what: str) -> str:
    if type(text) is not str:
        raise SettingError(f"{what} is a text, not {type(text).__name__}")
    if len(text) > MAX_NAME:
        raise SettingError(f"{what} has {len(text):,} characters, and may have {MAX_NAME}")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise SettingError(f"{what} has control characters, or is not valid Unicode: {text!r}")
    return text


def finite(value: Any, what: str) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(f"{what} is a number, not {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingError(f"{what} is {value!r}, and should be finite")
    return value


def choice(value: Any, choices: Sequence[str], what: str) -> None:
    if value not in choices:
        raise SettingError(f"{what} is {' or '.join(map(repr, choices))}, not {value!r}")
