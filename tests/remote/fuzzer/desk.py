"""A scientist and an owner in one process, without a link: the real recording, and a room's interpreter."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.steps import body
from duetlink.compute.worker.protocol import faults
from duetlink.compute.worker.room.draws import Draws
from duetlink.compute.worker.room.interpreter import Interpreter, NoResult
from duetlink.compute.worker.room.mates import MatesHandler
from duetlink.compute.worker.room.progress import Progress
from duetlink.data import values
from duetlink.duet.asking.functions.place import fetch, place
from duetlink.duet.asking.mocks.agreement import Mates, read_answer
from duetlink.duet.asking.mocks.mock_tensors import plain
from duetlink.duet.asking.pointers.pointer import Pointer
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.duet.asking.requests.asking import Question
from duetlink.duet.objects.asset import AssetInfo
from duetlink.errors import OperationFailed, ProgramDiffers
from duetlink.settings import Settings
from tests.remote.hostile import allowed
from tests.remote.statements import difference


class Desk:
    """Pointers to an owner's objects, and all that a duet has to work with them."""

    def __init__(
        self, data: Mapping[str, Any], mocks: Mapping[str, Any], *, check_on_mocks: bool = True
    ) -> None:
        self._revisions = _Revisions()
        self._unaltered = _Owner() if check_on_mocks else None
        self._loop = asyncio.new_event_loop()
        self._thread: Any = _Inline(self._loop)
        self._owner = _Owner()
        self._remote_session = RemoteSession.__new__(
            RemoteSession
        )  # without a catalogue, which a link would fill
        vars(self._remote_session).update(
            allowed=allowed(),
            revisions=self._revisions,
            rehearsals=SimpleNamespace(shown=self._rehearse),
            _asking=self._owner,
            _thread=self._thread,
            _link=self,
            _program=None,
            _lock=contextlib.nullcontext(),
            _settings=Settings(mates="off"),  # those in a room
        )
        self._mates = _Mates()
        self._remote_session.program().agreement = self._mates
        self.pointers = {name: self.share(real, name, mocks[name]) for name, real in data.items()}

    def share(self, obj: Any, name: str, mock: Any) -> Pointer:
        """Have the owner share an object, under a new name, and get the pointer to it."""
        self._owner.take(name, obj)
        self._revisions.take(name, mock)
        self._mates.desk.take((name, 1), memoryview(_bytes_of(mock)))
        if self._unaltered is not None:
            self._unaltered.take(name, mock)
        told = values.summarise(obj)
        asking: Any = self._owner
        info = AssetInfo(name, 1, told.kind, told.detail, told.size_bytes, mock="given")
        return Pointer(info, asking, self._thread, self._remote_session)

    def close(self) -> None:
        """Let go of the loop."""
        self._loop.close()

    def _rehearse(self, program: Program, mock: Any, *, sizes_are_fixed: bool) -> None:
        """Compare what a program makes of the mocks alone with what the session shows, as a duet does in a
        room. Raises ProgramDiffers.
        """
        if self._unaltered is None or b'"draw"' in program.text:
            return
        try:
            made, shown = self._unaltered.run(program), plain(mock)
        except NoResult:
            return  # which the owner's run says as well
        if found := difference(shown, made):
            raise ProgramDiffers(found)

    def remote(self, obj: Any) -> Any:
        """As of a duet."""
        return place(obj, self._remote_session)

    def fetch(self, obj: Any) -> Any:
        """As of a duet."""
        return fetch(obj, self._remote_session, "the fuzzer", 10)


class _Owner:
    """Answers each request at once, by a run of its program on the objects as they were given."""

    peer_name = "Olga"

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def take(self, name: str, obj: Any) -> None:
        self._data[name] = _bytes_of(obj)

    def check_open(self) -> None:
        """It is."""

    async def fetch(self, question: Question) -> Any:
        if question.program is None:
            return values.decode(memoryview(bytearray(self._data[question.asset.name])))
        try:
            return self.run(question.program)
        except NoResult as failure:
            raise OperationFailed(f"{failure.fault}") from None

    def run(self, program: Program) -> Any:
        """What a program makes. Raises NoResult."""
        state = np.random.get_state(), torch.get_rng_state()
        try:
            return self._made(program)
        finally:
            np.random.set_state(state[0])
            torch.set_rng_state(state[1])

    def _made(self, program: Program) -> Any:
        assets = {key: memoryview(bytearray(self._data[key[0]])) for key in program.assets}
        read = body.read(memoryview(bytearray(b"".join(program.segments))))
        with Draws("00") as draws, Progress(lambda name, content: None) as progress:
            made, _ = Interpreter(allowed(), assets, read, draws).run(progress)
            if isinstance(made, faults.Fault):
                raise NoResult(made)
            return values.decode(memoryview(bytearray(_bytes_of(made))))


class _Mates(Mates):
    """Those of a desk, which are asked here."""

    def __init__(self) -> None:
        super().__init__(None, Settings(), None)  # type: ignore[arg-type]
        self.desk = MatesHandler()

    def _asked(self, program: Program) -> tuple[Any, ...]:
        state = np.random.get_state(), torch.get_rng_state()
        try:
            read = body.read(memoryview(bytearray(b"".join(program.segments))))
            return tuple(map(read_answer, self.desk.answers(read)))
        finally:
            np.random.set_state(state[0])
            torch.set_rng_state(state[1])


def _bytes_of(obj: Any) -> bytes:
    return b"".join(values.encode(obj, plain_nan=True).segments)


class _Revisions:
    """The mocks of a desk, copied, since what is wrong may write into them."""

    def __init__(self) -> None:
        self._all: dict[str, Any] = {}

    def take(self, name: str, mock: Any) -> None:
        self._all[name] = SimpleNamespace(mock=(copy.deepcopy(mock),), hidden=None)

    def hold(self, info: AssetInfo) -> object:
        return self

    def of(self, info: AssetInfo) -> Any:
        return self._all[info.name]

    get = of


class _Inline:
    """A loop's thread where there is none: what is to be done there is done at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return function()

        return self.run(called())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def submit(self, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(self.run(work))
        except Exception as error:
            future.set_exception(error)
        return future
