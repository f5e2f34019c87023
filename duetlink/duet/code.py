"""Python source that the peer sent or that was made from its steps, displayed with colours and never
executed.
"""

from __future__ import annotations

import html

from duetlink.base.wire.text import harmless_lines

# wrap long lines, so that nothing is hidden at the right
_WRAPPED = "white-space:pre-wrap;overflow-wrap:anywhere"


class Code:
    """Source text. Displaying it does not run it."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __str__(self) -> str:
        return harmless_lines(self.source)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        text = str(self)
        try:
            from pygments import highlight
            from pygments.formatters import HtmlFormatter
            from pygments.lexers import PythonLexer
        except ImportError:
            return f'<pre style="{_WRAPPED}">{html.escape(text)}</pre>'
        # inline styles: classes would need a style sheet, which notebooks strip
        style = HtmlFormatter(
            noclasses=True, nobackground=True, prestyles=f"font-family:monospace;{_WRAPPED}"
        )
        coloured: str = highlight(text, PythonLexer(), style)
        return coloured
