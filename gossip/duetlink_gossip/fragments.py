"""Gossip without waiting: each member sends fragments of its model to random members, at its own pace.

DivShare (Biswas et al. 2025), a gossip learning (Ormándi, Hegedűs and Jelasity 2013) of fragments: after its
local steps a member cuts its model into fragments and sends each to a few random others. It averages each of
its own fragments with those that have arrived since its last local steps, all with the same weight, and
continues at once. Here a fragment is a datagram, so a lost fragment is like one that was never sent.

A fragment that is older than another of the same member and position is ignored, and so is a duplicate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from duetlink.errors import RemoteProtocolError, SettingError
from duetlink_gossip.base import AddressedDatagram, Mixed, check_form, check_vector, next_round
from duetlink_gossip.chunks import (
    DATA,
    HEAD_BYTES,
    ChunkHead,
    Encoded,
    Floats,
    Strides,
    decode,
    encode,
)
from duetlink_gossip.patience import Pace

_STALE_ROUNDS = 100  # a fragment that many rounds old is of another model
_MOST_HELD = 16  # fragments of each position, however long this member takes for its local steps
_BURST = 16  # datagrams to one member at once
_HOLD_S = 0.002  # a path without room is tried again after this
_IDLE_S = 1.0


class Fragments:
    """The fragments since the last local steps. Pure; fragments are rows of shape (length,), float32."""

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks
        self._held: dict[int, dict[int, Floats]] = {}  # by position, then by sender
        self._newest: dict[int, npt.NDArray[np.int64]] = {}  # by sender, the round of each position; 0: none

    def add(self, of: int, position: int, round_: int, values: Floats) -> bool:
        """Keep a fragment, replacing an older one of that member. Returns False if it is not newer."""
        newest = self._newest.setdefault(of, np.zeros(self._chunks, np.int64))
        if round_ <= newest[position]:
            return False
        newest[position] = round_
        held = self._held.setdefault(position, {})
        held.pop(of, None)
        if len(held) >= _MOST_HELD:
            del held[next(iter(held))]  # the one that arrived first
        held[of] = values
        return True

    def average(self, chunks: Floats) -> tuple[Floats, dict[int, int]]:
        """Average this member's fragments with the held ones; return them and the number used by sender."""
        mixed, counts = chunks.copy(), dict[int, int]()
        for position, held in self._held.items():
            # in float64, in which a sum of finite float32 is finite
            mixed[position] = np.mean([chunks[position], *held.values()], axis=0, dtype=np.float64)
            for of in held:
                counts[of] = counts.get(of, 0) + 1
        self._held = {}
        return mixed, counts

    def forget(self, of: int) -> None:
        """Drop everything from that member."""
        self._newest.pop(of, None)
        for held in self._held.values():
            held.pop(of, None)


