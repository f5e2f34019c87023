"""Rehearsals: a requested program is run on the unaltered mocks and compared with the session's mock.

Theory. A program contains the steps that its result needs; which these are follows from lists of what each
operation changes. If a list is wrong, a step is missing, and the owner computes a wrong number under the
right name. And if the notebook itself writes into a mock, its session shows a result that no program makes.
Both errors can be seen on the mocks: the session's mock of the result, made by everything that was done,
differs from the result of the program alone on the mocks as they arrived.

So each program that leaves out recorded steps is run once on this side, in a process with limits, while the
owner decides. The value is held back until the comparison ends. Results that differ from run to run (random
numbers, an order of rows that the library does not promise) are compared by type and shape only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from dataclasses import dataclass
from typing import Any

from duetlink.base.runtime import descriptors
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

_MOST_BYTES = 64 * 1024 * 1024  # largest value that is compared
_LONGEST = 80  # characters of an expression in the error
_SALT = "rehearsal"  # any value: random numbers are compared by type only

# operations of Polars and Arrow that promise an order of rows only with `maintain_order`
_UNORDERED = frozenset((".group_by", ".unique", ".value_counts", ".join", ".mode", ".top_k", ".bottom_k"))
_TABLES = ("polars", "pyarrow")
_TENSOR, _PARAMETER = "torch.Tensor", "torch.nn.Parameter"
_WITHOUT_TABLES = ("pandas", "numpy", "torch")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShownResult:
    """A copy of the session's mock of a result, taken when the result was requested."""

    program: Program
    body: memoryview
    kind: str
    detail: str
    sizes_are_fixed: bool  # True: the sizes are the same for any data


class Rehearsals:
    """Runs the rehearsals of one duet, one after the other. Use on the loop thread, if not said otherwise."""

    def __init__(self, revisions: Revisions, settings: Settings) -> None:
        self._revisions = revisions
        self._settings = settings
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._warned: set[str] = set()

    def shown(self, program: Program, mock: Any, *, sizes_are_fixed: bool) -> ShownResult | None:
        """Return a copy of the session's mock for the comparison. Any thread may call.

        None if the setting `check_on_mocks` is off, or if the mock cannot be encoded or is over 64 MiB.
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
        """Start the processes that rehearsals need, since a request may come soon."""
        if self._settings.check_on_mocks:
            rooms.warm()

    async def check(self, *several: ShownResult) -> None:
        """Rehearse the programs of several results. Returns if all agree, or if a rehearsal is impossible.

        Raises:
            ProgramDiffers: a program alone gives another result than the session shows.
        """
        for shown in several:
            await self._check(shown)

    async def _check(self, shown: ShownResult) -> None:
        """Rehearse one program. Raises ProgramDiffers."""
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
        """Cancel the running rehearsals, and return when their rooms have ended."""
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
        async with runs.room_for(limits) as room:
            for (name, revision), mock in zip(program.assets, pin.revisions, strict=True):
                assert mock.unaltered is not None
                async with descriptors.opened_by(mock.unaltered.placed) as fd:
                    await runs.map_asset(room, name, revision, fd, mock.unaltered.size_bytes)
            made = await runs.run(room, program, _SALT)
        return made if isinstance(made, Fault) else made[0]

    def _give_up(self, why: str) -> None:
        if why not in self._warned:
            self._warned.add(why)
            _log.warning("a result is taken without running its program on the mocks: %s", why)


def _threads() -> int:
    """Return the session's number of threads: the rounding of a sum depends on how threads split it."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else os.cpu_count() or 1


def _compared(shown: ShownResult, made: Encoded | Fault, pin: Pin) -> str:
    """Describe the difference between the session's result and the program's; an empty text if there is none.

    Raises RemoteProtocolError or WorkerUnavailable if the comparison is impossible.
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
    """A rehearsal that could not run to its end."""


def _is_repeatable(program: Program, pin: Pin) -> bool:
    """Return True if each run of the program gives the same result."""
    if program.slice.draws:
        return False
    shapes = program.slice.shapes
    unordered = any(
        shape.operation in _UNORDERED and shape.keywords.get("maintain_order") is not True for shape in shapes
    )
    return not (unordered and _has_tables(program, pin))


def _has_tables(program: Program, pin: Pin) -> bool:
    """Return True if the program may use a table of Polars or Arrow."""
    kinds = [value.kind for value in program.values]
    kinds += [type(mock).__module__ for revision in pin.revisions for mock in revision.mock or ()]
    others = all(kind.startswith(_WITHOUT_TABLES) for kind in kinds)
    return not others or any(shape.operation.startswith(_TABLES) for shape in program.slice.shapes)


def _title(program: Program) -> str:
    expression = program.lineage.expression
    return expression if len(expression) <= _LONGEST else f"{expression[: _LONGEST - 1]}…"


def _kind(kind: str) -> str:
    """Treat parameters as tensors: the session does not know which tensors are parameters."""
    return _TENSOR if kind == _PARAMETER else kind


def _described(kind: str, detail: str) -> str:
    return f"{kind} {detail}".strip()


def _failure(fault: Fault) -> str:
    # a room cannot tell mocks from real data, so its words speak of real data
    return harmless(fault.words.replace(" on the real data", ""))


def _cause(pin: Pin) -> str:
    """Explain why the program may give another result than the session, and what to do."""
    written = [revision.held.title for revision in pin.revisions if _is_altered(revision)]
    if written:
        return (
            f"The {written[0]} is not as it came: your notebook has written into it, or into a view of it, "
            "outside the recorded steps. The request was withdrawn. Work on a copy of a mock, and "
            "join the duet again for an unaltered one"
        )
    return (
        "Your notebook has written into the mock of an intermediate result, or a call that failed here has "
        "changed it half-way; or else a step changes something that the lists of operations do not say, and "
        "is missing in the program. The request was withdrawn. Make the result again; if that does not help, "
        "ask for it by other operations, and report this, please. check_on_mocks=False in the settings takes "
        "results without this check"
    )


def _is_altered(revision: Revision) -> bool:
    """Return True if the session's copy of a mock differs from the unaltered one."""
    if revision.mock is None or revision.unaltered is None:
        return False
    encoded = values.encode(revision.mock[0], plain_nan=True)
    return difference(memoryview(b"".join(encoded.segments)), revision.unaltered.copy()) is not None
