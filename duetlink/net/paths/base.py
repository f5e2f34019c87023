"""The contract of a path, which moves one body at a time from its sender to its receiver.

Each side has an instance. The receiver opens the path (it reaches and authenticates the peer) and pulls. The
sender makes a ticket that is good for one fetch. Paths differ only in how the bytes travel: values and errors
are the same, and a fetch can resume at any offset, unless the path takes over a body as a whole.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ClassVar

from google.protobuf.message import Message

from duetlink.base.events import Sink
from duetlink.base.runtime.holdings import Holdings
from duetlink.base.wire import schema_pb2 as pb
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.certificate import Identity
from duetlink.net.flight.receiving import Decoding
from duetlink.net.flight.sending import Order
from duetlink.net.flight.server import FlightServer
from duetlink.net.flight.tickets import TicketTable
from duetlink.net.paths.carrier_commands import CarrierCommands
from duetlink.net.peer.durable import DurableChannel
from duetlink.net.peer.rpc import Rpc
from duetlink.settings import IceServer

OPEN_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class PathContext:
    """The parts of its link that a path may use."""

    rpc: Rpc
    bulk: DurableChannel
    client: Identity  # key and certificate with which this side's Flight clients authenticate to the peer
    peer_certificate_pem: bytes
    tickets: TicketTable
    server: asyncio.Future[FlightServer]
    waiting: Executor  # threads for calls that wait for the peer, or for a network
    reading: Executor  # threads for work that reads or writes a whole object in memory
    decoding: Decoding
    initiator: bool  # True on exactly one of the two sides
    prepare_limit_bytes: int
    carriers: CarrierCommands
    ice_servers: tuple[IceServer, ...]
    map_port: bool  # True if the settings allow this side to ask the router for a port mapping
    holdings: Holdings
    sink: Sink
    listen: str | None  # the address on which a path may listen; None: all


class Path(ABC):
    """One way to the peer.

    Methods belong to the loop thread; blocking work goes to an executor of the context.
    """

    name: ClassVar[str]
    # the call that `open` makes to the peer, if any: a peer that forbids this path refuses it
    query: ClassVar[type[Message] | None] = None
    # True if opening it starts a process: it is not opened where it is not needed
    costly: ClassVar[bool] = False
    # True if its speed is measured: it uses a network, and not the control channel's connection
    measurable: ClassVar[bool] = True

    def __init__(self, context: PathContext) -> None:
        self._context = context

    @property
    def loss(self) -> float | None:
        """The share of packets that this side lost recently; None if the path does not know."""
        return None

    @abstractmethod
    async def open(self) -> None:
        """Reach the peer and verify that it is the peer. May be called again after a failure.

        Raises:
            PathUnavailable: this path does not work now; the message says why, for a person.
        """

    async def wait_down(self) -> Exception:
        """Wait until an open path breaks outside of a fetch; return the reason.

        Most paths notice that they are broken only during a fetch, so this never returns.
        """
        never: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        return await never

    async def prepare(self, outgoing: Outgoing) -> None:  # noqa: B027 - most paths have nothing to prepare
        """Sender: prepare what `offer` will need for this body, if the path is up and that pays."""

    def takes_long(self, outgoing: Outgoing) -> bool:
        """Sender: return True if `offer` takes so long for this body that people should see how far it is."""
        return False

    def placed_bytes(self, outgoing: Outgoing) -> int:
        """Sender: return how much of a body that takes long has been prepared by a running `offer`."""
        return 0

    @abstractmethod
    async def offer(self, transfer_id: bytes, outgoing: Outgoing, order: Order) -> pb.Ticket:
        """Sender: make a ticket for the ordered parts of `outgoing`, good for one fetch.

        Raises:
            PathUnavailable: this path cannot carry it, e.g. shared memory is full.
            AssetChanged: the content no longer has its fingerprint.
        """

    @abstractmethod
    async def fetch(self, ticket: pb.Ticket, receive_buffer: ReceiveBuffer) -> None:
        """Receiver: pull until the buffer is complete or stopped.

        If cancelled, no thread writes to it any more.

        Raises:
            PathUnavailable: the path broke; the buffer keeps its verified prefix.
            TicketRefused: the ticket is not valid, or no longer.
            TransferFailed: the peer sent something that it did not announce.
        """

    def release(self, transfer_id: bytes) -> None:  # noqa: B027 - most paths hold nothing
        """Sender: free what `offer` made for a transfer that has ended."""

    async def close(self) -> None:  # noqa: B027 - most paths hold nothing
        """Free everything. Safe to call twice."""
