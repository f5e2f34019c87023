"""What an operation will cost: figures of every link, and the time of a schedule predicted from them.

Theory. The model of Hockney, with the ends of LogP: a message of b bytes takes a link's latency and b / rate;
a member sends one thing after the other and receives one thing after the other, both at once. The time of an
operation is that of its slowest member when the rounds of all are played through. A large array goes in
parts, so that from the second part on only the busiest member counts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duetlink.errors import RemoteProtocolError
from duetlink.groups.collectives.schedules.schedule import BlockUse, Schedule, ScheduleRound

# Python's work for one frame at both ends, as measured on loopback.
FRAME_S = 100e-6
# Adding: three streams of memory at some GB/s.
ADD_S_PER_BYTE = 0.3e-9
# A relayed byte passes two networks, of which one is somebody else's: it counts twice.
RELAYED_FACTOR = 2.0
PARTS_AT_ONCE = 4

# As rows name the path of a link; one that is not among them is told as the first.
_PATHS = ("", "local", "tcp", "punched", "udp", "relay", "channel")
_ROW = struct.Struct("<dd??B")


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """What is known of the link to one member. The defaults are those of an ordinary LAN."""

    latency_s: float = 0.0005  # one way
    rate_bytes_per_s: float = 100e6
    relayed: bool = False
    path: str = ""  # by which its bytes come; empty where nothing is known
    measured: bool = False  # whether the rate is; else it is a guess

    def __post_init__(self) -> None:
        if not (math.isfinite(self.latency_s) and self.latency_s >= 0):
            raise ValueError(f"a latency of {self.latency_s} s")
        if not (math.isfinite(self.rate_bytes_per_s) and self.rate_bytes_per_s > 0):
            raise ValueError(f"a rate of {self.rate_bytes_per_s} bytes/s")

    @property
    def s_per_byte(self) -> float:
        return (RELAYED_FACTOR if self.relayed else 1.0) / self.rate_bytes_per_s

    def seconds(self, size_bytes: float) -> float:
        """For one message."""
        return self.latency_s + size_bytes * self.s_per_byte


UNKNOWN = LinkFigures()


@dataclass(frozen=True, slots=True)
class Costs:
    """The links of a group: `links[a][b]` is how bytes go from a to b, as b measured. Equal at all."""

    links: tuple[tuple[LinkFigures, ...], ...]

    @classmethod
    def unknown(cls, size: int) -> Costs:
        return cls(((UNKNOWN,) * size,) * size)

    @property
    def size(self) -> int:
        return len(self.links)

    def link(self, of: int, to: int) -> LinkFigures:
        return self.links[of][to]


def row_to_wire(figures: Mapping[int, LinkFigures], size: int) -> bytes:
    """One member's figures for all members, of equal length at all."""
    found = (figures.get(rank, UNKNOWN) for rank in range(size))
    return b"".join(
        _ROW.pack(
            each.latency_s,
            each.rate_bytes_per_s,
            each.relayed,
            each.measured,
            _PATHS.index(each.path) if each.path in _PATHS else 0,
        )
        for each in found
    )


def row_from_wire(data: bytes) -> tuple[LinkFigures, ...]:
    """Raises RemoteProtocolError unless it is a row of figures that can be computed with."""
    try:
        return tuple(
            LinkFigures(latency_s, rate, relayed, _PATHS[path], measured)
            for latency_s, rate, relayed, measured, path in _ROW.iter_unpack(data)
        )
    except (ValueError, IndexError, struct.error) as error:
        raise RemoteProtocolError(f"figures of links that are none: {error}") from None


def predicted_s(schedules: Sequence[Schedule], size_bytes: float, parts: int, costs: Costs) -> float:
    """Seconds until the last member is done with an array of that size, in that many parts."""
    block_bytes = size_bytes / parts / schedules[0].blocks
    ready = [0.0] * costs.size
    busy_s = [0.0] * costs.size
    for rounds in zip(*(schedule.rounds for schedule in schedules), strict=True):
        ready = _after(rounds, block_bytes, ready, busy_s, costs)
    first_s = max(ready)
    return first_s + (parts - 1) * max(*busy_s, first_s / PARTS_AT_ONCE)


def _after(
    rounds: Sequence[ScheduleRound], block_bytes: float, ready: list[float], busy_s: list[float], costs: Costs
) -> list[float]:
    """When each member has ended a round. Adds to `busy_s` what the round takes of each one's time."""
    sent = list(ready)
    arrival: dict[tuple[int, int], float] = {}
    for rank, round_ in enumerate(rounds):
        for send in round_.sends:
            link = costs.link(rank, send.to)
            sent[rank] += FRAME_S + len(send.blocks) * block_bytes * link.s_per_byte
            arrival[rank, send.to] = sent[rank] + link.latency_s
    ended = []
    for rank, round_ in enumerate(rounds):
        received = ready[rank]
        taken_s = 0.0
        for receive in round_.receives:
            step_bytes = len(receive.blocks) * block_bytes
            work_s = FRAME_S + step_bytes * costs.link(receive.of, rank).s_per_byte
            if receive.how is not BlockUse.REPLACE:
                work_s += step_bytes * ADD_S_PER_BYTE
            received = max(received + work_s, arrival[receive.of, rank])
            taken_s += work_s
        busy_s[rank] += max(sent[rank] - ready[rank], taken_s)
        ended.append(max(sent[rank], received))
    return ended
