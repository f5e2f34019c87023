"""Predicts the time of an operation from figures of every link.

Theory. Hockney's model of a link, with LogP's model of its ends: a message of b bytes takes the link's
latency plus b / rate; a member sends one message after the other and receives one after the other, both at
once. All members' rounds are played through; the operation takes as long as its slowest member. A large array
is sent in parts that overlap, so from the second part on only the busiest member counts. Members of one host
share its line: what they send to other hosts leaves one after the other.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from duetlink.errors import RemoteProtocolError
from duetlink.groups.collectives.schedules.schedule import BlockUse, Schedule, ScheduleRound

# The Python work for one frame at both ends, measured on loopback.
FRAME_S = 100e-6
# Addition: two arrays read and one written, at some GB/s.
ADD_S_PER_BYTE = 0.3e-9
# A relayed byte crosses two networks, one of them a third party's: it counts twice.
RELAYED_FACTOR = 2.0
PARTS_AT_ONCE = 4

# The paths of links as rows encode them; any other path is encoded as the first.
_PATHS = ("", "local", "tcp", "punched", "udp", "relay", "channel")
_ROW = struct.Struct("<dd??B")

HostRanks = tuple[tuple[int, ...], ...]  # the ranks of each host that share memory, ascending


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """The latency and rate of the link to one member. The defaults are those of an ordinary LAN."""

    latency_s: float = 0.0005  # one way
    rate_bytes_per_s: float = 100e6
    relayed: bool = False
    path: str = ""  # the path of its bytes; empty if it is unknown
    measured: bool = False  # the rate is measured; otherwise it is a guess

    def __post_init__(self) -> None:
        if not (math.isfinite(self.latency_s) and self.latency_s >= 0):
            raise ValueError(f"a latency of {self.latency_s} s")
        if not (math.isfinite(self.rate_bytes_per_s) and self.rate_bytes_per_s > 0):
            raise ValueError(f"a rate of {self.rate_bytes_per_s} bytes/s")

    @property
    def s_per_byte(self) -> float:
        return (RELAYED_FACTOR if self.relayed else 1.0) / self.rate_bytes_per_s

    def seconds(self, size_bytes: float) -> float:
        """Predict the time of one message."""
        return self.latency_s + size_bytes * self.s_per_byte


UNKNOWN = LinkFigures()


@dataclass(frozen=True, slots=True)
class Costs:
    """All links of a group: `links[a][b]` is the link from a to b, as b measured it. Equal at all members."""

    links: tuple[tuple[LinkFigures, ...], ...]
    hosts: HostRanks = ()  # empty if no members share memory

    @classmethod
    def unknown(cls, size: int) -> Costs:
        return cls(((UNKNOWN,) * size,) * size)

    @property
    def size(self) -> int:
        return len(self.links)

    def link(self, of: int, to: int) -> LinkFigures:
        return self.links[of][to]

    def host_of(self, rank: int) -> int:
        """Return the number of the member's host; members of no known host have one each."""
        found = (number for number, ranks in enumerate(self.hosts) if rank in ranks)
        return next(found, rank)

    def with_lines(self) -> Costs:
        """Return these costs with one figure for all links from a host to another, direct or relayed.

        They share the hosts' lines, and are measured at the same time. So the fastest of them says the most
        about the line, and the others how much they had to wait for each other. A link that has not been
        measured is no reason to go around one that has.
        """
        best: dict[tuple[int, int, bool], LinkFigures] = {}

        def line(a: int, b: int) -> tuple[int, int, bool]:
            return self.host_of(a), self.host_of(b), self.links[a][b].relayed

        pairs = [(a, b) for a in range(self.size) for b in range(self.size)]
        crossing = [(a, b) for a, b in pairs if self.host_of(a) != self.host_of(b)]
        for a, b in crossing:
            link, known = self.links[a][b], best.get(line(a, b))
            if known is None or (link.measured, link.rate_bytes_per_s) > (
                known.measured,
                known.rate_bytes_per_s,
            ):
                best[line(a, b)] = link
        rows = [list(row) for row in self.links]
        for a, b in crossing:
            rows[a][b] = best[line(a, b)]
        return replace(self, links=tuple(map(tuple, rows)))

    def among(self, ranks: Sequence[int]) -> Costs:
        """Return the links among some members, whose ranks are their places in `ranks`."""
        return Costs(tuple(tuple(self.links[a][b] for b in ranks) for a in ranks))


def row_to_wire(figures: Mapping[int, LinkFigures], size: int) -> bytes:
    """Encode one member's figures of its links to all members; the length is equal at all."""
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
    """Decode a row. Raises RemoteProtocolError unless its latencies and rates are finite and in range."""
    try:
        return tuple(
            LinkFigures(latency_s, rate, relayed, _PATHS[path], measured)
            for latency_s, rate, relayed, measured, path in _ROW.iter_unpack(data)
        )
    except (ValueError, IndexError, struct.error) as error:
        raise RemoteProtocolError(f"malformed figures of links: {error}") from None


def predicted_s(schedules: Sequence[Schedule], size_bytes: float, parts: int, costs: Costs) -> float:
    """Predict the seconds until the last member is done with an array that is sent in `parts` parts."""
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
    """Return the time at which each member ends a round, and add the round's working time to `busy_s`."""
    sent = list(ready)
    hosts = [costs.host_of(rank) for rank in range(costs.size)]
    line_free: dict[int, float] = {}  # by host
    arrival: dict[tuple[int, int], float] = {}
    for rank, round_ in enumerate(rounds):
        for send in round_.sends:
            link, host = costs.link(rank, send.to), hosts[rank]
            leaves = hosts[send.to] != host
            if leaves:
                sent[rank] = max(sent[rank], line_free.get(host, 0.0))
            sent[rank] += FRAME_S + len(send.blocks) * block_bytes * link.s_per_byte
            if leaves:
                line_free[host] = sent[rank]
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
