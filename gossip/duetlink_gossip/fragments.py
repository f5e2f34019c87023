"""Gossip where nobody waits: each member sends fragments of its model to random members, at its own pace.

DivShare (Biswas et al. 2025), a gossip learning (Ormándi, Hegedűs and Jelasity 2013) of fragments: after its
local steps a member cuts its model into fragments and sends each to a few others, drawn anew. It averages
each fragment of its own with those that have arrived since its last local steps, all with the same weight,
and goes on at once. A fragment is a datagram here, so one that is lost is one that was not sent.

What is older than another from the same member counts no more, and neither does what comes twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from duetlink.errors import RemoteProtocolError, SettingError
from duetlink_gossip.base import Mixed, ReceivedOffer, check_form, check_vector, next_round
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

_STALE_ROUNDS = 100  # a fragment from so many rounds ago is of another model
_MOST_HELD = 16  # of each fragment, however long this member takes for its local steps
_BURST = 16  # datagrams to one member at once
_HOLD_S = 0.002  # where a path has no room, it may have by then
_IDLE_S = 1.0


class Fragments:
    """What has arrived since the last local steps. Pure; fragments are rows of shape (length,), float32."""

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks
        self._held: dict[int, dict[int, Floats]] = {}  # by position, then by sender
        self._newest: dict[int, npt.NDArray[np.int64]] = {}  # by sender, the round of each position; 0: none

    def add(self, of: int, position: int, round_: int, values: Floats) -> bool:
        """Keep a fragment, in the place of an older one of that member. False where it is not newer."""
        newest = self._newest.setdefault(of, np.zeros(self._chunks, np.int64))
        if round_ <= newest[position]:
            return False
        newest[position] = round_
        held = self._held.setdefault(position, {})
        held.pop(of, None)
        if len(held) >= _MOST_HELD:
            del held[next(iter(held))]  # the one that came first
        held[of] = values
        return True

    def average(self, chunks: Floats) -> tuple[Floats, dict[int, int]]:
        """The own fragments averaged with those held, which are held no more; and how many were of whom."""
        mixed, counts = chunks.copy(), dict[int, int]()
        for position, held in self._held.items():
            # in float64, where float32 that are finite have a finite sum
            mixed[position] = np.mean([chunks[position], *held.values()], axis=0, dtype=np.float64)
            for of in held:
                counts[of] = counts.get(of, 0) + 1
        self._held = {}
        return mixed, counts

    def forget(self, of: int) -> None:
        """Have nothing more of that member."""
        self._newest.pop(of, None)
        for held in self._held.values():
            held.pop(of, None)


def recipients(
    others: list[int], chunks: int, fanout: int, rng: np.random.Generator
) -> dict[int, npt.NDArray[np.int64]]:
    """By member, the positions that go to it: each position to `fanout` members, all members equally many.

    Their order is by chance too: what a slow path does not take in time is another part in each round.
    """
    positions, peers = rng.permutation(chunks), rng.permutation(others)
    fanout = min(fanout, len(others))
    # like cards, `fanout` of each position in a row, so that no member has one twice
    return {
        int(to): positions[np.arange(at, chunks * fanout, len(others)) // fanout]
        for at, to in enumerate(peers)
    }


@dataclass(slots=True)
class _Outbound:
    """What is still to be sent to one member."""

    positions: deque[int]
    next_s: float
    again: deque[tuple[int, int]] = field(default_factory=deque)  # number and position: no room for it before
    sent: int = 0


@dataclass(slots=True)
class _Inbound:
    """The datagrams of one member in one of its rounds: how fast they come."""

    round: int = 0
    count: int = 0
    first: tuple[int, float] = (0, 0.0)  # which of them, when
    last: tuple[int, float] = (0, 0.0)
    report: tuple[int, float] = (0, 0.0)  # of the round before: how many, and seconds between two

    def begin(self, round_: int) -> None:
        (start, start_s), (end, end_s) = self.first, self.last
        # of a single datagram nothing follows
        self.report = (self.count, (end_s - start_s) / (end - start)) if end > start else (0, 0.0)
        self.round, self.count = round_, 0


class FragmentNode:
    """Rank `rank` of `size`, without a socket or a clock. Not to be called from two threads at once.

    Its rounds are its own. They are numbered as in Lamport 1978 all the same, so that who makes few of them
    gives fragments that count.
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
        """Each fragment goes to `fanout` members, or to all others where there are fewer.

        Raises:
            SettingError: a fanout below 1, or a gossip of one.
        """
        if fanout < 1 or size < 2:
            raise SettingError(
                f"fragments go to {fanout} of {size} members: it is one at least, and one of two or more"
            )
        self.rank, self.strides, self.round = rank, strides, 0
        self.excluded: set[int] = set()
        self._told: set[int] = set()  # of these, who was sent a last fragment
        self._size, self._precision, self._fanout = size, precision, fanout
        self._epoch, self._form = epoch, form
        self._rng = np.random.default_rng(seed)
        self._fragments = Fragments(strides.chunks)
        self._chunks: Floats | None = None  # while a round is on
        self._encoded = Encoded([], np.zeros((0, 0), np.uint8), [])
        self._out: dict[int, _Outbound] = {}
        self._in: dict[int, _Inbound] = {}
        self._paces: dict[int, Pace] = {}
        self._heard_round = 0
        self._sent_bytes = 0
        self._late = 0

    @property
    def active(self) -> bool:
        """Whether `start` was called, and `finish` was not yet."""
        return self._chunks is not None

    def start(self, vector: Floats, now_s: float) -> None:
        """Give this model away, and not what is left of the one before. Raises UnsupportedValue."""
        check_vector(vector, self.strides)
        self.round = next_round(self.round, self._heard_round)
        self._chunks = self.strides.deal(vector)
        self._encoded = Encoded(*encode(self._chunks, self._precision, self._rng), [])
        others = [to for to in range(self._size) if to != self.rank and to not in self.excluded]
        given = recipients(others, self.strides.chunks, self._fanout, self._rng) if others else {}
        # whoever was excluded hears one fragment, by which it knows what is amiss, and no more
        given |= {to: np.zeros(1, np.int64) for to in self.excluded - self._told}
        self._told |= self.excluded
        before = {to: out.next_s for to, out in self._out.items()}
        self._out = {
            to: _Outbound(deque(positions.tolist()), max(now_s, before.get(to, now_s)))
            for to, positions in given.items()
        }

    def due(self, now_s: float) -> Iterator[ReceivedOffer]:
        """What is to be sent by now, also between rounds. Whoever cannot send one says `held` at once."""
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
        """The path to `to` had no room for the datagram that was just due: it goes again, a little later."""
        head, out = ChunkHead.from_wire(payload), self._out[to]
        out.again.append((head.mass, head.position))
        out.next_s = now_s + _HOLD_S
        self._sent_bytes -= len(payload)

    def wake_s(self, now_s: float) -> float:
        """When something is due, if nothing arrives before."""
        unsent = (out.next_s for out in self._out.values() if out.again or out.positions)
        return max(now_s, min(unsent, default=now_s + _IDLE_S))

    def is_over(self, now_s: float) -> bool:
        """Always: nobody is waited for."""
        return True

    def finish(self, now_s: float) -> tuple[Floats, Mixed]:
        """The model averaged with what has come since the last time, and what that was."""
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
        """A datagram of rank `of` has arrived.

        Raises:
            OperationMismatch: that member mixes another model, or by other settings.
            RemoteProtocolError: what it sent is no fragment, or is not finite.
        """
        if of in self.excluded:
            return
        try:
            head = ChunkHead.from_wire(payload)
            if head.epoch != self._epoch:
                return  # on its way since an earlier gossip
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
        self._heard_round = max(self._heard_round, head.round)
        self._measure(of, head, len(payload), now_s)
        if head.round <= self.round - _STALE_ROUNDS or not self._fragments.add(
            of, head.position, head.round, values
        ):
            self._late += 1

    def exclude(self, of: int) -> None:
        """Have no more to do with that member."""
        self.excluded.add(of)
        self._fragments.forget(of)

    def state(self) -> dict[str, Any]:
        """The round. What was on its way is lost, as anything may be."""
        return {"round": self.round}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on after the round of `state`."""
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
            number,  # in the place of a mass
            min(count, 0xFFFF),
            spacing_s,
        )
        body: bytes = self._encoded.bodies[position].tobytes()
        return head.to_wire() + body

    def _measure(self, of: int, head: ChunkHead, size_bytes: int, now_s: float) -> None:
        """How fast that member's datagrams come, and what it says of those that go there."""
        inbound = self._in.setdefault(of, _Inbound())
        if head.round < inbound.round:
            return
        if head.round > inbound.round:
            inbound.begin(head.round)
            if head.heard:
                self._paces.setdefault(of, Pace()).told(head.spacing_s, size_bytes)
        if not inbound.count:
            inbound.first = inbound.last = (head.mass, now_s)
        inbound.count += 1
        inbound.last = max(inbound.last, (head.mass, now_s))
