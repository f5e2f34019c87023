"""The display of a running demo: a line for each finished step, and below, the progress of each notebook."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from duetlink.duet.display import visible
from duetlink.tools.demo.player import Player, Step
from duetlink.tools.demo.summary import seconds_text

_COLOURS = {"owner": "green", "scientist": "cyan", "member": "green"}
_TITLE_WIDTH = 42


def colour_of(role: str) -> str:
    """Return the colour of a role: `owner`, `owner-NAME`, `scientist` or `member-NAME`."""
    return _COLOURS.get(role.partition("-")[0], "")


class Screen:
    """Draws on a console while it is entered. Without a terminal only the finished steps appear."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._players: Sequence[Player] = ()
        self._width = 0  # of the longest role
        self._spinner = Spinner("dots")
        self._live = Live(console=console, get_renderable=self._now, transient=True, refresh_per_second=8)

    def watch(self, players: Sequence[Player]) -> None:
        self._players = players
        self._width = max(len(player.role) for player in players)

    def say(self, who: str, what: str, aside: str = "") -> None:
        """Print a line that stays on the screen."""
        line = Text(f"{who:<{self._width}}", colour_of(who))
        line.append(f" {what}", "default")
        if aside:
            line.append(f"  {aside}", "dim")
        self._console.print(line, soft_wrap=True)

    def finished(self, player: Player, step: Step) -> None:
        """Print the line of a finished step: its duration and the last line that it printed."""
        took = seconds_text(step.duration_s or 0.0)
        self.say(player.role, f"{step.title:<{_TITLE_WIDTH}}{took:>8}", visible(step.said))

    def _now(self) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        for player in self._players:
            done = sum(step.done for step in player.steps)
            total = sum(step.cells for step in player.steps)
            step = player.current
            if step is None:
                state: RenderableType = Text("✓" if done == total else " ", "green")
                title = Text("done" if done == total else "its kernel starts", "dim")
            else:
                state = Text("✗", "red") if player.failed else self._spinner
                took_s = time.monotonic() - (step.started_s or time.monotonic())
                title = Text(f"{step.title}  ").append(f"{took_s:.0f} s", "dim")
            table.add_row(
                Text(f"{player.role:<{self._width}}", colour_of(player.role)),
                state,
                ProgressBar(total=total, completed=done, width=20),
                title,
            )
        return table

    def __enter__(self) -> Self:
        # a pipe gets no final frame either
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
