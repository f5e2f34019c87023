"""Programs that are run alone on mocks, beside their requests, and compared with what this session shows.

Theory. Which steps a program consists of follows from lists of what an operation changes. Where a list is
wrong, a step is missing, and the owner's result is a wrong number under the right name. And where a notebook
writes into a mock, its session shows what no program makes. Both show on the mocks: what the session made of
them by all that was done is not what the program alone makes of them as they came. So each program out of
which something was cut is run once on this side, in a process with limits, while the owner decides; the value
is held back until both agree. What the draws of random numbers decide, or the order of rows that a library
does not promise, differs from one run to the next, and is compared by its type and shape.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from dataclasses import dataclass
from typing import Any

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.printer.literal import harmless
from duetlink.compute.worker.kernel import rooms, runs
from duetlink.compute.worker.protocol import faults
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.data import values
from duetlink.data.values.base import Encoded
from duetlink.data.values.difference import difference
from duetlink.duet.asking.mocks.mock_tensors import plain
from duetlink.duet.asking.mocks.revisions import Pin, Revision, Revisions
from duetlink.errors import DuetError, ProgramDiffers, UnsupportedValue
from duetlink.settings import Settings

_MOST_BYTES = 64 * 1024 * 1024  # of a value that is compared
_LONGEST = 80  # characters of an expression
_SALT = "rehearsal"  # draws are compared by type

# of Polars and Arrow; with `maintain_order` they promise one
_UNORDERED = frozenset((".group_by", ".unique", ".value_counts", ".join", ".mode", ".top_k", ".bottom_k"))
_TABLES = ("polars", "pyarrow")
_TENSOR, _PARAMETER = "torch.Tensor", "torch.nn.Parameter"
_WITHOUT_TABLES = ("pandas", "numpy", "torch")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShownResult:
    """What this session shows of a result, as it was when that was asked for."""

    program: Program
    body: memoryview
    kind: str
    detail: str
    sizes_are_fixed: bool  # whatever the data are


class Rehearsals:
    """Those of one duet, one after the other. Belongs to the loop thread, if not said otherwise."""

    def __init__(self, revisions: Revisions, settings: Settings) -> None:
        self._revisions = revisions
        self._settings = settings
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._warned: set[str] = set()

    def shown(self, program: Program, mock: Any, *, sizes_are_fixed: bool) -> ShownResult | None:
        """What the session's `mock` of a result is now, to be compared; None: it is no value, or a large one.
        Any thread may call.
        """
        if not self._settings.check_on_mocks:
            return None
        mock = plain(mock)
        try:
            if values.summarise(mock).size_bytes > _MOST_BYTES:
                return None
            encoded = values.encode(mock, plain_nan=True)
        except UnsupportedValue:
            return None
        # copied: the session goes on
        body = memoryview(b"".join(encoded.segments))
        return ShownResult(program, body, encoded.summary.kind, encoded.summary.detail, sizes_are_fixed)

    def expect(self) -> None:
        """Results may be asked for soon."""
        if self._settings.check_on_mocks:
            rooms.warm()

    async def check(self, *several: ShownResult) -> None:
        """Return when each program alone makes what the session shows, or when that cannot be found out.

        Raises:
            ProgramDiffers: one makes something else.
        """
        for shown in several:
            await self._check(shown)

    async def _check(self, shown: ShownResult) -> None:
        """For one of them.

        Raises:
            ProgramDiffers: it makes something else.
        """
        pin = self._revisions.pin(shown.program.assets)
        if pin is None:
            return
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            async with self._turn, asyncio.timeout(self._settings.worker_timeout_s):
                made = await self._run(shown.program, pin)
                words = await asyncio.to_thread(_compared, shown, made, pin)
                if words:
                    raise ProgramDiffers(f"{words}. {await asyncio.to_thread(_cause, pin)}")
        except ProgramDiffers:
            raise
        except TimeoutError:
            self._give_up(f"it took over {self._settings.worker_timeout_s:g} s")
        except (DuetError, OSError) as error:
            self._give_up(str(error))
        finally:
            self._running.discard(task)
            self._revisions.unpin(pin)

    async def close(self) -> None:
        """End those that run; their rooms are gone when this returns."""
        running = list(self._running)
        for task in running:
            if not task.cancelling():  # a second time would interrupt the end of its room
                task.cancel()
        if running:
            await asyncio.wait(running)

    async def _run(self, program: Program, pin: Pin) -> Encoded | Fault:
        limits = Limits(
            memory_bytes=self._settings.worker_memory_bytes,
            result_bytes=_MOST_BYTES,
            wall_s=self._settings.worker_timeout_s,
            threads=_threads(),
        )
        room = await runs.opened(limits)
        try:
            for (name, revision), mock in zip(program.assets, pin.revisions, strict=True):
                assert mock.unaltered is not None
                fd = await asyncio.to_thread(mock.unaltered.placed)
                try:
                    await runs.map_asset(room, name, revision, fd, mock.unaltered.size_bytes)
                finally:
                    os.close(fd)
            made = await runs.run(room, program, _SALT)
        finally:
            await room.close()
        return made if isinstance(made, Fault) else made[0]

    def _give_up(self, why: str) -> None:
        if why not in self._warned:
            self._warned.add(why)
            _log.warning("a result is taken without running its program on the mocks: %s", why)


def _threads() -> int:
    """As many as the session's libraries have, since sums are rounded by how they are shared out."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else os.cpu_count() or 1


