"""The contract of a driver: it reaches the peer's driver by some method and yields an ordered stream of
bytes.

A driver is a coroutine function `establish(session) -> Established`, one per carried path (`_DRIVERS` of
`net/carrier/helper/process.py`). The two drivers of an attempt exchange signals with `session.send` and
`session.receive`: opaque messages, which the two kernels deliver once and in order over the control channel.
Signals of the peer's driver are as untrusted as anything from the network.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from duetlink.net.carrier.configuration import Configuration

# limits of the signals that the kernels relay: longer ones, or more of them, end the attempt
MAX_SIGNAL_BYTES = 4 * 1024
MAX_SIGNALS = 200


@dataclass(frozen=True, slots=True)
class Session:
    """One attempt, as its driver sees it."""

    configuration: Configuration
    send: Callable[[bytes], Awaitable[None]]
    receive: Callable[[], Awaitable[bytes]]


class Established(ABC):
    """A connection to the peer, which the driver owns until `close`."""

    #: text for a person, such as "UDP 10.0.0.2:41000 to 10.0.0.3:41000"
    description: str

    @abstractmethod
    async def attach(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Connect `protocol` to the stream, once. Its `connection_lost` is called when the stream ends."""

    async def wait_lost(self) -> str:
        """Wait until the driver learns, other than by the stream, that the connection is lost; return why."""
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await lost

    @abstractmethod
    async def close(self) -> None:
        """Free everything, attached or not. The transport, if there is one, was aborted before."""


#: May run for some seconds. Raises PathUnavailable with the reason, for a person. Cancelled if it is late.
Establish = Callable[[Session], Awaitable[Established]]
