"""The lesson 10-gossip, played in a real kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duetlink.tools.demo.player import Player

LESSON = Path(__file__).resolve().parents[2] / "notebooks/10-gossip/gossip.ipynb"


@pytest.mark.slow
async def test_sixteen_learn_in_one_notebook_through_loss_death_and_sleep() -> None:
    player = Player(LESSON, lambda player, step: None)
    assert all(not cell.get("outputs") for cell in player.notebook.cells)
    try:
        # several kernels share few cores, and torch's threads wait for each other by spinning
        await player.start({"OMP_NUM_THREADS": "1"})
        await player.play()
    finally:
        await player.stop()
    outputs = [output for cell in player.notebook.cells for output in cell.get("outputs", [])]
    said = "".join(output.get("text", "") for output in outputs)
    rows = re.findall(
        r"^(\d+)% lost: (\d+)% received, (\d+) ms a round, accuracy ([\d.]+)%$", said, re.MULTILINE
    )
    lost, received, took_ms, reached = ([float(row[column]) for row in rows] for column in range(4))
    assert lost == [0, 20, 40, 70]
    assert received == pytest.approx([100, 80, 60, 30], abs=8)
    # of what is simulated, no time is the machine's
    assert max(took_ms[:3]) < 1.3 * took_ms[0]
    assert reached[0] > 75
    assert min(reached[1] + 12, reached[2] + 22, reached[3] + 50) > reached[0]
    assert "member 3 made the rounds 1 to 5" in said
    slept = re.search(r"member 7 went on from round (\d+) to (\d+)", said)
    assert slept is not None
    assert int(slept[2]) > int(slept[1]) + 5
    made = re.findall(r"^(\w+): member 0 made (\d+) rounds in ([\d.]+) s, simulated$", said, re.MULTILINE)
    assert [mode for mode, *_ in made] == ["rounds", "async"]
    rounds_s, async_s = (float(took_s) / int(number) for _, number, took_s in made)
    assert async_s == pytest.approx(0.05, abs=0.01)  # its own steps, and nothing else
    assert rounds_s > 3 * async_s
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 4
