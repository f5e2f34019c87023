"""The table of a duet that follows it: state, path, rates, round trip, pending requests."""

from __future__ import annotations

import threading

import ipywidgets

from duetlink import Duet

REFRESH_S = 1.0


class LiveTable(ipywidgets.HTML):  # type: ignore[misc] # ipywidgets has no type information
    """Shows `duet` and is refreshed about once a second until the duet or this widget is closed.

    One thread writes, and writes only what has changed: an idle duet sends nothing. The page holds what
    `repr` of the duet holds: no session code once the peer is connected. What the peer says is escaped.
    """

    def __init__(self, duet: Duet) -> None:
        super().__init__(duet._repr_html_())
        self._duet = duet
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="duetlink-live-table", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following, and remove the widget from the page."""
        self._ended.set()
        super().close()

    def _follow(self) -> None:
        closed, shown = False, ""
        while not closed and not self._ended.wait(REFRESH_S):
            closed = self._duet.state.startswith("closed")  # asked first: the last page must show it
            page = self._duet._repr_html_()
            if page != shown and not self._ended.is_set():
                self.value = shown = page
