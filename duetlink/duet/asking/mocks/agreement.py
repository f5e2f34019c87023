"""Whether a size, a name or an error of a mock is the same for other data: three mates are asked.

Theory. What an operation tells of the size of its result follows from lists (`compute/operations/sizes/`).
Where a list is wrong, the mock's length would be told as that of the data. So before a size is told, the
program of its object is run on three mates of each asset (`compute/mocks/mates.py`), in a room that is there
for this alone. A size that is not the same for all three is private
from then on: agreement only ever adds to what the rules hide. Where no mate has an answer, the rules decide.

What is asked depends on the program alone: not on what was tried before it, nor on the day.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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

_MOST_KNOWN = 1_000  # results that are remembered
_MOST_BYTES = 64 * 1024 * 1024  # of the answers to one question
_MOST_MOCK_BYTES = 64 * 1024 * 1024  # of the mocks of one program together, which are copied for each mate
_TIMEOUT_S = 30.0
_IDLE_S = 60.0  # after which the room of the mates ends; another takes some milliseconds

_OF_KIND = ("ndim", "nlevels")  # frames, series and arrays, and indexes by their levels

Answer = Any  # of a mate: a value, a Fault, or None where it has none

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unlike:
    """How a result differs between the mock and its mates."""

    hidden: int = PUBLIC  # the mask of its sizes that are not the same: compute/operations/sizes/mask.py
    dtypes: bool = False  # whether the types of its items are not


ALIKE = Unlike()


def _together(found: Iterable[Unlike]) -> Unlike:
    hidden, dtypes = PUBLIC, False
    for each in found:
        hidden, dtypes = hidden | each.hidden, dtypes or each.dtypes
    return Unlike(hidden, dtypes)


class Mates:
    """The mates of one duet. Any thread may ask; on the loop's own, the rules alone decide."""

    def __init__(self, revisions: Revisions, settings: Settings, thread: LoopThread) -> None:
        self._revisions = revisions
        self._thread = thread
        self._limits = Limits(
            memory_bytes=settings.worker_memory_bytes, result_bytes=_MOST_BYTES, wall_s=_TIMEOUT_S, threads=1
        )
        self._turn = asyncio.Lock()
        self._room: Room | None = None
        self._mapped: set[tuple[str, int]] = set()  # the mocks that it has
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._known: dict[str, Unlike] = {}  # by the digests of programs
        self._warned: set[str] = set()

    def unlike(self, program: Program, mock: Any) -> Unlike:
        """How a result, which `program` makes and whose mock is given, differs between its mates."""
        looks = _looks_of(mock)
        if looks is None or _follows_from_one_asset(program) or self._is_on_loop():
            return ALIKE
        found = self._known.get(program.digest)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            answers = self._asked(_with_steps(program, looks))
            found = _together(_difference(mock, each, program.target) for each in answers if each is not None)
            self._known[program.digest] = found
        return found

    def fails_alone(self, program: Program) -> bool:
        """Whether the last step of a program, which has failed on the mocks, can be done on a mate."""
        if self._is_on_loop():
            return False
        return any(
            answer is not None and (type(answer) is not Fault or answer.code == faults.CANNOT_TRAVEL)
            for answer in self._asked(program)
        )

    def _is_on_loop(self) -> bool:
        """Whether this thread is the one that would have to do what it waits for."""
        try:
            return asyncio.get_running_loop() is self._thread.loop
        except RuntimeError:
            return False

    async def close(self) -> None:
        """End the room of the mates, and the question that is asked there."""
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
        if pin is None:  # a mock could not be kept as it came
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
                told: Any = values.decode(memoryview(body), gradients=False)
                return tuple(map(read_answer, told))
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
                fd = await asyncio.to_thread(revision.unaltered.placed)
                try:
                    await runs.map_mock(self._room, *key, fd, revision.unaltered.size_bytes)
                finally:
                    os.close(fd)
                self._mapped.add(key)
        return self._room

    def _let_go(self) -> None:
        if self._room is not None and not self._turn.locked():
            self._room.kill("nobody has asked for a while")

    async def _end_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            await room.close()

    def _give_up(self, why: str) -> None:
        if why not in self._warned:
            self._warned.add(why)
            _log.warning("sizes are told by rules alone, without a look at other data: %s", why)


