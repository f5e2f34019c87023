"""Make texts of the peer safe to print, since in a terminal a control character is a command; limit names."""

from __future__ import annotations

import unicodedata

MAX_NAME = 200  # characters of the name that a side gives an asset, a result, a policy or a port


def harmless(text: str) -> str:
    """Return `text` on one line, with control and direction characters written as escapes."""
    if text.isprintable():  # has no control, format or separator characters except the space
        return text
    return "".join(
        character
        if character == " " or unicodedata.category(character)[0] not in "CZ"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def harmless_lines(text: str) -> str:
    """Return `text` with each line made harmless; lines stay separate."""
    return "\n".join(harmless(line.expandtabs(4)) for line in text.split("\n"))
