"""Panels of real duets whose comm is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import comm
import pytest

from duetlink.duet.duet import Duet
from duetlink_widgets.panel import Panel
from tests.widgets.recording import Recording, recording_comm

ShowPanel = Callable[[Duet], Recording]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Iterator[ShowPanel]:
    """Makes the panel of a duet, recorded."""
    made: list[Panel] = []

    def show_panel(duet: Duet) -> Recording:
        recording = Recording()
        monkeypatch.setattr(comm, "create_comm", recording_comm(recording))
        recording.panel = Panel(duet)
        made.append(recording.panel)
        return recording

    yield show_panel
    for panel in made:
        panel.close()
