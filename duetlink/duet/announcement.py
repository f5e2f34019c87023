"""The texts that `launch` and `join` show: the session code in one line to send, in a notebook or
a terminal.
"""

from __future__ import annotations

import contextlib
import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from duetlink.base.wire.text import harmless
from duetlink.errors import PanelUnavailable
from duetlink.panel import in_notebook

if TYPE_CHECKING:
    from duetlink.duet.duet import Duet


def show_code(duet: Duet) -> None:
    """Show the code of a waiting duet. In a notebook the panel shows it, so that no code is saved in the
    file.
    """
    if in_notebook():
        with contextlib.suppress(PanelUnavailable):
            duet.panel()
            return
    code = duet.code or ""
    line = f"duet = duetlink.join('{code}')"  # single quotes, so that it can be pasted between double quotes
    if code.startswith("duet1:"):
        after = "It answers with a text of its own: give that to duet.accept(…) here."
    else:
        after = "It works once. None of your data leaves without your approval."
    show_text(f"Send this line to the one person who may join:\n\n    {line}\n\n{after}", code=line)


def show_joined(duet: Duet) -> None:
    """Show the panel of a connected duet, in a notebook."""
    if in_notebook():
        with contextlib.suppress(PanelUnavailable):
            duet.panel()


def show_answer(answer: str) -> None:
    """Show the text that the scientist sends to the owner, in pairing by hand."""
    line = f'duet.accept("{answer}")'
    show_text(f"Send this line to the owner, who runs it:\n\n    {line}\n", code=line)


def show_disconnected(peers: Sequence[str], call: str) -> None:
    """Print which peers were disconnected because this cell was run again, and how `call` avoids it."""
    if peers:
        names = " and ".join(harmless(peer) for peer in peers)
        print(
            f"{names} {'was' if len(peers) == 1 else 'were'} disconnected, because this cell was run again. "
            f"{call}(…, keep=True) opens a second duet next to the first and disconnects no one."
        )


def show_others(count: int) -> None:
    """Print how many other duets are open, since they may have been forgotten."""
    if count > 0:
        print(f"{count} other {'duet is' if count == 1 else 'duets are'} open; see duetlink.duets")


def show_text(text: str, code: str) -> None:
    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    before, after = (html.escape(part.strip()) for part in text.split(code))
    page = (
        f'<div>{before}<pre style="font-size:1.3em;user-select:all;white-space:pre-wrap;'
        f'overflow-wrap:anywhere">{html.escape(code)}</pre>{after}</div>'
    )
    display({"text/html": page, "text/plain": text}, raw=True)  # type: ignore[no-untyped-call]
