"""Tells from the bytes of a CSV file whether Arrow reads its numbers exactly as a cast from text does.

Theory. Arrow converts items much faster than an engine casts texts, but it accepts more: spaces and tabs
around a number, `0x1F`, leading zeros without end; and for floating point `+1.5`, exponents of three digits,
`nan` and `inf`. What it refuses is an error, so only what it accepts has to be looked for. Each of these
leaves a trace that a search of memory finds without parsing: a space at the border of an item, a `+` or `0x`
at its beginning, 19 digits in a row. NumPy looks closer where one is found. (`nan` and `inf` are seen in the
result.)

A place is within quotes if the number of quotes before it is odd. That holds as long as each quote stands
where RFC 4180 allows one, which is checked, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

AT_ONCE = 1 << 20  # bytes of a window; they stay in the CPU's cache while they are searched
_OVERLAP = 512  # bytes that a window shares with the next one; twice what a number may have
_EDGE = 8  # bytes at both ends of a window that are looked at in its neighbour, with what is beside them
_MOST_WHOLE, _MOST_PART = 18, 200  # digits in a row that a cast accepts: `data/prep/conversion.py`
_AROUND_16 = np.array([-3, -2, -1, 16, 17, 18])  # of 16 digits; three in a row here make 19
_ZERO, _POINT = b"0."
_TOP_HALVES, _TOPS_OF_DIGITS = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x3030303030303030)


def _among(characters: bytes) -> Any:
    found = np.zeros(256, dtype=bool)
    found[list(characters)] = True
    return found


_BORDERS, _QUOTES = _among(b',\r\n"'), _among(b'"')
_DIGITS, _MANTISSA, _SIGNS = _among(b"0123456789"), _among(b"0123456789."), _among(b"+-")


def begins_with_quotes(path: Path) -> bool:
    """Return True if there is a quote in the first MB of a file."""
    with path.open("rb") as file:
        return b'"' in file.read(AT_ONCE)


def quotes_of_plain(path: Path, *, whole: bool, floats: bool) -> int | None:
    """Return the number of quotes in a file if Arrow reads each number as a cast does, or refuses it.

    Else return None, also if it is a text that has such a trace, or if a quote is never closed. `whole` and
    `floats` say whether columns are read as integers and as floating point. NaN and infinities are not
    looked for.
    """
    new = min(AT_ONCE, path.stat().st_size + _EDGE)
    room = bytearray(b"\n" * (_OVERLAP + new + -new % 8))
    rest, quotes = memoryview(room)[_OVERLAP:], 0
    with path.open("rb") as file:
        if file.read(3) != b"\xef\xbb\xbf":  # a byte order mark
            file.seek(0)
        size = -1
        while size:  # the last window is the end of the file and nothing else
            size = file.readinto(rest)
            if size < len(rest):
                rest[size:] = b"\n" * (len(rest) - size)
            quotes += room.count(b'"', _OVERLAP) if b'"' in room else 0
            if not _Window(room, quotes).plain(whole=whole, floats=floats):
                return None
            room[:_OVERLAP] = room[-_OVERLAP:]
    return quotes if quotes % 2 == 0 else None


class _Window:
    """Some bytes of a file, with the number of quotes in it up to their end."""

    def __init__(self, room: bytearray, quotes: int) -> None:
        self._room = room
        self._bytes = np.frombuffer(room, np.uint8)
        self._quotes = self._places(b'"')
        # before the first of them
        self._before = quotes - room.count(b'"', _EDGE) if b'"' in room else quotes

    def plain(self, *, whole: bool, floats: bool) -> bool:
        return not (
            self._has_odd_quotes()
            or self._has_spaces()
            or (whole and self._has_hexadecimals())
            or (floats and (self._has_plus() or self._has_long_exponents()))
            or self._has_long_numbers(_MOST_WHOLE if whole else _MOST_PART)
        )

    def _places(self, characters: bytes) -> Any:
        """Return where one of these characters is, except at the edges."""
        found = [character for character in characters if character in self._room]
        inner = self._bytes[_EDGE:-_EDGE]
        masks = [inner == character for character in found]
        return np.flatnonzero(np.logical_or.reduce(masks)) + _EDGE if masks else np.empty(0, np.intp)

    def _inside(self, places: Any) -> Any:
        return (np.searchsorted(self._quotes, places) + self._before) % 2 == 1

    def _any_at_border(self, places: Any, *beside: int) -> bool:
        """Return True if an item begins or ends at a byte beside one of the places."""
        if not len(places):  # as in most windows
            return False
        inside = self._inside(places)
        neighbours = self._bytes[places[:, None] + beside]
        return bool(np.where(inside[:, None], _QUOTES[neighbours], _BORDERS[neighbours]).any())

    def _has_odd_quotes(self) -> bool:
        places = self._quotes
        if not len(places):
            return False
        closing = self._inside(places)
        beside = self._bytes[np.where(closing, places + 1, places - 1)]
        return not bool(_BORDERS[beside].all())

    def _has_spaces(self) -> bool:
        return self._any_at_border(self._places(b" \t"), -1, 1)

    def _has_hexadecimals(self) -> bool:
        places = self._places(b"xX")
        return self._any_at_border(places[self._bytes[places - 1] == _ZERO], -2)

    def _has_plus(self) -> bool:
        return self._any_at_border(self._places(b"+"), -1)

    def _has_long_exponents(self) -> bool:
        places = self._places(b"eE")
        places = places[_MANTISSA[self._bytes[places - 1]]]
        places = places + _SIGNS[self._bytes[places + 1]]
        return bool(np.all([_DIGITS[self._bytes[places + n]] for n in (1, 2, 3)], axis=0).any())

    def _has_long_numbers(self, most: int) -> bool:
        """Return whether a number has more than `most` digits in a row, or more than 200 behind a point."""
        # 19 digits in a row fill a word of eight bytes, which few numbers do, and four words of four bytes.
        # The characters : ; < = > ? pass for digits here, but are not in numbers nor beside them.
        eight = np.frombuffer(self._room, np.uint64) & _TOP_HALVES == _TOPS_OF_DIGITS
        if not eight.any():
            return False
        full = np.frombuffer(self._room, np.uint32) & 0xF0F0F0F0 == 0x30303030
        four = full[:-3] & full[1:-2] & full[2:-1] & full[3:]
        if not four.any():
            return False
        four[1:] &= ~four[:-1]  # only the first of a run
        places = 4 * np.flatnonzero(four[1:-1]) + 4
        digits = _DIGITS[self._bytes[places[:, None] + _AROUND_16]]
        for place in places[(digits[:, :-2] & digits[:, 1:-1] & digits[:, 2:]).any(axis=1)]:
            start = int(place)
            while start and self._room[start - 1 : start].isdigit():
                start -= 1
            limit = _MOST_PART if self._room[start - 1] == _POINT else most
            run = self._room[start : start + limit + 1]
            if start and len(run) > limit and run.isdigit():  # else the window before has seen it
                return True
        return False
