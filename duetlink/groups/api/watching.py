"""Builds `group.members` and `group.status()` from this member's own view, and from the figures that the
others sent in this epoch.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from duetlink.base.wire.text import harmless
from duetlink.groups.api.call import Call
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.planning.costs import LinkFigures
from duetlink.groups.lifecycle.figures import figures_of
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.lifecycle.members import Member, Members
from duetlink.groups.lifecycle.status import LinkStatus, MemberStatus, OperationStatus, SumStatus


def everybody(life: GroupLife) -> Members:
    """Return the members by rank, then newcomers, with the path in use to each."""
    now = life.member_state
    if now is None:
        return Members()
    ranks = {seat: rank for rank, seat in enumerate(now.epoch.members if life.is_ready else ())}
    seats = [*ranks, *sorted({now.me, *life.peers} - ranks.keys())]
    found = []
    for seat in seats:
        peer = life.peers.get(seat)
        link = peer.link if peer is not None and life.why_closed is None else None
        state = "connected" if seat in ranks else "waiting for the next epoch"
        if seat == now.me:
            state = "this member"
        elif link is None:
            state = "connecting" if peer is not None and peer.making is not None else "lost"
        elif peer is not None and peer.losing is not None:
            state = "reconnecting"
        elif life.is_host and peer is not None and not peer.is_linked:
            state = "connecting"  # the newcomer makes its links to the others
        if state == "lost" and seat not in ranks:
            continue
        best = link.path_selector.best if link is not None else None
        found.append(
            Member(ranks.get(seat), life.roster.entries[seat].name, best.name if best else None, state)
        )
    return Members(found)


def members_of(life: GroupLife, members: Sequence[Member]) -> tuple[MemberStatus, ...]:
    """Add to each member the seconds that operations have waited for it here."""
    collectives = life.collectives

    def waited_s(rank: int | None) -> float:
        return 0.0 if rank is None or collectives is None else collectives.engine.waiting.seconds(rank)

    return tuple(
        MemberStatus(each.rank, harmless(each.name), each.state, waited_s(each.rank)) for each in members
    )


def links_of(life: GroupLife) -> tuple[LinkStatus, ...]:
    """Return both directions of every link of the epoch; empty while the epoch changes."""
    collectives, now = life.collectives, life.member_state
    if collectives is None or now is None or not life.is_ready:
        return ()
    seats = now.epoch.members
    if len(seats) != collectives.size or now.me not in seats:
        return ()  # the epoch changes at this moment
    me = seats.index(now.me)
    ours: dict[int, LinkFigures] = {}
    for rank, seat in enumerate(seats):
        peer = life.peers.get(seat)
        if peer is not None and peer.link is not None:
            ours[rank] = figures_of(peer.link)
    found = []
    for of, to in itertools.permutations(range(len(seats)), 2):
        figures = collectives.flat.choice.costs.link(of, to)
        known = ours.get(of if to == me else to) if me in (of, to) else figures
        if known is None or not known.path:
            found.append(LinkStatus(of, to, None, None, None, me in (of, to)))
            continue
        rate = known if to == me else figures  # only the receiver measures the rate
        bytes_per_s = rate.rate_bytes_per_s if rate.measured else None
        found.append(LinkStatus(of, to, known.path, 2 * known.latency_s, bytes_per_s, me in (of, to)))
    return tuple(found)


def operation_of(call: Call, collectives: Collectives | None) -> OperationStatus | None:
    """Return the progress of a call; None before it has begun."""
    if not call.name:
        return None
    done_bytes, total_bytes = 0, 0
    waiting: tuple[int, ...] = ()
    if call.moved is not None:
        done_bytes, total_bytes = call.moved
    elif collectives is not None and call.name not in ("send", "recv"):
        engine = collectives.engine
        done_bytes, total_bytes, waiting = engine.done_bytes, engine.total_bytes, engine.awaited
    elapsed_s = time.monotonic() - call.began_s
    return OperationStatus(str(call), elapsed_s, done_bytes, total_bytes, waiting, call.codec)


def sum_of(collectives: Collectives | None) -> SumStatus | None:
    """Return the newest sum with a codec for sums, or None."""
    if collectives is None or not collectives.sums:
        return None
    now = collectives.sums[-1]
    return SumStatus(now.codec, now.way, now.density, now.sent_bytes, now.dense_bytes, str(now))
