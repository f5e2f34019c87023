"""A simulated network: gossip among nodes of one process, in simulated time.

It loses, delays and queues datagrams at random by a seed. It is only a model of a network: use it to study
and test gossip; figures of a real network come from `make weekly SUITE=gossip`.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duetlink_gossip.base import Mixed, Node
from duetlink_gossip.chunks import Floats

# Returns a node's model at the start of its round, and the seconds that it trained; None: the node dies.
Train = Callable[[int], tuple[Floats, float] | None]
# Called with the node, its averaged model, the outcome of the round, and the time.
Report = Callable[[int, Floats, Mixed, float], None]


@dataclass(frozen=True, slots=True)
class SimulatedNetwork:
    """A line from every node to all others: datagrams queue for its rate, and may be lost."""

    loss: float = 0.0  # the probability that a datagram is lost
    delay_s: float = 0.01  # one way
    rate_bytes_per_s: float = 1.25e6  # out of each node; 10 Mbit/s
    queue_s: float = 0.1  # a datagram that would queue longer is dropped
    seed: int = 0


def simulate(
    nodes: Sequence[Node],
    network: SimulatedNetwork,
    rounds: int,
    train: Train,
    report: Report,
) -> float:
    """Run every node up to that round; returns the simulated seconds at the end.

    Each node trains, mixes, reports to `report` and trains again at its own pace, while the others' datagrams
    arrive. `train` and `report` are called in the order of simulated time.
    """
    chance = random.Random(network.seed)
    order = itertools.count()
    events: list[tuple[float, int, int, int, bytes]] = []  # time, order, node, sender or what to do, payload
    free_s = [0.0] * len(nodes)
    models: list[Floats | None] = [None] * len(nodes)
    dead: set[int] = set()
    wakes_s = [float("inf")] * len(nodes)
    begin, wake = -1, -2
    now_s = 0.0

    def plan(at_s: float, node: int, what: int, payload: bytes = b"") -> None:
        heapq.heappush(events, (at_s, next(order), node, what, payload))

    def prepare(node: int) -> None:
        if nodes[node].round >= rounds:
            return
        found = train(node)
        if found is None:
            dead.add(node)
            return
        models[node], busy_s = found
        plan(now_s + busy_s, node, begin)

    def act(node: int) -> None:
        """Send what is due, end the round if it is over, and plan the next wake-up."""
        member = nodes[node]
        for to, payload in member.due(now_s):
            starts_s = max(now_s, free_s[node])
            if starts_s - now_s > network.queue_s:
                continue
            free_s[node] = starts_s + len(payload) / network.rate_bytes_per_s
            if chance.random() >= network.loss:
                plan(free_s[node] + network.delay_s, to, node, payload)
        if member.active and member.is_over(now_s):
            vector, mixed = member.finish(now_s)
            report(node, vector, mixed, now_s)
            prepare(node)
        wake_s = member.wake_s(now_s)
        if wake_s < wakes_s[node] or wakes_s[node] <= now_s:
            wakes_s[node] = wake_s
            plan(wake_s, node, wake)

    for node in range(len(nodes)):
        prepare(node)
    while events and any(one.round < rounds or one.active for one in nodes if one.rank not in dead):
        now_s, _, node, what, payload = heapq.heappop(events)
        if node in dead:
            continue
        if what == begin:
            model = models[node]
            assert model is not None
            nodes[node].start(model, now_s)
        elif what != wake:
            nodes[node].take(what, payload, now_s)
        act(node)
    return now_s
