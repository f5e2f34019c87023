"""Panels of real duets whose comm is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import comm
import pytest

from duetlink.duet.duet import Duet
from duetlink.groups.api.group import Group
from duetlink_widgets.panel import Panel
from tests.widgets.recording import Recording, recording_comm

ShowPanel = Callable[[Duet | Group], Recording]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Iterator[ShowPanel]:
    """Makes the panel of a duet or a group, recorded."""
    made: list[Panel] = []

    def show_panel(shown: Duet | Group) -> Recording:
        recording = Recording()
        monkeypatch.setattr(comm, "create_comm", recording_comm(recording))
        recording.panel = Panel(shown)
        made.append(recording.panel)
        return recording

    yield show_panel
    for panel in made:
        panel.close()
