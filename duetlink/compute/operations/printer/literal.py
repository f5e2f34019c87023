"""Prints texts and numbers of the peer's as Python literals that cannot be mistaken for anything else."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

MAX_SHOWN = 60  # characters of a text
_LONG_NUMBER = 40  # digits

# Right-to-left characters: they move the quotes and commas around them, even without control characters.
_RIGHT_TO_LEFT = frozenset(("R", "AL", "AN"))
# Letters and signs that are invisible
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
# Greek and Cyrillic letters that look like no ASCII letter: words with one are shown as they are. A letter
# that is missing here is shown as a code.
_DISTINCT = frozenset("вджзйлнтфцщэюяБГДЖЙЛПФЦЩЭЮЯδλξπφψΓΔΛΞΠΣΦΨΩ")
_LATIN = frozenset("ßÆæØøŒœÐðÞþĐđŁł")  # Latin letters that are no accented ASCII letter
_BEYOND_ASCII = re.compile(r"[^\W\d_]+|[^\x00-\x7f]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def harmless(text: str) -> str:
    """Return the text on one line, with escapes for characters that are invisible or that move others."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, " " + text, text))


def literal(value: Any) -> str:
    """Return a JSON text, number, true, false or null as Python. Long ones are cut and say so,
    outside the quotes.
    """
    if isinstance(value, str):
        if len(value) <= MAX_SHOWN:
            return quoted(value)
        return f"{quoted(value[:MAX_SHOWN])} + characters({len(value) - MAX_SHOWN:,})".replace(",", "_")
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int):
        digits = repr(value)
        return digits if len(digits) <= _LONG_NUMBER else f"int({literal(digits)})"
    number = repr(float(value))
    return number if number[-1] not in "fn" else f'float("{number}")'


def quoted(text: str) -> str:
    """Return the text in double quotes, escaped."""
    escaped = (
        _ESCAPES.get(character) or _shown(before, character)
        for before, character in zip(" " + text, text, strict=False)
    )
    return marked(f'"{"".join(escaped)}"')


def marked(text: str) -> str:
    r"""Return the text with codes, such as \u0430, for characters that could be mistaken for others.

    These are letters that look like ASCII ones, marks that combine with the character before, and other forms
    of the same sign. Accented letters, wide letters such as Chinese ones, and words that are plainly Greek or
    Russian stay as they are.
    """
    return text if text.isascii() else _BEYOND_ASCII.sub(_marked_word, text)


def _marked_word(found: re.Match[str]) -> str:
    word = found[0]
    others = [letter for letter in word if not _is_plain(letter)]
    if not others:
        return word
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
    if len(scripts) == 1 and not _DISTINCT.isdisjoint(word):
        return word
    return "".join(letter if _is_plain(letter) else _code(letter) for letter in word)


def _is_plain(letter: str) -> bool:
    """Return True if a letter cannot be mistaken for another one, in any context."""
    if letter.isascii() or letter in _LATIN or unicodedata.east_asian_width(letter) == "W":
        return unicodedata.category(letter)[0] != "M"
    if unicodedata.category(letter)[0] in "PS":
        return unicodedata.normalize("NFKC", letter) == letter
    parts = unicodedata.normalize("NFD", letter)
    return len(parts) > 1 and parts[0].isascii() and unicodedata.normalize("NFC", letter) == letter


def _shown(before: str, character: str) -> str:
    if " " <= character <= "~":
        return character
    category = unicodedata.category(character)
    if (
        not character.isprintable()
        or character in _BLANK
        or unicodedata.bidirectional(character) in _RIGHT_TO_LEFT
        # a mark that would combine with a character other than a letter
        or (category in ("Mn", "Me") and not (category == "Mn" and before.isalpha()))
    ):
        return _code(character)
    return character


def _code(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
