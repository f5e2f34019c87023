"""One member of a gossip, without socket or clock: what it sends and accepts, and the end of its rounds.

In a round the member sends its own model in chunks, receives those of its neighbours, and averages what has
arrived. The round ends when every neighbour that it waits for is complete, has sent its last chunks, or is a
round ahead; at the latest when the deadline passes, or a neighbour is two rounds ahead. A neighbour that was
silent for three rounds is not waited for.

Rounds are numbered as in Lamport 1978: a member that sees a later round continues with its number, so that a
member that was paused has caught up after its next round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from duetlink.errors import RemoteProtocolError
from duetlink_gossip.averaging import Averaging
from duetlink_gossip.base import AddressedDatagram, Mixed, check_form, check_vector, next_round
from duetlink_gossip.chunks import (
    ASK,
    DATA,
    HEAD_BYTES,
    PARITY,
    ChunkHead,
    Encoded,
    Floats,
    Octets,
    Strides,
    ask,
    asked,
)
from duetlink_gossip.graphs import Graph, metropolis_hastings
from duetlink_gossip.inbound import Inbound
from duetlink_gossip.parity import Parity
from duetlink_gossip.patience import Pace, Patience

_SILENT_ROUNDS = 3
_TAIL = 16  # the last 16th of a model's chunks, at least 4, is its tail
_LINGER_S = 0.002  # datagrams may arrive out of order by at least this much,
_SLACK_SHARE = 1 / 2  # added to the deadline, as a share of the time between two rounds
_LINGER_SHARE = 1 / 10  # or by this share of a round: in longer rounds more is delayed
# If no chunk of the tail has arrived, the rest may be lost or delayed. It is given half as long again as
# expected, and a quarter of the round's duration so far.
_DOUBT = 1.5
_DOUBTFUL_SHARE = 1 / 4
_BURST = 16  # datagrams to one neighbour at once
_HOLD_S = 0.002  # a path without room is tried again after this
_STRIDE = 7919  # a prime: each round begins with another chunk, so that none is always the last


@dataclass(slots=True)
class _Outbound:
    """The chunks and parities still to be sent to one neighbour."""

    round: int
    encoded: Encoded
    degree: int
    parities: Octets  # a row for each parity; no rows without error correction
    sent: int = 0  # the number of chunks and parities sent, in order
    next_s: float = 0.0
    # positions to send again; a parity's position is its group plus the number of chunks
    again: deque[int] = field(default_factory=deque)
    has_asked: bool = False


class GossipNode:
    """Rank `rank` of a graph. Not to be called from two threads at once."""

    def __init__(
        self,
        rank: int,
        graph: Graph,
        strides: Strides,
        averaging: Averaging,
        *,
        epoch: int = 0,
        form: int = 0,
        repair: bool = False,
        fec: int = 0,
        lossless: bool = False,
        patience_s: float = 10.0,
        seed: int | None = None,
    ) -> None:
        """Prepare the first round.

        Args:
            patience_s: the longest that a round may wait.
            repair: ask once for lost chunks.
            fec: send a parity for each `fec` chunks; 0: none.
            lossless: no chunk is ever lost, however late it arrives.
        """
        self.rank, self.graph, self.strides = rank, graph, strides
        self.averaging = averaging
        self.round = 0
        self.excluded: set[int] = set()
        self._notified: set[int] = set()  # those of them that were sent a last chunk
        self._epoch, self._form, self._repair = epoch, form, repair
        self._lossless = lossless
        self._parity = Parity(strides.chunks, fec) if fec else None
        self._datagrams = strides.chunks + (self._parity.groups if self._parity else 0)
        self._patience = Patience(patience_s)
        self._cycle_s = 0.0  # the mean time from the start of one round to the start of the next
        self._most_s = patience_s
        self._rng = np.random.default_rng(seed)
        self._paces: dict[int, Pace] = {}
        self._silent: dict[int, int] = {}  # by neighbour, the number of silent rounds
        self._reports: dict[
            int, tuple[int, float]
        ] = {}  # of the last round: number of chunks, and seconds between two
        self._now: dict[int, Inbound] = {}
        self._ahead: dict[int, Inbound] = {}
        self._out: dict[int, _Outbound] = {}
        self._before: dict[int, _Outbound] = {}  # of the previous round, for late requests
        self._weights: dict[int, float] = {}
        self._active = False
        self._started_s = 0.0
        self._sent_bytes = 0
        self._late = 0

    @property
    def active(self) -> bool:
        """True during a round."""
        return self._active

    # -- a round ---------------------------------------------------------------------------------------------

    def start(self, vector: Floats, now_s: float) -> None:
        """Begin the next round with this model.

        Raises:
            UnsupportedValue: the model is not finite, or too large for push-sum.
        """
        check_vector(vector, self.strides)
        newest = max((inbound.round for inbound in self._ahead.values()), default=0)
        self.round = next_round(self.round, newest)
        neighbours = self.graph.at(self.round)
        self._weights = {
            other: weight
            for other, weight in metropolis_hastings(neighbours, self.rank).items()
            if other not in self.excluded
        }
        # with push-sum, mass given to an absent member is lost, so it gets a weight of 0; but all are sent
        # something, or two members that were cut off would be silent to each other forever
        given = {to: 0.0 if self._is_silent(to) else weight for to, weight in self._weights.items()}
        # an excluded member is sent one last chunk, which shows it the difference
        last = {to for to in neighbours[self.rank] if to in self.excluded - self._notified}
        self._notified |= last
        given |= dict.fromkeys(last, 0.0)
        encoded = dict(self.averaging.give(self.strides.deal(vector), given, self.round, self._rng))
        # `Fallback` gives all neighbours the same
        parities = {id(found): self._parities(found) for found in encoded.values()}
        self._before = self._out
        self._out = {
            to: _Outbound(self.round, found, len(neighbours[self.rank]), parities[id(found)], next_s=now_s)
            for to, found in encoded.items()
        }
        for to in last:
            self._out[to].sent = self._datagrams - 1
        self._now = {of: each for of, each in self._ahead.items() if each.round == self.round}
        self._ahead = {of: each for of, each in self._ahead.items() if each.round > self.round}
        if self._sent_bytes:
            # at most doubled: a machine that slept has not trained that long
            took_s = now_s - self._started_s
            self._cycle_s = (
                took_s
                if not self._cycle_s
                else self._cycle_s + min(took_s - self._cycle_s, self._cycle_s) / 4
            )
        self._active, self._started_s, self._sent_bytes = True, now_s, 0

    def due(self, now_s: float) -> Iterator[AddressedDatagram]:
        """Yield the datagrams that are due. If one cannot be sent, call `held` before taking the next."""
        if self._active and self._repair:
            yield from self._asks(now_s)
        for to, out in [*self._before.items(), *self._out.items()]:
            for _ in range(_BURST):
                if out.next_s > now_s:
                    break
                if out.again:
                    position = out.again.popleft()
                elif self._active and out.round == self.round and out.sent < self._datagrams:
                    position = self._position(out.sent)
                    out.sent += 1
                else:
                    break
                payload = self._data(to, out, position)
                pace = self._paces.setdefault(to, Pace())
                out.next_s = pace.after(out.next_s, now_s, len(payload))
                self._sent_bytes += len(payload)
                yield to, payload

    def held(self, to: int, payload: bytes, now_s: float) -> None:
        """Put back the datagram that was just due: the path to `to` had no room. It is sent a
        little later.
        """
        head = ChunkHead.from_wire(payload)
        if head.kind == ASK:
            return
        out = self._out[to]
        if head.round != out.round:
            out = self._before[to]
        out.again.appendleft(head.position + (self.strides.chunks if head.kind == PARITY else 0))
        out.next_s = now_s + _HOLD_S
        self._sent_bytes -= len(payload)

    def wake_s(self, now_s: float) -> float:
        """Return the time at which a datagram is due or the round may end, if none arrives before."""
        unsent = (
            out.next_s
            for out in (*self._before.values(), *self._out.values())
            if out.again or (self._active and out.round == self.round and out.sent < self._datagrams)
        )
        soonest_s = min(unsent, default=now_s + self._most_s)
        if soonest_s <= now_s or not self._active:
            return max(soonest_s, now_s)
        times = [self._deadline_s, self._started_s + self._most_s]
        for of in self._weights:
            times += [at_s for at_s in (self._spent_s(of), self._given_up_s(of)) if at_s is not None]
        return min([soonest_s, *(at_s for at_s in times if at_s > now_s)])

    def is_over(self, now_s: float) -> bool:
        """Return True if the round can be finished."""
        if now_s >= self._started_s + self._most_s:
            return True
        # a neighbour that is two rounds ahead has already ended one without this member
        if any(inbound.round > self.round + 1 for inbound in self._ahead.values()):
            return True
        unsent = [to for to, out in self._out.items() if out.sent < self._datagrams]
        if now_s >= self._deadline_s:
            # a slow path gets more time, unless the neighbour is silent
            return not any(to in self._now or to in self._ahead for to in unsent)
        return not any(to in self._waited_for() for to in unsent) and all(
            self._is_done(of, now_s) for of in self._waited_for()
        )

    def finish(self, now_s: float) -> tuple[Floats, Mixed]:
        """Return the averaged model, shape (parameters,), and the outcome of the round."""
        waited_for = self._waited_for()
        undone = [of for of in waited_for if not self._is_done(of, now_s)]
        whole = all(of in self._now and self._is_complete(self._now[of]) for of in self._weights)
        duration_s = now_s - self._started_s
        if undone:
            self._patience.missed(duration_s)
        elif waited_for:
            # without the linger at the end, which is computed from this
            self._patience.took(max(0.0, max(self._last_s(of) for of in waited_for) - self._started_s))
        received = {
            of: self._now[of].count / self.strides.chunks if of in self._now else 0.0 for of in self._weights
        }
        for of in self._weights:
            is_there = of in self._now or of in self._ahead
            self._silent[of] = 0 if is_there else self._silent.get(of, 0) + 1
            inbound = self._now.get(of)
            self._reports[of] = (inbound.count, inbound.spacing_s) if inbound is not None else (0, 0.0)
        received_chunks = {of: each.received for of, each in self._now.items() if of in self._weights}
        mixed = self.averaging.combine(self._weights, received_chunks)
        reason = "deadline" if undone else "alone" if not waited_for else "complete" if whole else "spent"
        outcome = Mixed(
            self.round,
            received,
            duration_s,
            reason,
            self._sent_bytes,
            self._late,
            self.averaging.drift,
            sum(self._now[of].mended for of in received_chunks),
        )
        self._active, self._late, self._now = False, 0, {}
        return self.strides.gather(mixed), outcome

    # -- what arrives ----------------------------------------------------------------------------------------

    def take(self, of: int, payload: bytes, now_s: float) -> None:
        """Handle a datagram of rank `of`.

        Raises:
            OperationMismatch: that member has another model, or other settings.
            RemoteProtocolError: it is not a chunk, not finite, or contradicts the graph.
        """
        if of in self.excluded:
            return
        try:
            head = ChunkHead.from_wire(payload)
            if head.epoch != self._epoch:
                return  # a late datagram of an earlier gossip
            self._check(of, head)
            body = memoryview(payload)[HEAD_BYTES:]
            if head.kind == ASK:
                self._answer(of, head, body)
            else:
                self._take(of, head, body, now_s)
        except RemoteProtocolError as error:
            raise type(error)(f"rank {of} sent {error}") from None

    def exclude(self, of: int) -> None:
        """Ignore that member from now on."""
        self.excluded.add(of)
        for held in (self._now, self._ahead, self._weights):
            held.pop(of, None)

    # -- for a resume ----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the round and the state of the averaging, between two rounds, by name."""
        return {"round": self.round, **self.averaging.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue after the round of `state`."""
        self.round = int(state["round"])
        self.averaging.restore(state)

    # -- inside ----------------------------------------------------------------------------------------------

    @property
    def _offset(self) -> int:
        return self.round * _STRIDE % self.strides.chunks

    def _parities(self, encoded: Encoded) -> Octets:
        return self._parity.make(encoded) if self._parity else np.zeros((0, 0), np.uint8)

    def _position(self, order: int) -> int:
        """Return the position of the datagram with number `order`: chunks first, then parities after them."""
        return (order + self._offset) % self.strides.chunks if order < self.strides.chunks else order

    def _data(self, to: int, out: _Outbound, position: int) -> bytes:
        encoded, group = out.encoded, position - self.strides.chunks
        is_parity = group >= 0
        count, spacing_s = self._reports.get(to, (0, 0.0))
        head = ChunkHead(
            PARITY if is_parity else DATA,
            out.degree,
            self._epoch,
            self._form,
            out.round,
            self.strides.count,
            group if is_parity else position,
            0.0 if is_parity else encoded.scales[position],
            0 if is_parity else encoded.masses[position],
            min(count, 0xFFFF),
            spacing_s,
        )
        body: bytes = (out.parities[group] if is_parity else encoded.bodies[position]).tobytes()
        return head.to_wire() + body

    def _check(self, of: int, head: ChunkHead) -> None:
        check_form(of, head, self.strides, self._form)
        neighbours = self.graph.at(head.round)
        if of not in neighbours[self.rank]:
            raise RemoteProtocolError(f"a chunk of round {head.round}, in which it is not a neighbour")
        if head.degree != len(neighbours[of]):
            raise RemoteProtocolError(
                f"that it has {head.degree} neighbours in round {head.round}, where the graph gives it "
                f"{len(neighbours[of])}"
            )
        if head.kind == PARITY and head.position >= self._datagrams - self.strides.chunks:
            raise RemoteProtocolError(f"parity {head.position} of {self._datagrams - self.strides.chunks}")
        if head.position >= self.strides.chunks:
            raise RemoteProtocolError(f"chunk {head.position} of {self.strides.chunks}")

    def _take(self, of: int, head: ChunkHead, body: memoryview, now_s: float) -> None:
        is_parity = head.kind == PARITY
        values = None if is_parity else self.averaging.decode(body, head.scale, self.strides.length)
        if head.round < self.round or (head.round == self.round and not self._active):
            self._late += not is_parity  # a round without loss ends before its parities arrive
            return
        slots = self._now if head.round == self.round else self._ahead
        inbound = slots.get(of)
        if inbound is None or inbound.round < head.round:
            inbound = slots[of] = Inbound.of(head.round, self.strides, self.averaging, self._parity)
            if head.heard:
                size_bytes = len(body) + HEAD_BYTES
                self._paces.setdefault(of, Pace()).report_spacing(head.spacing_s, size_bytes)
        elif inbound.round > head.round:
            self._late += 1
            return
        if inbound.take(head, body, values):
            inbound.timed(self._order(head), now_s)
            if self._parity:
                inbound.mend(head.position % self._parity.groups, self.averaging, self.strides.length)

    def _order(self, head: ChunkHead) -> int:
        """Return the inverse of `_position`."""
        chunks = self.strides.chunks
        if head.kind == PARITY:
            return chunks + head.position
        return (head.position - head.round * _STRIDE) % chunks

    def _answer(self, of: int, head: ChunkHead, body: memoryview) -> None:
        positions = asked(body, self.strides.chunks)
        out = self._out.get(of)
        if out is None or out.round != head.round:
            out = self._before.get(of)  # this member is already in its next round
        # once in a round; otherwise small datagrams could request a whole model many times
        if out is not None and head.round == out.round and not out.has_asked:
            out.has_asked = True
            out.again.extend(positions)

    def _asks(self, now_s: float) -> Iterator[AddressedDatagram]:
        for of in self._weights:
            inbound, spent_s = self._now.get(of), self._spent_s(of)
            if inbound is None or inbound.asked_s is not None or self._is_complete(inbound):
                continue
            if spent_s is not None and now_s >= spent_s and of in self._out:
                inbound.asked_s = now_s
                neighbours = self.graph.at(self.round)
                head = ChunkHead(
                    ASK,
                    len(neighbours[self.rank]),
                    self._epoch,
                    self._form,
                    self.round,
                    self.strides.count,
                    0,
                    0.0,
                    0,
                    0,
                    0.0,
                )
                yield of, ask(head, ~inbound.received.have)

    @property
    def _deadline_s(self) -> float:
        repair_s = self._repair_s if self._repair else 0.0
        # members that train for a second do not finish within milliseconds of each other
        slack_s = _SLACK_SHARE * self._cycle_s
        return self._started_s + self._patience.wait_s + self._linger_s + slack_s + repair_s

    @property
    def _repair_s(self) -> float:
        """The time allowed for chunks that were asked for."""
        return max(5 * self._linger_s, self._usual_s)

    def _last_s(self, of: int) -> float:
        """Return the arrival time of the latest relevant datagram of that neighbour."""
        inbound, ahead = self._now.get(of), self._ahead.get(of)
        if inbound is not None:
            return inbound.last[1]
        return self._started_s if ahead is None else ahead.first[1]

    @property
    def _usual_s(self) -> float:
        """The usual duration of a round; in the first one, its duration so far."""
        mean_s = self._patience.mean_s
        if mean_s is not None:
            return mean_s
        return max((self._last_s(of) - self._started_s for of in self._weights), default=0.0)

    @property
    def _linger_s(self) -> float:
        return max(_LINGER_S, _LINGER_SHARE * self._usual_s)

    def _is_silent(self, of: int) -> bool:
        return self._silent.get(of, 0) >= _SILENT_ROUNDS and of not in self._ahead

    def _waited_for(self) -> list[int]:
        return [of for of in self._weights if of in self._now or not self._is_silent(of)]

    def _is_complete(self, inbound: Inbound) -> bool:
        return inbound.count == self.strides.chunks

    def _spent_s(self, of: int) -> float | None:
        """Return the time after which nothing more of this round is expected from this neighbour."""
        inbound, ahead = self._now.get(of), self._ahead.get(of)
        times = [] if ahead is None else [ahead.first[1] + self._linger_s]
        if inbound is not None and not self._lossless:
            order, last_s = inbound.last
            left = self._datagrams - 1 - order
            # an upper bound, if only one has arrived
            single_s = max(0.0, last_s - self._started_s) / (order + 1)
            spacing_s = inbound.spacing_s if inbound.arrived > 1 else single_s
            if left < max(4, self._datagrams // _TAIL):
                times.append(last_s + left * spacing_s + self._linger_s)
            else:
                doubt_s = 4 * self._linger_s + _DOUBTFUL_SHARE * max(0.0, last_s - self._started_s)
                times.append(last_s + _DOUBT * left * spacing_s + doubt_s)
        return min(times, default=None)

    def _given_up_s(self, of: int) -> float | None:
        """Return the time until which chunks that were asked for may arrive; None if none were."""
        inbound = self._now.get(of)
        if inbound is None or inbound.asked_s is None:
            return None
        return inbound.asked_s + self._repair_s

    def _is_done(self, of: int, now_s: float) -> bool:
        inbound = self._now.get(of)
        if inbound is not None and self._is_complete(inbound):
            return True
        spent_s = self._spent_s(of)
        if spent_s is None or now_s < spent_s:
            return False
        if not self._repair or inbound is None or of not in self._out:
            return True
        given_up_s = self._given_up_s(of)
        return given_up_s is not None and now_s >= given_up_s
