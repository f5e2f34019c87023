"""The contract of a path. A path moves one body from its sender to its receiver; each side has an instance.

The receiver opens a path (reaches and authenticates the peer by it) and pulls. The sender makes a ticket that
is good for one pull. What differs between paths is how the bytes come, and nothing else: the same values, the
same errors, resumable at any offset unless the path takes over a body whole.
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
    """What a path may use of its link."""

    rpc: Rpc
    bulk: DurableChannel
    client: Identity  # as whom this side's Flight clients come to the peer
    peer_certificate_pem: bytes
    tickets: TicketTable
    server: asyncio.Future[FlightServer]
    waiting: Executor  # for calls that wait for the peer, or for a network
    reading: Executor  # for what reads or writes a whole object in memory
    decoding: Decoding
    initiator: bool  # exactly one of the two sides is
    prepare_limit_bytes: int
    carriers: CarrierCommands
    ice_servers: tuple[IceServer, ...]
    map_port: bool  # whether the user allows to ask the router for one
    holdings: Holdings
    sink: Sink
    listen: str | None  # the address at which a path may listen; None: all


class Path(ABC):
    """One way to the peer. Methods belong to the loop thread; an executor of the context does what blocks."""

    name: ClassVar[str]
    # what its `open` asks the peer, if anything: a peer that forbids this path refuses such a call
    query: ClassVar[type[Message] | None] = None
    # whether opening it starts a process, which is spared where it is not needed
    costly: ClassVar[bool] = False
    # whether its speed is worth finding out: it uses a network, and not that of the control channel
    measurable: ClassVar[bool] = True

    def __init__(self, context: PathContext) -> None:
        self._context = context

    @property
    def loss(self) -> float | None:
        """The share of packets that this side has lost lately, where the path knows."""
        return None

    @abstractmethod
    async def open(self) -> None:
        """Reach the peer and prove that it is the peer. May be called again after a failure.

        Raises:
            PathUnavailable: this path does not work now; the message says why, for a person.
        """

    async def wait_down(self) -> Exception:
        """Wait until the path, which is open, breaks by itself, outside of a fetch; returns why. Most break
        only where something is fetched.
        """
        never: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        return await never

    async def prepare(self, outgoing: Outgoing) -> None:  # noqa: B027 - most paths have nothing to prepare
        """Sender: do ahead what `offer` will need for this body, if this path is up and finds it worth it."""

    @abstractmethod
    async def offer(self, transfer_id: bytes, outgoing: Outgoing, order: Order) -> pb.Ticket:
        """Sender: make a ticket for what is ordered of `outgoing`, good for one fetch.

        Raises:
            PathUnavailable: not by this path, e.g. no room in shared memory.
            AssetChanged: the content is no longer what was fingerprinted.
        """

    @abstractmethod
    async def fetch(self, ticket: pb.Ticket, receive_buffer: ReceiveBuffer) -> None:
        """Receiver: pull until the landing is complete or stopped. If cancelled, nothing writes any more.

        Raises:
            PathUnavailable: the path broke; the landing keeps its verified prefix.
            TicketRefused: the ticket is not valid (any more).
            TransferFailed: the peer sent what it did not announce.
        """

    def release(self, transfer_id: bytes) -> None:  # noqa: B027 - most paths hold nothing
        """Sender: the transfer has ended; free what `offer` made for it."""

    async def close(self) -> None:  # noqa: B027 - most paths hold nothing
        """Free everything. Safe to call twice."""