def read_answer(answer: Any) -> Answer:
    """One of those that `MatesHandler.answers` gives."""
    fault, value = answer
    if fault is None:
        return value
    found = Fault.from_list(fault)
    return None if found.code == faults.NOT_MADE else found


# -- what is asked -------------------------------------------------------------------------------------------


def _follows_from_one_asset(program: Program) -> bool:
    """Whether a result has the sizes of the only object that it is made from, item by item."""
    assets = 0
    for shape in program.slice.steps:
        operation = program.slice.shapes[shape].operation
        assets += operation == ASSET
        if operation == VALUE or (operation != ASSET and worst_effect(operation) != ELEMENTWISE):
            return False
    return assets == 1


def _looks_of(mock: Any) -> list[Any] | None:
    """The steps that tell the sizes, names and types of the result [0]: its length, and what is left of it
    without its items. None: nothing is told of such an object.
    """
    module, kind = type(mock).__module__.partition(".")[0], type(mock)
    length = ["builtins.len", [[0]]]
    nothing = ["operator.getitem", [[0], ["s", 0, 0, None]]]
    if module in ("pandas", "polars") and hasattr(mock, "head"):
        return [length, [".head", [[0], 0]]]
    if module in ("numpy", "torch", "pandas") and hasattr(mock, "shape"):
        return [length, nothing] if len(mock.shape) else [["numpy.shape", [[0]]]]
    return [length] if kind in (list, tuple) else None


def _with_steps(program: Program, looks: Sequence[Any]) -> Program:
    """The same program, whose result is the list of what these steps make of it."""
    steps, target = json.loads(program.text), program.target
    places = []
    for operation, arguments in looks:
        steps.append([operation, [[target] if argument == [0] else argument for argument in arguments]])
        places.append([len(steps)])
    steps.append(["builtins.list", [["l", *places]]])
    return Program.of_steps(steps, len(steps), program.values)


def _difference(mock: Any, answer: Any, target: int) -> Unlike:
    """How a mate's answer to `_looks_of` differs from what the mock is."""
    if type(answer) is Fault:  # of the program, it is no answer; of the looks, another kind of object
        return Unlike(UNCOUNTED) if answer.step > target and answer.code == faults.RAISED else ALIKE
    shape = getattr(mock, "shape", None)
    if shape == () or len(answer) == 1:
        same = tuple(answer[0]) == () if shape == () else answer[0] == len(mock)
        return ALIKE if same else Unlike(UNCOUNTED)
    count, rest = answer
    if [getattr(rest, name, None) for name in _OF_KIND] != [getattr(mock, name, None) for name in _OF_KIND]:
        return Unlike(UNCOUNTED)
    if hasattr(mock, "columns"):
        return _difference_of_frames(mock, count, rest)
    if hasattr(mock, "name") and rest.name != mock.name:
        return Unlike(UNCOUNTED)
    theirs = (count, *rest.shape[1:])
    axes = zip(reversed(theirs), reversed(tuple(mock.shape)), strict=True)
    hidden = sum(1 << axis for axis, (one, other) in enumerate(axes) if one != other)
    return Unlike(hidden, str(rest.dtype) != str(mock.dtype))


def _difference_of_frames(mock: Any, count: int, rest: Any) -> Unlike:
    ours, theirs = list(mock.columns), list(rest.columns)
    hidden = PUBLIC if count == len(mock) else COLUMNS << 1
    if len(ours) != len(theirs):
        hidden |= COLUMNS | NAMES
    elif ours != theirs:
        hidden |= NAMES
    return Unlike(hidden, [str(each) for each in rest.dtypes] != [str(each) for each in mock.dtypes])
