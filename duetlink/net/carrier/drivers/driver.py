"""The contract of a driver: it reaches the peer's driver by some means and yields an ordered stream of bytes.

A driver is a coroutine function `establish(session) -> Established`, one per rung (`_DRIVERS` of
`net/carrier/helper/process.py`). The two drivers of an attempt talk to each other through `session.send` and
`session.receive`: opaque messages, each delivered once and in order by the two kernels over the control
channel. What the peer's driver says is as hostile as what comes from the network.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from duetlink.net.carrier.configuration import Configuration

# what the kernels relay: longer messages and more of them end the attempt
MAX_SIGNAL_BYTES = 4 * 1024
MAX_SIGNALS = 200


@dataclass(frozen=True, slots=True)
class Session:
    """One attempt, as both drivers see it."""

    configuration: Configuration
    send: Callable[[bytes], Awaitable[None]]
    receive: Callable[[], Awaitable[bytes]]


class Established(ABC):
    """A way to the peer, which is the driver's to keep until `close`."""

    #: what this way is, in plain words for a person: "UDP 10.0.0.2:41000 to 10.0.0.3:41000"
    description: str

    @abstractmethod
    async def attach(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Put `protocol` upon the stream, once. Its connection_lost tells when the stream has ended."""

    async def wait_lost(self) -> str:
        """Wait until the driver learns, other than by the stream, that the way is lost; returns why."""
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await lost

    @abstractmethod
    async def close(self) -> None:
        """Free everything, whether it was attached or not. The transport, if any, was aborted before."""


#: May run for some seconds; raises PathUnavailable with the reason, for a person. Cancelled where it is late.
Establish = Callable[[Session], Awaitable[Established]]
