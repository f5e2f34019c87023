"""Text and HTML of a mock for terminals and notebooks. Its texts come from the peer and are escaped."""

from __future__ import annotations

import html
from typing import Any

from duetlink.duet.objects.preview import preview_text

_LONGEST = 40_000  # characters: more than the 60 rows to which pandas shortens a frame of 20 columns


def text_of(mock: Any, longest: int = _LONGEST) -> str:
    """Return the `repr` of a mock, shortened to `longest` characters, with control characters escaped."""
    return preview_text(mock, longest)


def html_of(title: str, mock: Any, longest: int = _LONGEST) -> str:
    """Return the title above the library's own HTML of the mock, or above its text if it has no HTML."""
    show = getattr(mock, "_repr_html_", None)
    try:
        body = show() if show is not None else None  # pandas returns None where its options say so
    except Exception:  # raised by the library's repr; the text shows the error
        body = None
    if body is None:
        body = f"<pre>{html.escape(text_of(mock, longest))}</pre>"
    return f"<div><em>{html.escape(title)}</em>{body}</div>"
