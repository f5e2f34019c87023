"""The introduction: both sides of a new connection exchange names and certificates, then it becomes a
link.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from duetlink.base.runtime import machine
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.text import harmless
from duetlink.data.codecs import codecs
from duetlink.errors import DuetError, LinkClosed, RemoteProtocolError
from duetlink.net.flight.certificate import Identity, check_certificate, check_issued, create_subject
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.link.reconnector import Reconnector
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.rpc import Rpc
from duetlink.settings import Settings

_MOST_NAME = 64  # characters
_BYE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class PeerFacts:
    """The facts about the peer that the introduction established."""

    peer_name: str
    peer_certificate_pem: bytes
    codecs: frozenset[str]  # that both sides have
    together: bool  # True if the peer is on this machine
    loopback: bool  # True if it shares this side's loopback interface; a container may not
    subject: bytes  # the name in the certificate that this side issued for the peer's Flight client
    client: Identity  # key and certificate with which this side's Flight clients authenticate to the peer


class Introducing:
    """Owns the channels until they are handed over to a link. Methods belong to the loop thread."""

    def __init__(self, connection: PeerConnection, settings: Settings, endpoint: Endpoint) -> None:
        # register handlers now: the peer's first message may arrive before this side sees the channels open
        self._reconnector = Reconnector(connection, settings, self.violated)
        self._rpc = Rpc(self._reconnector.control, call_timeout_s=settings.call_timeout_s)
        self._opened = False
        self._ended: LinkClosed | None = None
        self._on_end: Callable[[LinkClosed], None] | None = None  # set by `hand_over`
        self._settings = settings
        self._endpoint = endpoint
        self._subject = create_subject()
        self._introduced: asyncio.Future[pb.Introduction] = asyncio.get_running_loop().create_future()
        self._introduced.add_done_callback(_retrieve_error)
        self._rpc.handle(pb.Introduction, self._introduce)
        self._rpc.handle(pb.Bye, self._bye)
        self._rpc.notice(pb.Bye, lambda bye: self._end(peer_closed(bye.reason)))

    async def accept(self, answer: bytes) -> None:
        """Apply the peer's answer to this side's offer (session descriptions)."""
        await self._reconnector.accept(answer)

    async def meet(self, name: str, timeout_s: float | None = None) -> PeerFacts:
        """Wait for the channels and introduce both sides; return after a full round trip.

        Raises:
            PairingError: there is no network path, or the peer did not answer in time.
            RemoteProtocolError: the peer's introduction, or the certificate that it issued, cannot be used.
            LinkClosed: the peer closed it.
        """
        await self._reconnector.open(timeout_s or self._settings.pairing_timeout_s)
        self._opened = True
        timeout_s = self._settings.pairing_timeout_s
        identity = self._endpoint.identity
        mine = pb.Introduction(
            name=name,
            certificate_pem=identity.certificate_pem,
            codecs=[codec.name for codec in codecs()],
            machine=machine.mark(identity.certificate_pem),
            loopback=machine.loopback_mark(identity.certificate_pem),
        )
        issued = await self._rpc.call(mine, pb.ClientCertificate, timeout_s=timeout_s)
        async with asyncio.timeout(timeout_s):
            theirs = await asyncio.shield(self._introduced)
        if self._ended is not None:
            raise self._ended
        return PeerFacts(
            harmless(theirs.name[:_MOST_NAME]),
            theirs.certificate_pem,
            frozenset(codec.name for codec in codecs()) & frozenset(theirs.codecs),
            machine.is_marked(theirs.certificate_pem, theirs.machine),
            machine.has_loopback(theirs.certificate_pem, theirs.loopback),
            self._subject,
            check_issued(issued.pem, identity),
        )

    def hand_over(self, on_end: Callable[[LinkClosed], None]) -> tuple[Reconnector, Rpc]:
        """Give the channels to the caller, who owns them from here on.

        `on_end` is called when the peer says goodbye or breaks the protocol.
        """
        self._on_end = on_end
        return self._reconnector, self._rpc

    async def close(self, reason: str = "") -> None:
        """Say goodbye and free the channels, unless they were handed over. Safe to call twice."""
        if self._on_end is not None:
            return
        if self._opened and self._ended is None:
            await say_goodbye(self._rpc, reason)
        self._end(LinkClosed("this side closed the link"))
        await self._reconnector.close("this side closed the link")

    async def _introduce(self, introduction: pb.Introduction) -> pb.ClientCertificate:
        if self._introduced.done():
            raise RemoteProtocolError("the peer introduced itself twice")
        check_certificate(introduction.certificate_pem)
        issued = self._endpoint.authority.issue(introduction.certificate_pem, self._subject)
        self._introduced.set_result(introduction)
        return pb.ClientCertificate(pem=issued)

    # -- how it ends early -----------------------------------------------------------------------------------

    def _end(self, error: LinkClosed) -> None:
        """Make `meet` fail, or call `on_end` if the channels were handed over."""
        if self._on_end is not None:
            self._on_end(error)
            return
        self._ended = self._ended or error
        self._rpc.close(error)
        if not self._introduced.done():
            self._introduced.set_exception(error)

    def violated(self, error: RemoteProtocolError) -> None:
        """Notify the peer that it broke the protocol, then end."""
        self._rpc.tell_nowait(pb.Bye(reason=f"protocol violation: {error}"))
        self._end(LinkClosed(f"the link was closed because {error}"))

    async def _bye(self, bye: pb.Bye) -> pb.Done:
        asyncio.get_running_loop().call_soon(self._end, peer_closed(bye.reason))
        return pb.Done()


async def say_goodbye(rpc: Rpc, reason: str) -> None:
    """Notify the peer that this side closes the link; wait for its reply for at most a second."""
    with contextlib.suppress(DuetError, TimeoutError):
        async with asyncio.timeout(_BYE_TIMEOUT_S):  # limits the wait also while the link is reconnecting
            await rpc.call(pb.Bye(reason=reason), pb.Done)


def peer_closed(reason: str) -> LinkClosed:
    """Return the error for a goodbye of the peer, with the peer's reason made safe to show."""
    words = harmless(reason[:500])
    said = f": {words}" if words else ""
    error = LinkClosed(f"the peer closed the link{said}; launch or join a new one to go on")
    error.reason = words
    return error


def _retrieve_error(introduced: asyncio.Future[pb.Introduction]) -> None:
    with contextlib.suppress(
        asyncio.CancelledError, DuetError
    ):  # retrieve the error: `meet` may never have been called
        introduced.result()
