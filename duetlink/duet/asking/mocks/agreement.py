"""Checks on other data ("mates") whether a size, a name or an error of a mock depends on the data.

Theory. Rules say which sizes of a result are the same for any data (`compute/operations/sizes/`). If a rule
were wrong, the mock's length would be reported as that of the real object. So before a size is reported, the
program of the result is run on three mates of each asset: objects of the same schema with other values
(`compute/mocks/mates.py`), in a room that does nothing else. A size that differs for any of the three is
private from then on. The mates can only add to what the rules hide; if no mate gives an answer, the rules
alone decide.

The answer depends only on the program, not on earlier questions or the time. Example: suppose a rule wrongly
said that `frame.drop_duplicates()` keeps the number of rows. The mock may have 100 rows and the mates 97, 100
and 88, so the length is private all the same.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.base.runtime import descriptors
from duetlink.base.runtime.loop import LoopThread
from duetlink.compute.operations.allow_lists.allowed import ELEMENTWISE
from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.sizes.mask import COLUMNS, NAMES, PUBLIC, UNCOUNTED
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.compute.operations.steps.program import ASSET, VALUE
from duetlink.compute.worker.kernel import runs
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.protocol import faults
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.data import values
from duetlink.duet.asking.mocks.revisions import Pin, Revisions
from duetlink.errors import DuetError, WorkerUnavailable
from duetlink.settings import Settings

_MOST_KNOWN = 1_000  # programs whose comparison is remembered
_MOST_BYTES = 64 * 1024 * 1024  # the answers to one question
_MOST_MOCK_BYTES = 64 * 1024 * 1024  # all mocks of one program; they are copied for each mate
_TIMEOUT_S = 30.0
_IDLE_S = 60.0  # an unused room ends after this time; starting another takes some milliseconds

_OF_KIND = ("ndim", "nlevels")  # attributes that distinguish frames, series, arrays and indexes

Answer = Any  # one mate's answer: a value, a Fault, or None if it has none

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MateDifference:
    """The differences of a result between the mock and its mates."""

    hidden: int = PUBLIC  # mask of the sizes that differ: compute/operations/sizes/mask.py
    dtypes: bool = False  # True: the dtypes differ


NO_DIFFERENCE = MateDifference()


def _together(found: Iterable[MateDifference]) -> MateDifference:
    hidden, dtypes = PUBLIC, False
    for each in found:
        hidden, dtypes = hidden | each.hidden, dtypes or each.dtypes
    return MateDifference(hidden, dtypes)


class Mates:
    """Runs programs on the mates of one duet's assets. Any thread may call it.

    A call on the loop thread finds no differences: the loop could not wait for a room.
    """

    def __init__(self, revisions: Revisions, settings: Settings, thread: LoopThread) -> None:
        self._revisions = revisions
        self._thread = thread
        self._limits = Limits(
            memory_bytes=settings.worker_memory_bytes, result_bytes=_MOST_BYTES, wall_s=_TIMEOUT_S, threads=1
        )
        self._turn = asyncio.Lock()
        self._room: Room | None = None
        self._mapped: set[tuple[str, int]] = set()  # the mocks that the room has
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._known: dict[str, MateDifference] = {}  # by the digests of programs
        self._warned: set[str] = set()

    def difference_to_mates(self, program: Program, mock: Any) -> MateDifference:
        """Compare a result between its `mock` and its mates. `program` makes the result."""
        questions = _size_steps(mock)
        if questions is None or _follows_from_one_asset(program) or self._is_on_loop():
            return NO_DIFFERENCE
        found = self._known.get(program.digest)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            answers = self._asked(_with_steps(program, questions))
            found = _together(_difference(mock, each, program.target) for each in answers if each is not None)
            self._known[program.digest] = found
        return found

    def succeeds_on_a_mate(self, program: Program) -> bool:
        """Return True if the last step of `program`, which failed on the mocks, succeeds on a mate."""
        if self._is_on_loop():
            return False
        return any(
            answer is not None and (type(answer) is not Fault or answer.code == faults.CANNOT_TRAVEL)
            for answer in self._asked(program)
        )

    def _is_on_loop(self) -> bool:
        """Return True on the loop thread, which cannot wait for a room that it runs itself."""
        try:
            return asyncio.get_running_loop() is self._thread.loop
        except RuntimeError:
            return False

    async def close(self) -> None:
        """End the room, and with it the run that is in progress there."""
        self._is_closed = True
        if self._room is not None:
            self._room.kill("this duet is closed")
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            await self._end_room()

    # -- the room --------------------------------------------------------------------------------------------

    def _asked(self, program: Program) -> tuple[Answer, ...]:
        pin = self._revisions.pin(program.assets)
        if pin is None:  # there was no memory for the unaltered copy of a mock
            return ()
        try:
            return self._thread.run(self._ask(program, pin))
        finally:
            self._revisions.unpin(pin)

    async def _ask(self, program: Program, pin: Pin) -> tuple[Answer, ...]:
        if sum(one.unaltered.size_bytes for one in pin.revisions if one.unaltered) > _MOST_MOCK_BYTES:
            self._give_up("the mocks are large")
            return ()
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            try:
                room = await self._room_with(program.assets, pin)
                made = await runs.ask_mates(room, program)
                if isinstance(made, Fault):
                    return ()
                (body,) = made[0].segments
                answers: Any = values.decode(memoryview(body), gradients=False)
                return tuple(map(read_answer, answers))
            except (DuetError, OSError) as error:
                await self._end_room()
                self._give_up(str(error))
                return ()
            except BaseException:
                await self._end_room()
                raise
            finally:
                self._idle = asyncio.get_running_loop().call_later(_IDLE_S, self._let_go)

    async def _room_with(self, assets: Sequence[tuple[str, int]], pin: Pin) -> Room:
        if self._room is None or self._room.has_ended:
            self._mapped.clear()
            self._room = await runs.of_mates(self._limits)
        if self._is_closed:
            raise WorkerUnavailable("this duet is closed")
        for key, revision in zip(assets, pin.revisions, strict=True):
            if key not in self._mapped:
                assert revision.unaltered is not None
                async with descriptors.opened_by(revision.unaltered.placed) as fd:
                    await runs.map_mock(self._room, *key, fd, revision.unaltered.size_bytes)
                self._mapped.add(key)
        return self._room

    def _let_go(self) -> None:
        if self._room is not None and not self._turn.locked():
            self._room.kill("it was not used for a while")

    async def _end_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            await room.close()

    def _give_up(self, why: str) -> None:
        if why not in self._warned:
            self._warned.add(why)
            _log.warning("sizes follow from rules alone, without a check on other data: %s", why)


def read_answer(answer: Any) -> Answer:
    """Read one mate's answer, as `MatesHandler.answers` writes it; None if the mate could not be made."""
    fault, value = answer
    if fault is None:
        return value
    found = Fault.from_list(fault)
    return None if found.code == faults.NOT_MADE else found


