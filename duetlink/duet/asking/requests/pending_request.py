"""The object that `request()` returns: the state of a request and, in the end, its value."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Generator
from typing import Any

from duetlink import tracebacks
from duetlink.base.drawing.waiting import WaitingLine
from duetlink.base.quantities import size_text
from duetlink.base.runtime.loop import LoopThread
from duetlink.duet.asking.requests.asking import Asking, Question
from duetlink.duet.asking.requests.own_requests import APPROVED, COMPLETE, DENIED, PENDING, WAITING
from duetlink.duet.display import Table, visible
from duetlink.duet.objects.job_log import LogLines
from duetlink.duet.objects.progress import Progress
from duetlink.errors import RequestTimeout, RequestWithdrawn
from duetlink.net.link.transfer import Transfer

_ASK_AGAIN = (
    "nothing of it is kept: ask again with a longer one, or use request(), which fetches in the background"
)


class PendingRequest:
    """A request that is sent, answered and fetched in the background. Use from any thread."""

    def __init__(self, make: Callable[[], Question], asking: Asking, thread: LoopThread) -> None:
        """Send a request. `make` is called on the loop thread, since a question owns one of its futures.

        Raises LinkClosed.
        """
        asking.check_open()
        self._thread = thread
        self._asking = asking
        self._question = thread.call(make)
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
        """The lines that a function has printed at the owner so far; none if the owner does not permit it."""
        return LogLines(self._question.log.lines)

    @property
    def progress(self) -> float | None:
        """The progress that a function reports, from 0 to 1; None if it reports none or may not."""
        return self._question.log.fraction

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for the value and return it.

        After a second, a line shows what the call waits for, then the progress of the transfer.

        `timeout_s` bounds the whole wait, for the owner's answer and for the value to arrive. The request and
        its transfer go on after a timeout: `result` may be called again.

        Raises:
            RequestDenied, RequestTimeout, RequestWithdrawn, AssetChanged, TransferFailed, LinkClosed.
        """
        return self._result(timeout_s, "stop waiting", "it goes on: wait for it with result() again")

    def result_or_withdraw(self, timeout_s: float | None = None) -> Any:
        """Wait like `result`, and withdraw the request on any error, timeout or interrupt."""
        try:
            return self._result(timeout_s, "withdraw the request", _ASK_AGAIN)
        except BaseException:
            self.withdraw()
            raise

    def _result(self, timeout_s: float | None, interrupt: str, then: str) -> Any:
        question = self._question
        peer = visible(self._asking.peer_name)
        with WaitingLine("", interrupt) as line, Progress(question.asset.name, peer) as progress:

            def show() -> None:
                if question.state in WAITING:
                    line.what = f"asked {peer} for {visible(question.title)}"  # the owner may rename it
                    line.show()
                else:
                    line.end(_outcome(question.state))
                    progress.show(question.transfer)

            came = wait_future(self._future, timeout_s, on_wait=show)
            unanswered = not came and question.state in WAITING
            line.end("no answer" if unanswered else _outcome(question.state))
        if unanswered:
            raise RequestTimeout(
                f"no answer to the request for {question.asset.name!r} within {timeout_s:g} s; "
                "ask again with a longer one, or use request(), which waits in the owner's queue"
            )
        if not came:
            raise RequestTimeout(
                f"{question.asset.name!r} was granted and did not arrive within {timeout_s:g} s"
                f"{_how_far(question.transfer)}; {then}"
            )
        try:
            return self._future.result()
        except concurrent.futures.CancelledError:
            raise RequestWithdrawn(f"the request for {question.asset.name!r} was withdrawn") from None

    def withdraw(self) -> None:
        """Withdraw the request, or cancel its transfer. No effect once it has ended."""
        self._future.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        return f"<PendingRequest for {visible(self._question.asset.name)!r}: {self.state}>"

    def _repr_html_(self) -> str:
        words = {PENDING: "waits for the owner", COMPLETE: "here: .result()", DENIED: "denied"}
        row = (self._question.asset.name, self._question.reason, words.get(self.state, self.state))
        return Table("Request", ("object", "reason", "state"), [row])._repr_html_()


def wait_future(
    future: concurrent.futures.Future[Any],
    timeout_s: float | None,
    *,
    on_wait: Callable[[], None],
) -> bool:
    """Wait for `future`, calling `on_wait` ten times a second; return False if `timeout_s` passed before."""
    try:
        return _wait(future, timeout_s, on_wait)
    except KeyboardInterrupt as interrupt:
        tracebacks.shorten(interrupt)
        raise


def _wait(
    future: concurrent.futures.Future[Any],
    timeout_s: float | None,
    on_wait: Callable[[], None],
) -> bool:
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while not future.done():
        tick_s = 0.1
        if deadline_s is not None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            tick_s = min(tick_s, left_s)
        concurrent.futures.wait((future,), tick_s)
        on_wait()
    return True


def _how_far(transfer: Transfer | None) -> str:
    """Return the progress of a transfer in words; an empty text if it has not begun."""
    if transfer is None:
        return ""
    return f": {size_text(transfer.done_bytes)} of {size_text(transfer.size_bytes)} have come"


def _outcome(state: str) -> str:
    """Return the word for the end of the waiting line: the value may be complete already when it is drawn."""
    return APPROVED if state == COMPLETE else state