def _compared(shown: ShownResult, made: Encoded | Fault, pin: Pin) -> str:
    """What differs, in words; empty: nothing that is to be the same. Raises RemoteProtocolError,
    WorkerUnavailable: that cannot be found out.
    """
    program = shown.program
    if isinstance(made, Fault):
        if made.code == faults.NOT_MADE:
            raise _Unfinished(made.words)
        return (
            f"{_title(program)} is a {_described(shown.kind, shown.detail)} in this session; where its "
            f"program runs alone on the mocks as they came, {_failure(made)}"
        )
    summary = made.summary
    if _kind(shown.kind) != _kind(summary.kind):
        here, alone = _described(shown.kind, shown.detail), _described(summary.kind, summary.detail)
    else:
        (body,) = made.segments
        found = difference(shown.body, body)
        if found is None:
            return ""
        if not _is_repeatable(program, pin):
            if not shown.sizes_are_fixed or shown.detail == summary.detail:
                return ""
            found = shown.detail, summary.detail
        here, alone = found
    return (
        f"{_title(program)} is {harmless(here)} in this session, and {harmless(alone)} where its program "
        "runs alone on the mocks as they came"
    )


class _Unfinished(DuetError):
    """A run came to no end."""


def _is_repeatable(program: Program, pin: Pin) -> bool:
    """Whether it makes the same each time."""
    if program.slice.draws:
        return False
    shapes = program.slice.shapes
    unordered = any(
        shape.operation in _UNORDERED and shape.keywords.get("maintain_order") is not True for shape in shapes
    )
    return not (unordered and _has_tables(program, pin))


def _has_tables(program: Program, pin: Pin) -> bool:
    """Whether there may be one of Polars or Arrow in it."""
    kinds = [value.kind for value in program.values]
    kinds += [type(mock).__module__ for revision in pin.revisions for mock in revision.mock or ()]
    others = all(kind.startswith(_WITHOUT_TABLES) for kind in kinds)
    return not others or any(shape.operation.startswith(_TABLES) for shape in program.slice.shapes)


def _title(program: Program) -> str:
    expression = program.lineage.expression
    return expression if len(expression) <= _LONGEST else f"{expression[: _LONGEST - 1]}…"


def _kind(told: str) -> str:
    """Whether a tensor is a parameter is not known to the session."""
    return _TENSOR if told == _PARAMETER else told


def _described(kind: str, detail: str) -> str:
    return f"{kind} {detail}".strip()


def _failure(fault: Fault) -> str:
    # a room does not know what it works on
    return harmless(fault.words.replace(" on the real data", ""))


def _cause(pin: Pin) -> str:
    """Why a program may make something else than the session, and what to do."""
    written = [revision.held.title for revision in pin.revisions if _is_altered(revision)]
    if written:
        return (
            f"The {written[0]} is not as it came: your notebook has written into it, or into a view of it, "
            "beside the steps that are recorded. The request was withdrawn. Work on a copy of a mock, and "
            "join the duet anew for one as it came"
        )
    return (
        "Your notebook has written into the mock of a result on the way, or a call that failed here has done "
        "so half-way; or else a step has changed something that the lists of operations do not say, and is "
        "missing in the program. The request was withdrawn. Make the result anew; if that does not help, ask "
        "for it by other operations, and report this, please. check_on_mocks=False in the settings takes "
        "results without this check"
    )


def _is_altered(revision: Revision) -> bool:
    """Whether something has written into the session's copy of a mock."""
    if revision.mock is None or revision.unaltered is None:
        return False
    encoded = values.encode(revision.mock[0], plain_nan=True)
    return difference(memoryview(b"".join(encoded.segments)), revision.unaltered.copy()) is not None
