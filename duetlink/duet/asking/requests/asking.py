"""Sends requests to the peer, waits for the answers and fetches what was granted. Runs on the loop thread."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from duetlink.base.events import Sink
from duetlink.base.reraise import reraise
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.text import MAX_NAME, harmless, harmless_lines
from duetlink.compute.operations.canonical import Program
from duetlink.data import values
from duetlink.duet.asking.requests.own_requests import (
    APPROVED,
    COMPLETE,
    DENIED,
    FAILED,
    PENDING,
    WITHDRAWN,
    OwnRequestRecord,
)
from duetlink.duet.display import visible
from duetlink.duet.objects import program_body
from duetlink.duet.objects.asset import REQUEST_ID_BYTES, AssetInfo
from duetlink.duet.objects.job_log import JobLog
from duetlink.errors import (
    CallTimeout,
    LinkClosed,
    OperationFailed,
    RemoteProtocolError,
    RequestDenied,
    SettingError,
)
from duetlink.net.link.link import Link
from duetlink.net.link.transfer import Transfer
from duetlink.settings import Settings

_KEPT_RECORDS = 200
_MAX_WORDS = 2_000  # characters of the owner's words in an error

# the owner replies only after it has fetched the values that a program needs, perhaps over a slow link
_SENT_TIMEOUT_S = 7 * 24 * 3600.0


class Submittable(Protocol):
    """A function with its arguments, ready to be sent."""

    def offered(self, link: Link) -> AbstractAsyncContextManager[pb.Job]:
        """Return a context that gives the message to send; its offers of values end with the block."""


class What(NamedTuple):
    """The kind of answer wanted for the result of a program; by default the result itself."""

    statistic: bytes = b""  # a private statistic of the result, described in JSON
    check: bool = False  # True: only an answer whether the owner can compute the result


class Question:
    """One request of this side and its progress. Changed on the loop thread only."""

    def __init__(
        self,
        asset: AssetInfo,
        reason: str,
        program: Program | None = None,
        expires_s: float = 0.0,
        asked: What = What(),  # noqa: B008 - immutable
        job: Submittable | None = None,
        check: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        if not isinstance(reason, str):
            raise SettingError(f"reason has to be a text that the owner reads, not {reason!r}")
        self.asset = asset
        self.reason = reason
        self.program = program  # makes the requested result; None: the asset itself is requested
        self.expires_s = expires_s
        self.asked = asked
        self.job = job  # a function to run, instead of an asset or program
        self.check = check  # has to finish without an error before the value is handed out
        self.log = JobLog()  # what the function prints, as far as the owner lets that out
        self.request_id = secrets.token_bytes(REQUEST_ID_BYTES)
        self.record = OwnRequestRecord(asset.name, reason)
        self.transfer: Transfer | None = None
        self.answered: asyncio.Future[pb.Answer] = asyncio.get_running_loop().create_future()

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def is_of_asset(self) -> bool:
        """True if the request is for a shared object itself, not for a result."""
        return self.program is None and self.job is None

    @property
    def title(self) -> str:
        """The requested object in words: the name of an asset in quotes, or the owner's name of a result."""
        return repr(self.asset.name) if self.is_of_asset else self.record.name


