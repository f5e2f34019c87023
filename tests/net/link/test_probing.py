"""What a probe says of a path's speed, from when which bytes of it were there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from duetlink.base.wire import schema_pb2 as pb
from duetlink.net.link import probing
from duetlink.net.paths.path_selector import Speed

Arrivals = list[tuple[float, int]]


class ReceiveBuffer:
    position_bytes = 0

    def __init__(self, size_bytes: int, count: Any) -> None:
        self.count = count

    def stop(self) -> None:
        pass

    discard = stop


class Rpc:
    """Keeps what the peer is told. A probe is of 20,000 bytes."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def handle(self, kind: Any, handler: Any) -> None:
        pass

    async def call(self, query: Any, reply: Any) -> pb.TransferOffer:
        return pb.TransferOffer(size_bytes=20_000)

    def tell_nowait(self, message: Any) -> None:
        self.told.append(message)


async def measured(arrivals: Arrivals, alone: bool, rpc: Any = None) -> Speed | None:
    """What a probe says where so many bytes have come until each of these moments."""

    class Path:
        name = "tcp"
        now_s = 0.0

        async def fetch(self, ticket: Any, receive_buffer: ReceiveBuffer) -> None:
            for self.now_s, receive_buffer.position_bytes in arrivals:
                receive_buffer.count(0, 0)

    path: Any = Path()
    unused: Any = None
    rpc = rpc or Rpc()
    traffic: Any = SimpleNamespace(busy=not alone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing, "ReceiveBuffer", ReceiveBuffer)
        patch.setattr(probing, "time", SimpleNamespace(monotonic=lambda: path.now_s))
        return await probing.Prober(rpc, unused, traffic).measure(path)


async def test_what_came_before_the_path_had_settled_does_not_count() -> None:
    slow_start = [(0.0, 0), (0.1, 1000)]
    assert await measured([*slow_start, (0.2, 5000), (0.3, 15_000)], True) == Speed(
        10_000 / (0.3 - 0.2), True
    )


async def test_of_a_short_one_the_second_half_counts() -> None:
    assert await measured([(0.0, 0), (0.05, 1000), (0.0625, 8000), (0.125, 16_000)], False) == Speed(
        128_000, False
    )


async def test_few_arrivals_are_better_than_none() -> None:
    assert await measured([], True) is None
    assert await measured([(0.0, 1000)], True) is None
    assert await measured([(1.0, 1000), (1.0, 2000)], True) is None
    assert await measured([(1.0, 1000), (1.125, 9000)], True) == Speed(64_000, True)
    assert await measured([(1.0, 1000), (1.5, 9000)], True) == Speed(16_000, True)


@pytest.mark.parametrize(("last_bytes", "told"), [(15_000, [100_000.0]), (20_000, [])])
async def test_the_peer_is_told_of_no_speed_of_a_probe_that_came_whole(
    last_bytes: int, told: list[float]
) -> None:
    """A path that has carried all of it in that time is fast, and the processors may have held it."""
    rpc = Rpc()
    assert await measured([(0.0, 0), (0.2, 5000), (0.3, last_bytes)], True, rpc) is not None
    speeds = [message.bytes_per_s for message in rpc.told if isinstance(message, pb.PathSpeed)]
    assert speeds == pytest.approx(told)
