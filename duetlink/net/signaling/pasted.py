"""Finds the session code in pasted text, which may be a whole line with prompt and quotes."""

from __future__ import annotations

import re

_LONGEST = 64 * 1024  # characters; a text of pairing by hand has a few thousand
_CALL = re.compile(r"\b(?:join|group|accept)\s*\((?P<inside>[^()]*)\)?")
_PROMPT = re.compile(r"^\s*(?:>>>|In\s*\[[0-9 ]*\]:|\$)\s*")
_QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"  # chat programs insert typographic quotes
_QUOTED = re.compile(f"[{_QUOTES}]([^{_QUOTES}]*)[{_QUOTES}]")


def code_in(text: str) -> str:
    """Return the code in a pasted text, without prompt, quotes and a call such as `duetlink.join("…")`.

    Any other text is returned unchanged.
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        return text
    call = _CALL.search(text)
    found = call["inside"] if call is not None else _PROMPT.sub("", text)
    quoted = _QUOTED.search(found)
    return (quoted[1] if quoted is not None else found).strip().strip(_QUOTES).strip()
