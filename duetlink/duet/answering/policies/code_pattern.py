"""Patterns for the code of a lineage, in which the peer chooses every constant.

In `fnmatch`, `*` matches any text: `ages.*.mean()` would also match `ages.max() + ages.mean()`, and
`*.mean()*` a string constant that contains `.mean()`. Here a wildcard matches only characters within one
name, number or string, so that it cannot hide a call, operator, subscript or comment.
"""

from __future__ import annotations

import functools
import re

_ONE = r"(?:[\w:-]|(?<=\d)\.(?=\d))"
# Words by which the shown code says that it leaves something out; see `operations/printer`.
# If a string constant of the peer's contains them, the code counts as incomplete, which is safe.
_NOT_ALL = (
    *("further steps are not shown", "sent by the peer", "in place of", "another one in each round"),
    *("characters(", "items(", "malformed(", "undefined", "it may have done a part", "one of several steps"),
)


def is_whole(code: str) -> bool:
    """Return True if the code shows everything: two programs with this code cannot differ in anything left
    out.
    """
    return not any(words in code for words in _NOT_ALL)


def code_fits(code: str, pattern: str) -> bool:
    """Return True if all of `code` matches. `*`, `?` and `[!…]` match letters, digits, `_`, `-`, `:`, and the
    decimal point of a number; `[…]` matches one of the characters listed in it.
    """
    return _compiled(pattern).fullmatch(code) is not None


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        # a closing bracket in first place is an ordinary character, as in fnmatch
        end = pattern.find("]", position + 1 + (pattern[position : position + 1] == "!"))
        if character == "[" and end >= 0:
            parts.append(_one_of(pattern[position:end]))
            position = end + 1
        else:
            parts.append({"*": f"{_ONE}*", "?": _ONE}.get(character) or re.escape(character))
    return re.compile("".join(parts))


def _one_of(characters: str) -> str:
    excluded = characters.startswith("!")
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", characters.removeprefix("!"))
    return f"(?![{inner}]){_ONE}" if excluded else f"[{inner}]"
