"""The link below a duet's control messages: a ping and its answer against bare aiortc.

Both ends of each are on one loop thread.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from abc import ABC, abstractmethod

from aiortc import RTCConfiguration, RTCPeerConnection

from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, report
from duetlink.base.runtime.loop import LoopThread
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.link.introducing import Introducing
from duetlink.net.link.link import Link
from duetlink.net.peer.connection import PeerConnection
from duetlink.settings import Settings

PINGS = 300


@benchmark
@rounds(7)
def main(rounds: int) -> None:
    bare, links = _BareAiortc(), _Links()
    samples = interleave(
        {"bare aiortc, message and echo": bare.round_trip, "duetlink ping": links.round_trip}, rounds
    )
    base_s = samples["bare aiortc, message and echo"].median_s
    rows = [
        [name, f"{sample.median_s * 1000:.3f} ({sample.spread})", f"{sample.median_s / base_s:.2f}"]
        for name, sample in samples.items()
    ]
    bare.close()
    links.close()
    report(
        "part_control",
        "Control channel, both ends on one thread",
        ["what", "ms, median (least to most)", "of bare aiortc"],
        rows,
        {name: sample.times_s for name, sample in samples.items()},
    )


class _OnOneThread(ABC):
    """Two connected ends on one loop thread."""

    def __init__(self) -> None:
        self._thread = LoopThread("ends")
        self._thread.run(self._connect())

    def round_trip(self) -> float:
        return self._thread.run(self._measure())

    def close(self) -> None:
        self._thread.run(self._close())
        self._thread.stop()

    @abstractmethod
    async def _connect(self) -> None: ...

    @abstractmethod
    async def _measure(self) -> float:
        """The median of PINGS round trips, in seconds."""

    @abstractmethod
    async def _close(self) -> None: ...


class _Links(_OnOneThread):
    """Two links of duetlink, on one loop thread as the bare connections are."""

    async def _connect(self) -> None:
        offering, answering = PeerConnection([]), PeerConnection([])
        self._endpoint, settings = Endpoint(), Settings()
        introducing = [Introducing(end, settings, self._endpoint) for end in (offering, answering)]
        await offering.accept(await answering.answer(await offering.offer()))
        self._links = await asyncio.gather(
            *(
                Link.connect(one, settings, self._endpoint, "bench", initiator=not index)
                for index, one in enumerate(introducing)
            )
        )
        for link in self._links:
            link.start()

    async def _measure(self) -> float:
        times = [await self._links[0].ping() for _ in range(PINGS)]
        return statistics.median(times)

    async def _close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links))
        await self._endpoint.close()


class _BareAiortc(_OnOneThread):
    """Two bare peer connections with one data channel; the far end sends back what it gets."""

    async def _connect(self) -> None:
        self._near = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._far = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._channel = self._near.createDataChannel("echo", negotiated=True, id=0)
        far = self._far.createDataChannel("echo", negotiated=True, id=0)
        far.on("message", far.send)
        opened = asyncio.get_running_loop().create_future()
        self._channel.on("open", lambda: opened.set_result(None))
        await self._near.setLocalDescription(await self._near.createOffer())
        await self._far.setRemoteDescription(self._near.localDescription)
        await self._far.setLocalDescription(await self._far.createAnswer())
        await self._near.setRemoteDescription(self._far.localDescription)
        await opened
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._channel.on("message", self._answers.put_nowait)

    async def _measure(self) -> float:
        times = []
        for _ in range(PINGS):
            start_s = time.perf_counter()
            self._channel.send(b"ping")
            await self._answers.get()
            times.append(time.perf_counter() - start_s)
        return statistics.median(times)

    async def _close(self) -> None:
        await self._near.close()
        await self._far.close()


if __name__ == "__main__":
    main()
