"""A mock as a terminal and a notebook show it. The owner made it, so its texts are a peer's words."""

from __future__ import annotations

import html
from typing import Any

from duetlink.duet.objects.preview import preview_text

_LONGEST = 40_000  # characters: more than the 60 rows to which pandas shortens a frame of 20 columns


def text_of(mock: Any, longest: int = _LONGEST) -> str:
    """Its `repr`, shortened, line by line as the library wrote it; control characters are escapes."""
    return preview_text(mock, longest)


def html_of(title: str, mock: Any, longest: int = _LONGEST) -> str:
    """A line of HTML above the library's own HTML of the mock, or above its text where it has none."""
    show = getattr(mock, "_repr_html_", None)
    try:
        body = show() if show is not None else None  # pandas returns None where its options say so
    except Exception:  # of a library's repr; the text says so
        body = None
    if body is None:
        body = f"<pre>{html.escape(text_of(mock, longest))}</pre>"
    return f"<div><em>{html.escape(title)}</em>{body}</div>"
