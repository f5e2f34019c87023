"""Starts the server and the kernels, runs a lesson's notebooks, and stops everything, also after errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from duetlink.settings import Settings
from duetlink.tools.demo.errors import CellFailed, DemoFailed
from duetlink.tools.demo.lesson import Lesson
from duetlink.tools.demo.outcome import check_group, pair, show, show_group
from duetlink.tools.demo.player import Player
from duetlink.tools.demo.screen import Screen
from duetlink.tools.demo.server import signaling_server
from duetlink.tools.demo.summary import TELL, TELL_GROUP, read_group_status, read_summaries

# tags of cells
GIVE_CODE = "give-code"  # of an owner or member; before it runs, a person would have passed on the code
TAKE_CODE = "take-code"  # the demo replaces its CODE = "…", or CODE_NAME = "…" for owner-NAME or member-NAME

OUTPUT = "duetlink-demo"
"""the directory, in the current one, for all that a demo writes"""

_ASK_AGAIN_S = 0.5
_PLACEHOLDER = re.compile(r'^(CODE\w*) = ".*"$', re.MULTILINE)


def play(console: Console, lesson: Lesson, timeout_s: float, directory: Path) -> int:
    """Play a lesson and return the exit code. All files go to `duetlink-demo` in `directory`.

    Raises:
        DemoFailed: the directory cannot be written to, or the lesson failed.
    """
    return asyncio.run(_play(console, lesson, _output_folder(lesson, directory), timeout_s))


def _output_folder(lesson: Lesson, directory: Path) -> Path:
    """Make the directory for the executed copies. Raises DemoFailed."""
    folder = directory / OUTPUT / lesson.name
    if folder.resolve() == lesson.notebooks[0].resolve().parent:
        raise DemoFailed(
            f"the executed notebooks would overwrite those in {folder}; "
            "run duetlink demo in another directory"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "Permission denied"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise DemoFailed(
            f"{folder}, where the executed notebooks go, cannot be written to: {reason}; "
            "run duetlink demo in a directory of yours"
        )
    return folder


async def _play(console: Console, lesson: Lesson, run: Path, timeout_s: float) -> int:
    started_s = time.monotonic()
    # a demo does not write to the user's own audit log, unless the user has set its path
    environment = {"DUETLINK_AUDIT_PATH": str(run / "audit.jsonl")} | os.environ
    screen = Screen(console)
    players = [Player(path, screen.finished) for path in lesson.notebooks]
    codes = {} if lesson.is_alone else _connect(lesson, players, screen)
    screen.watch(players)
    try:
        with _terminable(), screen:
            async with asyncio.timeout(timeout_s), signaling_server() as address:
                screen.say("", f"the signaling server listens on {address}")
                try:
                    await _first_failure(
                        *(player.start(environment | {"DUETLINK_SIGNALING": address}) for player in players)
                    )
                    await _first_failure(*(player.play() for player in players))
                    ends = [await player.value(TELL_GROUP if lesson.is_group else TELL) for player in players]
                finally:
                    await asyncio.gather(*(player.stop() for player in players))
                    saved = [player.save(run) for player in players]
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
    if lesson.is_group:
        code = codes[_variable(players[0].role)].result()
        sides = {player.role: read_group_status(end) for player, end in zip(players, ends, strict=True)}
        check_group(sides)
        show_group(console, code, sides, signaling=address)
    elif not lesson.is_alone:
        duets = [read_summaries(end) for end in ends]
        pairings = [
            pair(owner.role, codes[_variable(owner.role)].result(), side, duets[-1])
            for owner, side in zip(players[:-1], duets, strict=False)
        ]
        for pairing in pairings:
            pairing.check()
        show(console, pairings, signaling=address)
    console.print(f"\nDone in {time.monotonic() - started_s:.0f} s. What was written:", style="dim")
    audit = Settings.from_environment(environment).audit_file
    for path in (*saved, *([audit] if audit is not None and audit.exists() else [])):
        console.print(f"  {path}", style="dim", soft_wrap=True)
    whom = "it" if lesson.is_alone else "the parts"
    console.print(f"To play {whom} yourself: duetlink demo {lesson.name} --open", style="dim")
    return 0


def _connect(lesson: Lesson, players: list[Player], screen: Screen) -> dict[str, asyncio.Future[str]]:
    """Pass codes from each owner to the scientist, or between members as their cells are tagged.

    Returns the future code of each variable that takes one. Raises DemoFailed if a tagged cell is missing.
    """
    codes: dict[str, asyncio.Future[str]] = {}

    def giving(player: Player) -> Callable[[Any], Awaitable[None]]:
        codes[_variable(player.role)] = asyncio.get_running_loop().create_future()

        async def give_code(cell: Any) -> None:
            code = await player.value("group.code" if lesson.is_group else "duet.code")
            member = f"{player.role} tells the next member"
            who = member if lesson.is_group else f"the {player.role} tells the scientist"
            screen.say("", f"{who} the code {code}")
            codes[_variable(player.role)].set_result(code)

        return give_code

    def taking(player: Player) -> Callable[[Any], Awaitable[None]]:
        async def take_code(cell: Any) -> None:
            for variable in _PLACEHOLDER.findall(cell.source):
                if variable not in codes:
                    raise DemoFailed(f"{player.path.name} takes a {variable}, which no notebook gives")
                code = await codes[variable]
                cell.source = re.sub(
                    rf'^{variable} = ".*"$', f'{variable} = "{code}"', cell.source, flags=re.M
                )

        return take_code

    for player in players:
        is_last = player is players[-1]
        if player is players[0] or (not lesson.is_group and not is_last):
            player.tagged(GIVE_CODE)
        elif lesson.is_group or is_last:
            player.tagged(TAKE_CODE)
        if player.has(GIVE_CODE):
            player.cues[GIVE_CODE] = giving(player)
        if player.has(TAKE_CODE):
            player.cues[TAKE_CODE] = taking(player)
    return codes


def _variable(role: str) -> str:
    """Return the variable for the code of a role: CODE for `owner`, CODE_NAME for `owner-NAME`."""
    name = role.partition("-")[2]
    return f"CODE_{name.upper()}" if name else "CODE"


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
        # repeated: before Python 3.12 `asyncio.wait_for`, which nbclient uses, can miss a cancellation
        while pending := [task for task in tasks if not task.done()]:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending, timeout=_ASK_AGAIN_S)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # read, so that asyncio does not log it; the first error is raised


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Make SIGTERM end the demo like Ctrl-C, after everything was stopped."""
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
