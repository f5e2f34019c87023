"""The live table without a kernel: what it shows, and that it ends."""

from __future__ import annotations

import threading

import pytest

import duetlink
from duetlink_widgets import LiveTable, live_table


@pytest.fixture(autouse=True)
def refresh_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_table, "REFRESH_S", 0.01)


def test_it_follows_the_duet_to_its_end_and_stops() -> None:
    owner = duetlink.launch()
    table = LiveTable(owner)
    assert "waiting" in table.value
    assert str(owner.code) in table.value
    scientist = duetlink.join(str(owner.code), name="<b>Sven</b>")
    owner.wait_connected(10)
    while "connected" not in table.value:
        threading.Event().wait(0.01)
    assert "&lt;b&gt;Sven" in table.value
    assert str(owner.code) not in table.value
    scientist.close("lunch")
    table._thread.join(10)
    assert not table._thread.is_alive()
    assert "the peer closed the link: lunch" in table.value
    owner.close()
    table.close()


def test_a_closed_table_stops_following() -> None:
    with duetlink.launch() as owner:
        table = LiveTable(owner)
        table.close()
        table._thread.join(10)
        assert not table._thread.is_alive()