# -- questions and comparisons -------------------------------------------------------------------------------


def _follows_from_one_asset(program: Program) -> bool:
    """Return True if all steps are elementwise and use one asset: the result has the sizes of that asset."""
    assets = 0
    for shape in program.slice.steps:
        operation = program.slice.shapes[shape].operation
        assets += operation == ASSET
        if operation == VALUE or (operation != ASSET and worst_effect(operation) != ELEMENTWISE):
            return False
    return assets == 1


def _size_steps(mock: Any) -> list[Any] | None:
    """Return the steps that read the sizes, names and dtypes of the result, which is written as [0].

    They are its length, and the object without its items. None for objects without such properties.
    """
    module, kind = type(mock).__module__.partition(".")[0], type(mock)
    length = ["builtins.len", [[0]]]
    nothing = ["operator.getitem", [[0], ["s", 0, 0, None]]]
    if module in ("pandas", "polars") and hasattr(mock, "head"):
        return [length, [".head", [[0], 0]]]
    if module in ("numpy", "torch", "pandas") and hasattr(mock, "shape"):
        return [length, nothing] if len(mock.shape) else [["numpy.shape", [[0]]]]
    return [length] if kind in (list, tuple) else None


def _with_steps(program: Program, questions: Sequence[Any]) -> Program:
    """Append the steps `questions` to a program; its result is then the list of their results."""
    steps, target = json.loads(program.text), program.target
    results = []
    for operation, arguments in questions:
        steps.append([operation, [[target] if argument == [0] else argument for argument in arguments]])
        results.append([len(steps)])
    steps.append(["builtins.list", [["l", *results]]])
    return Program.of_steps(steps, len(steps), program.values)


def _difference(mock: Any, answer: Any, target: int) -> MateDifference:
    """Compare a mate's answer to the steps of `_size_steps` with the mock."""
    # a fault of the program itself is no answer; a fault of the looks means another kind of object
    if type(answer) is Fault:
        return (
            MateDifference(UNCOUNTED)
            if answer.step > target and answer.code == faults.RAISED
            else NO_DIFFERENCE
        )
    shape = getattr(mock, "shape", None)
    if shape == () or len(answer) == 1:
        same = tuple(answer[0]) == () if shape == () else answer[0] == len(mock)
        return NO_DIFFERENCE if same else MateDifference(UNCOUNTED)
    count, rest = answer
    if [getattr(rest, name, None) for name in _OF_KIND] != [getattr(mock, name, None) for name in _OF_KIND]:
        return MateDifference(UNCOUNTED)
    if hasattr(mock, "columns"):
        return _difference_of_frames(mock, count, rest)
    if hasattr(mock, "name") and rest.name != mock.name:
        return MateDifference(UNCOUNTED)
    theirs = (count, *rest.shape[1:])
    axes = zip(reversed(theirs), reversed(tuple(mock.shape)), strict=True)
    hidden = sum(1 << axis for axis, (one, other) in enumerate(axes) if one != other)
    return MateDifference(hidden, str(rest.dtype) != str(mock.dtype))


def _difference_of_frames(mock: Any, count: int, rest: Any) -> MateDifference:
    ours, theirs = list(mock.columns), list(rest.columns)
    hidden = PUBLIC if count == len(mock) else COLUMNS << 1
    if len(ours) != len(theirs):
        hidden |= COLUMNS | NAMES
    elif ours != theirs:
        hidden |= NAMES
    return MateDifference(hidden, [str(each) for each in rest.dtypes] != [str(each) for each in mock.dtypes])