class Asking:
    """The requests of this side that wait for the peer, and the records of the last 200."""

    def __init__(self, settings: Settings, sink: Sink) -> None:
        self._settings = settings
        self._sink = sink
        self._link: Link | None = None
        self._open: dict[bytes, Question] = {}
        self.records: deque[OwnRequestRecord] = deque(maxlen=_KEPT_RECORDS)
        self._asked = 0
        self._closed: LinkClosed | None = None
        self._closed_words = ""

    def attach(self, link: Link) -> None:
        self._link = link
        link.rpc.handle(pb.Answer, self._receive)
        link.rpc.notice(pb.Answer, self._answered)
        link.rpc.notice(pb.WorkLog, self._logged)

    def successor(self) -> Asking:
        """Return the object that continues with another peer after `detach`; it keeps the records."""
        asking = Asking(self._settings, self._sink)
        asking.records, asking._asked = self.records, self._asked
        return asking

    def detach(self, error: LinkClosed, words: str = "this pointer's duet is closed") -> None:
        """Fail all waiting requests with `error` because the link has closed, and refuse new ones."""
        self._closed, self._closed_words = error, words
        for question in self._open.values():
            if not question.answered.done():
                question.answered.set_exception(reraise(error))
                question.answered.exception()

    @property
    def peer_name(self) -> str:
        """The name that the peer gives itself. May be read from any thread."""
        return self._link.peer_name if self._link is not None else "the peer"

    def check_open(self) -> None:
        """Raise LinkClosed if the duet is closed or goes on with another peer. Any thread may call."""
        if (error := self._closed) is not None:
            raise type(error)(f"{self._closed_words}: {error}")

    async def fetch(self, question: Question) -> Any:
        """Send the request, wait for the answer without a time limit, fetch the value and decode it.

        A cancel withdraws the request or cancels its transfer, and notifies the owner.

        Raises:
            RequestDenied, AssetNotFound, AssetChanged, LinkClosed, TransferFailed, MalformedValue, …
        """
        record = question.record
        record.number, record.task = self._asked, asyncio.current_task()
        self._asked += 1
        self.records.append(record)
        try:
            value = await self._checked(question)
        except asyncio.CancelledError:
            self._settle(record, WITHDRAWN)
            raise
        except RequestDenied as denied:
            self._settle(record, DENIED, denied.reason)
            raise
        except BaseException as error:
            self._settle(record, FAILED, str(error))
            raise
        finally:
            record.task = None  # a finished task keeps the value alive
        self._settle(record, COMPLETE)
        return value

    def _settle(self, record: OwnRequestRecord, state: str, words: str = "") -> None:
        record.settle(state, words)
        self._sink.changed()

    async def _checked(self, question: Question) -> Any:
        """Fetch while the question's check runs; an error of the check cancels the request."""
        if question.check is None:
            return await self._fetch(question)
        try:
            async with asyncio.TaskGroup() as both:
                fetching = both.create_task(self._fetch(question))
                both.create_task(question.check())
        except BaseExceptionGroup as failed:
            error = failed.exceptions[0]
        else:
            return fetching.result()
        try:
            raise error
        finally:
            del error  # the error and this frame refer to each other

    async def _fetch(self, question: Question) -> Any:
        link = self._link
        if link is None:
            raise LinkClosed("no peer is connected yet; see duet.state, or duet.wait_connected()")
        asset = question.asset
        best = link.path_selector.best
        # before the call: the answer may overtake the coroutine that waits for the call's reply
        self._open[question.request_id] = question
        try:
            ask = pb.Ask(
                request_id=question.request_id,
                name=asset.name if question.is_of_asset else "",
                revision=asset.revision,
                reason=question.reason,
                path=best.name if best else "",
                expires_s=question.expires_s,
                statistic=question.asked.statistic,
                check=question.asked.check,
            )
            answer = await self._call(link, ask, question)
            if answer.name:
                question.record.name = harmless(answer.name[:MAX_NAME])
            if answer.state == pb.Answer.PENDING:
                self._settle(question.record, PENDING)
                answer = await question.answered
        except (CallTimeout, asyncio.CancelledError):
            # sent even if the owner has answered meanwhile: the answer may be on its way
            link.rpc.tell_nowait(pb.Withdraw(request_id=question.request_id))
            raise
        finally:
            del self._open[question.request_id]
        if answer.state == pb.Answer.DENIED:
            reason = harmless_lines(answer.reason)
            words = f": {reason}" if reason else ", without a reason"
            raise RequestDenied(f"the owner denied {visible(question.title)}{words}", reason)
        if answer.state == pb.Answer.FAILED and not question.is_of_asset:
            raise OperationFailed(harmless_lines(answer.reason[:_MAX_WORDS]))
        if answer.state != pb.Answer.APPROVED:
            raise RemoteProtocolError(f"the peer answered a request with state {answer.state}")
        self._settle(question.record, APPROVED)

        def started(transfer: Transfer) -> None:
            question.transfer = transfer
            if question.is_of_asset:  # results are computed again, not requested by name
                transfer.origin = question

        body = await link.imports.pull(
            question.record.name, answer.offer, self._settings.max_value_bytes, started
        )
        # in a thread of its own: building a large frame would block the loop
        room = values.DecodeBudget(self._settings.max_value_bytes)
        return await asyncio.to_thread(values.decode, body, room=room)

    async def _receive(self, answer: pb.Answer) -> pb.Done:
        self._answered(answer)
        return pb.Done()

    async def _call(self, link: Link, ask: pb.Ask, question: Question) -> pb.Answer:
        # the owner has to fetch the values of a program or function before it can answer
        timeout_s = None if question.is_of_asset else _SENT_TIMEOUT_S
        if question.program is not None:
            async with program_body.offered(link, question.program) as body:
                ask.program.CopyFrom(body)
                return await link.rpc.call(ask, pb.Answer, timeout_s=timeout_s)
        if question.job is not None:
            async with question.job.offered(link) as job:
                ask.job.CopyFrom(job)
                return await link.rpc.call(ask, pb.Answer, timeout_s=timeout_s)
        return await link.rpc.call(ask, pb.Answer)

    def _logged(self, message: pb.WorkLog) -> None:
        question = self._open.get(message.request_id)
        if question is not None:
            question.log.add(message.lines)
            if message.HasField("fraction"):
                question.log.tell(message.fraction)

    def _answered(self, answer: pb.Answer) -> None:
        question = self._open.get(answer.request_id)
        if question is not None and not question.answered.done():
            question.answered.set_result(answer)
        elif answer.HasField("offer") and self._link is not None:  # the request was withdrawn meanwhile
            self._link.rpc.tell_nowait(pb.TransferEnd(transfer_id=answer.offer.transfer_id))
