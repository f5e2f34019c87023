"""Loop side of the owner's queue: requests that came in, the answers given, the grants that stand."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass, field

from duetlink.duet.asset import AssetInfo
from duetlink.duet.catalogue import Catalogue
from duetlink.errors import AssetChanged, DuetError, LimitExceeded, RemoteProtocolError, RequestAnswered
from duetlink.link.link import Link
from duetlink.settings import Settings
from duetlink.wire import schema_pb2 as pb

REQUEST_ID_BYTES = 16
MAX_REASON = 2000  # characters
HISTORY = 10_000  # requests of one session, answered or not
_TICKET_ALONG_BYTES = 1024 * 1024 * 1024

PENDING, APPROVED, DENIED, WITHDRAWN = "pending", "approved", "denied", "withdrawn"


@dataclass(slots=True)
class Incoming:
    """One request of the peer's. Written on the loop thread only."""

    number: int
    request_id: bytes
    asset: AssetInfo
    peer_name: str
    reason: str
    path: str
    arrived: datetime.datetime
    state: str = PENDING
    answer_reason: str = ""
    answered: datetime.datetime | None = None
    times: int = 1  # how often it was asked: a grant answers the next times
    offer: pb.TransferOffer | None = None  # what an approval let out: its transfer's number only


@dataclass(slots=True)
class Inbox:
    """Requests of the peer in the order in which they came, and what was answered."""

    catalogue: Catalogue
    settings: Settings
    requests: list[Incoming] = field(default_factory=list)
    # by name and revision: the request that was approved for it
    _granted: dict[tuple[str, int], Incoming] = field(default_factory=dict)
    _link: Link | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self, link: Link) -> None:
        """Answer this peer."""
        self._link = link
        self.catalogue.on_retired = self._retired
        link.rpc.handle(pb.Ask, self._asked)
        link.rpc.notice(pb.Withdraw, self._withdrawn)

    @property
    def pending(self) -> list[Incoming]:
        return [request for request in self.requests if request.state == PENDING]

    async def wait_pending(self) -> Incoming:
        """The oldest request without an answer, waiting for one."""
        while True:
            if pending := self.pending:
                return pending[0]
            self._arrived.clear()
            await self._arrived.wait()

    async def approve(self, request: Incoming) -> None:
        """Grant the peer this revision of the asset; every pending request for it is answered.

        Raises:
            RequestAnswered: it has an answer, or was withdrawn.
            AssetNotFound, AssetChanged: what was asked for is no longer shared.
            LinkClosed: the peer is gone.
        """
        self._check_pending(request)
        self.catalogue.find_mine(request.asset.name, request.asset.revision)
        self._granted[request.asset.name, request.asset.revision] = request
        failed: DuetError | None = None
        for same in self.pending:
            if same.asset == request.asset:
                try:
                    await self._grant(same)
                except DuetError as error:  # the others are answered all the same
                    failed = failed or error
        if failed is not None:
            raise failed

    async def _grant(self, request: Incoming) -> None:
        self._settle(request, APPROVED)
        try:
            answer = await self._approval(request, request.request_id, request.path)
        except AssetChanged as error:  # found by reading it once more: nothing may leave
            self._granted.pop((request.asset.name, request.asset.revision), None)
            await self._refuse(request, str(error))
            raise
        except DuetError:  # it can be approved again
            request.state = PENDING
            raise
        await self._tell(request, answer)

    async def deny(self, request: Incoming, reason: str) -> None:
        """Say no; the peer gets `reason`. Raises RequestAnswered, LinkClosed."""
        self._check_pending(request)
        await self._refuse(request, reason)

    async def _refuse(self, request: Incoming, reason: str) -> None:
        self._settle(request, DENIED, reason)
        await self._tell(
            request, pb.Answer(request_id=request.request_id, state=pb.Answer.DENIED, reason=reason)
        )

    async def _asked(self, ask: pb.Ask) -> pb.Answer:
        if self._link is None or len(ask.request_id) != REQUEST_ID_BYTES:
            raise RemoteProtocolError(f"a request's number has {REQUEST_ID_BYTES} bytes")
        if any(request.request_id == ask.request_id for request in self.pending):
            raise RemoteProtocolError("a request of this number is pending")
        asset = self.catalogue.find_mine(ask.name, ask.revision)
        if (granted := self._granted.get((ask.name, ask.revision))) is not None:
            granted.times += 1
            return await self._approval(granted, ask.request_id, ask.path)
        limit = self.settings.max_pending_requests
        if len(self.pending) >= limit:
            raise LimitExceeded(f"{limit} requests wait for an answer; wait, or withdraw some")
        if len(self.requests) >= HISTORY:
            raise LimitExceeded(f"this session has had {HISTORY} requests; launch a new one")
        request = Incoming(
            len(self.requests),
            ask.request_id,
            asset.info,
            self._link.peer_name,
            ask.reason[:MAX_REASON],
            ask.path,
            _now(),
        )
        self.requests.append(request)
        self._arrived.set()
        return pb.Answer(request_id=ask.request_id, state=pb.Answer.PENDING)

    async def _approval(self, request: Incoming, request_id: bytes, path: str) -> pb.Answer:
        assert self._link is not None
        asset = self.catalogue.find_mine(request.asset.name, request.asset.revision)
        # the ticket of a large body may take longer to make than a call may last: it is asked for by itself
        path = path if asset.info.size_bytes <= _TICKET_ALONG_BYTES else ""
        offer = await self._link.exports.offer(asset.info.name, await asset.content.outgoing(), path)
        request.offer = pb.TransferOffer(transfer_id=offer.transfer_id)
        return pb.Answer(request_id=request_id, state=pb.Answer.APPROVED, offer=offer)

    async def _tell(self, request: Incoming, answer: pb.Answer) -> None:
        assert self._link is not None
        try:
            await self._link.rpc.call(answer, pb.Done)
        except (DuetError, asyncio.CancelledError):
            if answer.HasField("offer"):
                self._link.exports.withdraw(answer.offer)
            raise

    def _withdrawn(self, withdraw: pb.Withdraw) -> None:
        for request in self.requests:
            if request.request_id != withdraw.request_id:
                continue
            if request.state == PENDING:
                self._settle(request, WITHDRAWN)
            elif request.offer is not None and self._link is not None:
                self._link.exports.withdraw(request.offer)

    def _retired(self, info: AssetInfo, why: str) -> None:
        self._granted.pop((info.name, info.revision), None)
        for request in self.pending:
            if request.asset == info and self._link is not None:
                self._settle(request, DENIED, why)
                answer = pb.Answer(request_id=request.request_id, state=pb.Answer.DENIED, reason=why)
                self._link.rpc.tell_nowait(answer)

    def _check_pending(self, request: Incoming) -> None:
        if request.state != PENDING:
            raise RequestAnswered(
                f"request {request.number} for {request.asset.name!r} is {request.state}; only a pending one "
                "can be answered"
            )

    def _settle(self, request: Incoming, state: str, reason: str = "") -> None:
        request.state = state
        request.answer_reason = reason
        request.answered = _now()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
