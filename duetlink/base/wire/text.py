"""Texts of the peer, as they may be printed: in a terminal a control character is a command."""

from __future__ import annotations

import unicodedata


def harmless(text: str) -> str:
    """`text` on one line, with control and direction characters written as escapes."""
    if text.isprintable():  # all categories but these, and the space
        return text
    return "".join(
        character
        if character == " " or unicodedata.category(character)[0] not in "CZ"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def harmless_lines(text: str) -> str:
    """The same of each line; lines stay lines."""
    return "\n".join(harmless(line.expandtabs(4)) for line in text.split("\n"))
