"""What one holds of an object that the peer shares or has given: a pointer, and the request made by it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from duetlink.base.runtime.loop import LoopThread
from duetlink.base.wire.text import harmless
from duetlink.duet.asking import ASKING, COMPLETE, DENIED, PENDING, Asking, Question
from duetlink.duet.asset import AssetInfo
from duetlink.duet.catalogue import Received
from duetlink.duet.display import Table, size_text, visible
from duetlink.duet.progress import Progress
from duetlink.duet.remote.job_log import LogLines
from duetlink.duet.remote.program import Program
from duetlink.duet.remote.remote import Remote
from duetlink.errors import OperationRefused, RequestTimeout, RequestWithdrawn

if TYPE_CHECKING:
    from duetlink.duet.remote.workbench import Workbench


class Described:
    """An object of the store: its description without its content."""

    def __init__(self, info: AssetInfo) -> None:
        self._info = info

    @property
    def name(self) -> str:
        return harmless(self._info.name)

    @property
    def revision(self) -> int:
        """1 when first shared under this name, one more each time it is shared again."""
        return self._info.revision

    @property
    def kind(self) -> str:
        """The type, e.g. `pandas.DataFrame`."""
        return self._info.kind

    @property
    def detail(self) -> str:
        """Shape and dtype in words, e.g. `569 rows × 31 columns`."""
        return self._info.detail

    @property
    def size_bytes(self) -> int:
        """The bytes that move when it is fetched."""
        return self._info.size_bytes

    @property
    def description(self) -> str:
        return self._info.description

    @property
    def lossy(self) -> str:
        """How its arrays were allowed to change on their way, and how far; empty: they are as they were."""
        return self._info.lossy

    @property
    def tags(self) -> tuple[str, ...]:
        return self._info.tags

    @property
    def budget(self) -> str:
        """What may be spent on private statistics of it, and what is left, in words; empty: there is no
        budget.
        """
        return self._info.budget

    @property
    def mock_words(self) -> str:
        """How the harmless twin that works in its place was made; empty: there is none."""
        return self._info.mock

    def __repr__(self) -> str:
        info = self._info
        return (
            f"<{type(self).__name__} {visible(info.name)!r}: {visible(info.kind)} {visible(info.detail)}, "
            f"{size_text(info.size_bytes)}>"
        )

    def _repr_html_(self) -> str:
        info = self._info
        rows = [("type", f"{info.kind} {info.detail}"), ("size", size_text(info.size_bytes))]
        if info.description:
            rows.append(("description", info.description))
        if info.lossy:
            rows.append(("lossy", info.lossy))
        if info.mock:
            rows.append(("mock", info.mock))
        if info.budget:
            rows.append(("budget", info.budget))
        if info.tags:
            rows.append(("tags", ", ".join(info.tags)))
        return Table(f"{type(self).__name__} {info.name}", ("", ""), rows)._repr_html_()


class Pointer(Remote, Described):
    """A handle on an object that the peer shares. It holds no content; `get` asks for it.

    Where its owner gives a mock, it behaves like the object: operators, NumPy's and torch's functions,
    methods and attributes work on the mock at once, and are recorded; what they return are pointers to
    results, which `get` asks for as well.
    """

    def __init__(self, info: AssetInfo, asking: Asking, thread: LoopThread, workbench: Workbench) -> None:
        Described.__init__(self, info)
        self._asking = asking
        self._thread = thread
        self._workbench = workbench

    @property
    def _state(self) -> tuple[Program, Any, int]:  # type: ignore[override]
        mock = self._workbench.mock(self._info)
        program = self._workbench.program()
        program.track_mode(mock)
        return program, mock, program.asset(self._info.name, self._info.revision)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not self._info.mock:
            words = f"; {self.name!r} has no mock, so that only get() works" if name[0] != "_" else ""
            raise AttributeError(f"{name}{words}")
        return super().__getattr__(name)

    def __dir__(self) -> list[str]:
        return super().__dir__() if self._info.mock else sorted(object.__dir__(self))

    __repr__ = Described.__repr__
    _repr_html_ = Described._repr_html_

    def _check_own(self) -> None:
        raise OperationRefused(
            f"{self.name!r} is its owner's and cannot be changed; work on a copy, such as .copy()"
        )

    def _title(self) -> str:
        return f"{self.name!r} at the owner"

    def request(self, reason: str = "", *, expires_s: float | None = None) -> PendingRequest:
        """Ask the owner for the object and return at once. Awaitable; see PendingRequest. After `expires_s`
        the owner can no longer say yes.
        """
        question = partial(Question, self._info, reason, expires_s=expires_s or 0.0)
        return PendingRequest(question, self._asking, self._thread)

    def get(self, *, reason: str = "", timeout_s: float | None = None) -> Any:
        """Ask the owner for the object, wait for the answer, and return a copy of it.

        `timeout_s` bounds the wait for the answer, not the transfer. The object stays at the owner. If
        interrupted, the request is withdrawn or the transfer cancelled.

        Raises:
            RequestDenied: the owner said no; `.reason` has the owner's words.
            RequestTimeout: no answer within `timeout_s`; the request was withdrawn.
            AssetNotFound, AssetChanged: it is no longer shared, or is another revision now.
            TransferFailed, LinkClosed: it did not arrive; nothing partial is kept.
        """
        return self.request(reason).result_or_withdraw(timeout_s)


class ReceivedObject(Described):
    """An object that the peer gave with `send`; it is here already."""

    def __init__(self, received: Received) -> None:
        super().__init__(received.info)
        self._value = received.value

    def get(self, *, reason: str = "", timeout_s: float | None = None) -> Any:
        """The object itself; the same each time. It asks nobody, so both arguments have no effect."""
        return self._value


class PendingRequest:
    """A request on its way: made, answered, fetched in the background. Use from any thread."""

    def __init__(self, make: Callable[[], Question], asking: Asking, thread: LoopThread) -> None:
        """`make` is called on the loop thread: a question owns a future of it. Raises LinkClosed."""
        asking.check_open()
        self._thread = thread
        self._question = thread.run(_made(make))
        self._future: concurrent.futures.Future[Any] = thread.submit(asking.fetch(self._question))

    @property
    def state(self) -> str:
        """`asking`, `pending`, `approved`, `denied`, `withdrawn`, `complete` or `failed`."""
        return self._question.state

    @property
    def reason(self) -> str:
        return self._question.reason

    @property
    def log(self) -> LogLines:
        """What a function has printed at the owner so far, if the owner lets that out; else nothing."""
        return LogLines(self._question.log.lines)

    @property
    def progress(self) -> float | None:
        """How far a function has told that it is, from 0 to 1, if the owner lets that out; else None."""
        return self._question.log.fraction

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for the value, showing progress of a transfer that takes more than a second.

        `timeout_s` bounds the wait for the owner's answer; the request stays pending after it.

        Raises:
            RequestDenied, RequestTimeout, RequestWithdrawn, AssetChanged, TransferFailed, LinkClosed.
        """
        with Progress(self._question.asset.name) as progress:
            waiting = wait_future(
                self._future,
                timeout_s,
                still=lambda: self._question.state in (ASKING, PENDING),
                on_wait=lambda: progress.show(self._question.transfer),
            )
        if not waiting:
            raise RequestTimeout(
                f"no answer to the request for {self._question.asset.name!r} within {timeout_s:g} s; "
                "ask again with a longer one, or use request(), which waits in the owner's queue"
            )
        try:
            return self._future.result()
        except concurrent.futures.CancelledError:
            raise RequestWithdrawn(f"the request for {self._question.asset.name!r} was withdrawn") from None

    def result_or_withdraw(self, timeout_s: float | None = None) -> Any:
        """`result`; whatever keeps it from coming, an interrupt too, withdraws the request."""
        try:
            return self.result(timeout_s)
        except BaseException:
            self.withdraw()
            raise

    def withdraw(self) -> None:
        """Take the request back, or cancel its transfer. Without effect once it has ended."""
        self._future.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        return f"<PendingRequest for {visible(self._question.asset.name)!r}: {self.state}>"

    def _repr_html_(self) -> str:
        words = {PENDING: "waits for the owner", COMPLETE: "here: .result()", DENIED: "denied"}
        row = (self._question.asset.name, self._question.reason, words.get(self.state, self.state))
        return Table("Request", ("object", "reason", "state"), [row])._repr_html_()


async def _made(make: Callable[[], Question]) -> Question:
    return make()


def wait_future(
    future: concurrent.futures.Future[Any],
    timeout_s: float | None,
    *,
    still: Callable[[], bool],
    on_wait: Callable[[], None],
) -> bool:
    """Wait for `future`, looking up ten times a second; False if `timeout_s` passed while `still()`."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while not future.done():
        tick_s = 0.1
        if deadline_s is not None and still():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            tick_s = min(tick_s, left_s)
        concurrent.futures.wait((future,), tick_s)
        on_wait()
    return True
