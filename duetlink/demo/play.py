"""Starts the server and the kernels, lets the two notebooks meet, and ends everything, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from duetlink.demo.errors import CellFailed, DemoFailed
from duetlink.demo.server import signaling_server
from duetlink.errors import MissingLibrary

OWNER, SCIENTIST = "owner", "scientist"

# Tags of the cells that the demo knows.
GIVE_CODE = "give-code"  # the owner's: before it runs, a person would have told the code
TAKE_CODE = "take-code"  # the scientist's: its CODE = "…" is replaced
SUMMARY = "summary"  # both: shows Summary.of(duet)

_NEEDED = {
    "nbclient": "nbclient",
    "ipykernel": "ipykernel",
    "sklearn": "scikit-learn",
    "pandas": "pandas",
}
_PLACEHOLDER = re.compile(r'^CODE = ".*"$', re.MULTILINE)


def play(console: Console, notebooks: Path | None, timeout_s: float) -> int:
    """Play owner.ipynb and scientist.ipynb of `notebooks` (default: those of duetlink); the exit code."""
    missing = [name for module, name in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingLibrary(f"the demo needs {', '.join(missing)}: pip install 'duetlink[demo]'")
    return asyncio.run(_play(console, *_places(notebooks), timeout_s))


def _places(given: Path | None) -> tuple[Path, Path]:
    """Where the notebooks are, and where their executed copies go."""
    package = Path(__file__).resolve().parent
    clone = package.parent.parent / "notebooks"
    for directory in (given,) if given else (clone, package / "notebooks"):
        if all((directory / f"{role}.ipynb").is_file() for role in (OWNER, SCIENTIST)):
            break
    else:
        where = given or f"{clone} or {package / 'notebooks'}"
        raise DemoFailed(
            f"there are no owner.ipynb and scientist.ipynb in {where}; they come with a clone of duetlink's "
            "repository, and --notebooks says where they are"
        )
    if directory == package / "notebooks":  # an installed package is not a place to write to
        return directory, Path(tempfile.mkdtemp(prefix="duetlink-demo-"))
    run = directory / "run"
    try:
        run.mkdir(exist_ok=True)
    except OSError:
        run = Path(tempfile.mkdtemp(prefix="duetlink-demo-"))
    return directory, run


async def _play(console: Console, notebooks: Path, run: Path, timeout_s: float) -> int:
    from duetlink.demo.outcome import check, show
    from duetlink.demo.player import Player
    from duetlink.demo.screen import Screen
    from duetlink.demo.summary import Summary

    started_s = time.monotonic()
    screen = Screen(console)
    players = [Player(notebooks / f"{role}.ipynb", screen.finished) for role in (OWNER, SCIENTIST)]
    owner, scientist = players
    code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def give_code(cell: Any) -> None:
        told = await owner.value("duet.code")
        screen.say("", f"the owner tells the scientist the code {told}")
        code.set_result(told)

    async def take_code(cell: Any) -> None:
        cell.source = _PLACEHOLDER.sub(f'CODE = "{await code}"', cell.source)

    owner.cues[GIVE_CODE], scientist.cues[TAKE_CODE] = give_code, take_code
    for player in players:
        for tag in (*player.cues, SUMMARY):
            player.tagged(tag)
    screen.watch(players)
    try:
        with _terminable(), screen:
            async with asyncio.timeout(timeout_s), signaling_server() as address:
                screen.say("", f"the signaling server listens on {address}")
                environment = {"DUETLINK_SIGNALING": address}
                try:
                    await _first_failure(*(player.start(environment) for player in players))
                    await _first_failure(*(player.play() for player in players))
                finally:
                    await asyncio.gather(*(player.stop() for player in players))
                    saved = [player.save(run) for player in players]
        sides = [Summary.from_outputs(player.tagged(SUMMARY).outputs) for player in players]
        check(*sides)
    except TimeoutError:
        where = "; ".join(
            f"{player.path.name} is at {player.current.title!r}" for player in players if player.current
        )
        raise DemoFailed(
            f"not done within {timeout_s:g} s ({where or 'the kernels have not started'}); the notebooks so "
            f"far are in {run}"
        ) from None
    except CellFailed as failure:
        console.print(Text.from_ansi(failure.traceback), soft_wrap=True)
        raise DemoFailed(f"{failure} (the notebooks so far are in {run})") from None
    show(console, sides[0], sides[1], signaling=address, code=code.result())
    console.print(
        f"\nDone in {time.monotonic() - started_s:.0f} s. The notebooks with their outputs:", style="dim"
    )
    for path in saved:
        console.print(f"  {path}", style="dim", soft_wrap=True)
    return 0


async def _first_failure(*steps: Any) -> None:
    """Run all together; at the first error cancel the rest and raise that error.

    Not a TaskGroup: nbclient turns a cancellation into an error of its own, which would hide the first one.
    """
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: everything is stopped first."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    with contextlib.suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        yield
    except asyncio.CancelledError:
        if terminated:
            raise KeyboardInterrupt from None
        raise
    finally:
        with contextlib.suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGTERM)
