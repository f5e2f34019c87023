"""The panel of a duet or of a group: one widget for all cells and pages that show it."""

from __future__ import annotations

import contextlib
import html
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display, update_display

from duetlink import Duet
from duetlink.duet.display import Table
from duetlink.groups.api.group import Group
from duetlink_widgets.feed import Feed
from duetlink_widgets.group_feed import GroupFeed

_BUNDLE = Path(__file__).parent / "static" / "panel.js"
if not _BUNDLE.exists():
    raise FileNotFoundError(f"{_BUNDLE} is not built; run `make js` in the project, or install a wheel")


# A separate output, since JupyterLab prefers a widget to a table even if the widget no longer exists. The
# first two rules hide it while the panel is on the page, the third hides "model not found" above it.
_KEPT = """<div class="duetlink-kept" data-panel="{key}">{table}</div><style>
body:has(.duetlink-panel[data-key="{key}"]) .duetlink-kept[data-panel="{key}"],
body:has(.duetlink-panel[data-key="{key}"]) .jp-OutputArea-child:has(.duetlink-kept[data-panel="{key}"]),
.jp-OutputArea-child:has(.jupyter-widgets):not(:has(.duetlink-panel)):has(
  + .jp-OutputArea-child .duetlink-kept[data-panel="{key}"]) {{ display: none; }}
</style>"""


class Panel(anywidget.AnyWidget):
    """Shows a duet or a group live, and takes clicks. Only the feed's thread writes its traits.

    Below it is a table of the state, updated when the state changes and hidden while the panel is visible: a
    saved notebook shows this table. Neither a trait nor the table contains the session code.
    """

    _esm = _BUNDLE

    kind = traitlets.Unicode().tag(sync=True)  # "duet", "group"
    key = traitlets.Unicode().tag(sync=True)  # the page finds the tables of this panel by it
    link = traitlets.Dict().tag(sync=True)
    tuning = traitlets.Dict().tag(sync=True)
    requests = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    shared = traitlets.Dict().tag(sync=True)
    transfers = traitlets.Dict().tag(sync=True)
    group = traitlets.Dict().tag(sync=True)

    def __init__(self, shown: Duet | Group) -> None:
        kind = "duet" if isinstance(shown, Duet) else "group"
        super().__init__(kind=kind, key=secrets.token_hex(8))
        _answer_where_asked(self.comm)
        self._shown = shown
        self._displays: list[str] = []
        self._shown_state = ""
        self._feed = Feed(shown, self) if isinstance(shown, Duet) else GroupFeed(shown, self)
        self.on_msg(self._heard)

    def display(self) -> None:
        """Show it below the running cell."""
        self._shown_state = _state(self._shown)
        display(self._view(), raw=True)  # type: ignore[no-untyped-call]
        handle = display(self._table(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        if handle is not None:
            self._displays.append(handle.display_id)

    def close(self) -> None:
        """Remove it from every page, and stop following."""
        self._feed.close()
        super().close()

    def publish(self, states: Mapping[str, dict[str, Any]]) -> None:
        """Set traits; called by the feed, on its thread."""
        with self.hold_sync():
            for name, state in states.items():
                setattr(self, name, state)
        if self._displays and _state(self._shown) != self._shown_state:
            self._renew_tables()

    def say(self, message: dict[str, Any], buffer: bytes | None = None) -> None:
        """Send a message to the pages; called by the feed, on its thread."""
        self.send(message, None if buffer is None else [buffer])

    def _heard(self, widget: object, message: object, buffers: object) -> None:
        if isinstance(message, dict):
            self._feed.heard(message)

    def _renew_tables(self) -> None:
        """Update the tables that a saved notebook shows."""
        self._shown_state = _state(self._shown)
        for display_id in self._displays:
            update_display(self._table(), raw=True, display_id=display_id)  # type: ignore[no-untyped-call]

    def _view(self) -> dict[str, Any]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        # nbconvert needs a text for every output; the table below has it
        return {"application/vnd.jupyter.widget-view+json": view, "text/plain": ""}

    def _table(self) -> dict[str, Any]:
        page, text = _table_of(self._shown)
        return {"text/html": _KEPT.format(key=self.key, table=page), "text/plain": text}

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._view() | self._table(), {}


def _table_of(shown: Duet | Group) -> tuple[str, str]:
    if isinstance(shown, Duet):
        table: Table = shown.table()
        return table._repr_html_(), repr(table)
    words, members = repr(shown), shown.members
    return f"<div>{html.escape(words)}</div>{members._repr_html_()}", f"{words}\n{members!r}"


def _state(shown: Duet | Group) -> str:
    """Return the state without its reason, such as `connected`; for a group with its epoch and size."""
    state = shown.state.partition(":")[0]
    return state if isinstance(shown, Duet) else f"{state} {shown.epoch} {shown.size}"


def _answer_where_asked(comm: Any) -> None:
    """Let clicks arrive on the subshell that the page chose, also while a cell runs.

    ipykernel 7.4 sends the next message of a comm to the shell of the last message that it sent: for a thread
    that writes in the background, the main shell, where clicks wait for the running cell.
    """
    if hasattr(comm, "_reply_subshell_for"):
        with contextlib.suppress(AttributeError):
            comm._reply_subshell_for = None