def recipients(
    others: list[int], chunks: int, fanout: int, rng: np.random.Generator
) -> dict[int, npt.NDArray[np.int64]]:
    """Draw, for each member, the positions to send it: each position to `fanout` members, all members equally
    many.

    The order is random too, so that what a slow path cannot take in time is another part in each round.
    """
    positions, peers = rng.permutation(chunks), rng.permutation(others)
    fanout = min(fanout, len(others))
    # dealt like cards, `fanout` of each position in a row, so that no member gets one twice
    return {
        int(to): positions[np.arange(at, chunks * fanout, len(others)) // fanout]
        for at, to in enumerate(peers)
    }


@dataclass(slots=True)
class _OutboundFragments:
    """The positions still to be sent to one member."""

    positions: deque[int]
    next_s: float
    again: deque[tuple[int, int]] = field(
        default_factory=deque
    )  # number and position of datagrams that had no room
    sent: int = 0


@dataclass(slots=True)
class _Inbound:
    """The datagrams of one member in one of its rounds: measures how fast they arrive."""

    round: int = 0
    count: int = 0
    first: tuple[int, float] = (0, 0.0)  # its number and arrival time
    last: tuple[int, float] = (0, 0.0)
    report: tuple[int, float] = (0, 0.0)  # of the previous round: the count, and seconds between two

    def begin(self, round_: int) -> None:
        (start, start_s), (end, end_s) = self.first, self.last
        # a single datagram shows no spacing
        self.report = (self.count, (end_s - start_s) / (end - start)) if end > start else (0, 0.0)
        self.round, self.count = round_, 0


class FragmentNode:
    """Rank `rank` of `size`, without socket or clock. Not to be called from two threads at once.

    Its rounds are its own. Their numbers still follow the others' (Lamport 1978), so that the fragments of a
    member with few rounds are not taken for old ones.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        strides: Strides,
        precision: str,
        *,
        fanout: int = 3,
        epoch: int = 0,
        form: int = 0,
        seed: int | None = None,
    ) -> None:
        """Each fragment goes to `fanout` members, or to all others if they are fewer.

        Raises:
            SettingError: a fanout below 1, or fewer than two members.
        """
        if fanout < 1 or size < 2:
            raise SettingError(
                f"fragments go to {fanout} of {size} members: it is one at least, and one of two or more"
            )
        self.rank, self.strides, self.round = rank, strides, 0
        self.excluded: set[int] = set()
        self._notified: set[int] = set()  # those of them that were sent a last fragment
        self._size, self._precision, self._fanout = size, precision, fanout
        self._epoch, self._form = epoch, form
        self._rng = np.random.default_rng(seed)
        self._fragments = Fragments(strides.chunks)
        self._chunks: Floats | None = None  # during a round
        self._encoded = Encoded([], np.zeros((0, 0), np.uint8), [])
        self._out: dict[int, _OutboundFragments] = {}
        self._in: dict[int, _Inbound] = {}
        self._paces: dict[int, Pace] = {}
        self._newest_round = 0
        self._sent_bytes = 0
        self._late = 0

    @property
    def active(self) -> bool:
        """True between `start` and `finish`."""
        return self._chunks is not None

    def start(self, vector: Floats, now_s: float) -> None:
        """Begin to send this model, and drop what is unsent of the previous one. Raises UnsupportedValue."""
        check_vector(vector, self.strides)
        self.round = next_round(self.round, self._newest_round)
        self._chunks = self.strides.deal(vector)
        self._encoded = Encoded(*encode(self._chunks, self._precision, self._rng), [])
        others = [to for to in range(self._size) if to != self.rank and to not in self.excluded]
        given = recipients(others, self.strides.chunks, self._fanout, self._rng) if others else {}
        # an excluded member is sent one last fragment, which shows it the difference
        given |= {to: np.zeros(1, np.int64) for to in self.excluded - self._notified}
        self._notified |= self.excluded
        before = {to: out.next_s for to, out in self._out.items()}
        self._out = {
            to: _OutboundFragments(deque(positions.tolist()), max(now_s, before.get(to, now_s)))
            for to, positions in given.items()
        }

    def due(self, now_s: float) -> Iterator[AddressedDatagram]:
        """Yield the datagrams that are due, also between rounds. If one cannot be sent, call `held`
        at once.
        """
        for to, out in self._out.items():
            for _ in range(_BURST):
                if out.next_s > now_s or not (out.again or out.positions):
                    break
                if out.again:
                    number, position = out.again.popleft()
                else:
                    number, position = out.sent, out.positions.popleft()
                    out.sent += 1
                payload = self._data(to, number, position)
                pace = self._paces.setdefault(to, Pace())
                out.next_s = pace.after(out.next_s, now_s, len(payload))
                self._sent_bytes += len(payload)
                yield to, payload

    def held(self, to: int, payload: bytes, now_s: float) -> None:
        """Put back the datagram that was just due: the path to `to` had no room. It is sent a
        little later.
        """
        head, out = ChunkHead.from_wire(payload), self._out[to]
        out.again.append((head.mass, head.position))
        out.next_s = now_s + _HOLD_S
        self._sent_bytes -= len(payload)

    def wake_s(self, now_s: float) -> float:
        """Return the time of the next datagram, if none arrives before."""
        unsent = (out.next_s for out in self._out.values() if out.again or out.positions)
        return max(now_s, min(unsent, default=now_s + _IDLE_S))

    def is_over(self, now_s: float) -> bool:
        """Return True: this mode never waits."""
        return True

    def finish(self, now_s: float) -> tuple[Floats, Mixed]:
        """Average the model with the fragments since the last time; return it with the outcome."""
        assert self._chunks is not None
        mixed, counts = self._fragments.average(self._chunks)
        received = {
            of: counts.get(of, 0) / self.strides.chunks
            for of in range(self._size)
            if of != self.rank and of not in self.excluded
        }
        outcome = Mixed(self.round, received, 0.0, "async", self._sent_bytes, self._late, None)
        self._chunks, self._sent_bytes, self._late = None, 0, 0
        return self.strides.gather(mixed), outcome

    def take(self, of: int, payload: bytes, now_s: float) -> None:
        """Handle a datagram of rank `of`.

        Raises:
            OperationMismatch: that member has another model, or other settings.
            RemoteProtocolError: it is not a fragment, or not finite.
        """
        if of in self.excluded:
            return
        try:
            head = ChunkHead.from_wire(payload)
            if head.epoch != self._epoch:
                return  # a late datagram of an earlier gossip
            check_form(of, head, self.strides, self._form)
            if head.kind != DATA or head.position >= self.strides.chunks or head.round < 1:
                raise RemoteProtocolError(
                    f"a datagram of kind {head.kind} with fragment {head.position} of {self.strides.chunks}, "
                    f"round {head.round}"
                )
            body = memoryview(payload)[HEAD_BYTES:]
            values = decode(body, head.scale, self.strides.length, self._precision)
        except RemoteProtocolError as error:
            raise type(error)(f"rank {of} sent {error}") from None
        self._newest_round = max(self._newest_round, head.round)
        self._measure(of, head, len(payload), now_s)
        if head.round <= self.round - _STALE_ROUNDS or not self._fragments.add(
            of, head.position, head.round, values
        ):
            self._late += 1

    def exclude(self, of: int) -> None:
        """Ignore that member from now on."""
        self.excluded.add(of)
        self._fragments.forget(of)

    def state(self) -> dict[str, Any]:
        """Return the round. Fragments in flight are lost, as any may be."""
        return {"round": self.round}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue after the round of `state`."""
        self.round = int(state["round"])

    def _data(self, to: int, number: int, position: int) -> bytes:
        count, spacing_s = self._in[to].report if to in self._in else (0, 0.0)
        head = ChunkHead(
            DATA,
            min(self._fanout, self._size - 1),
            self._epoch,
            self._form,
            self.round,
            self.strides.count,
            position,
            self._encoded.scales[position],
            number,  # fragments have no mass
            min(count, 0xFFFF),
            spacing_s,
        )
        body: bytes = self._encoded.bodies[position].tobytes()
        return head.to_wire() + body

    def _measure(self, of: int, head: ChunkHead, size_bytes: int, now_s: float) -> None:
        """Measure how fast that member's datagrams arrive, and set the pace to it by its report."""
        inbound = self._in.setdefault(of, _Inbound())
        if head.round < inbound.round:
            return
        if head.round > inbound.round:
            inbound.begin(head.round)
            if head.heard:
                self._paces.setdefault(of, Pace()).report_spacing(head.spacing_s, size_bytes)
        if not inbound.count:
            inbound.first = inbound.last = (head.mass, now_s)
        inbound.count += 1
        inbound.last = max(inbound.last, (head.mass, now_s))
