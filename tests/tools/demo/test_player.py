"""One notebook, played in a real kernel."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from duetlink.tools.demo.player import Player


@pytest.mark.slow
async def test_cells_that_write_into_a_widget_end_however_its_messages_cross_with_their_replies(
    tmp_path: Path,
) -> None:
    new = nbformat.v4
    cells = [
        new.new_markdown_cell("# Widgets"),
        new.new_code_cell("from ipywidgets import Output\nshown = Output()"),
    ]
    write = "with shown:\n    shown.clear_output(wait=True)\n    print('written')"
    cells += [new.new_code_cell(write) for _ in range(150)]
    path = tmp_path / "widgets.ipynb"
    nbformat.write(new.new_notebook(cells=cells), path)
    player = Player(path, lambda player, step: None)
    try:
        await player.start({})
        await player.play()
    finally:
        await player.stop()
    assert player.steps[0].done == 151
