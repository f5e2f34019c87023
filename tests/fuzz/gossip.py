"""Datagrams of a gossip, as whoever receives them takes them.

An input is who sends it (rank 0 to 3), what the receiver does (its place in KINDS), and a datagram.
"""

from __future__ import annotations

import functools
import random

import numpy as np

from duetlink.learning.gossip.averaging import Fallback, PushSum
from duetlink.learning.gossip.chunks import ASK, ChunkHead, Strides, ask
from duetlink.learning.gossip.fragments import FragmentNode
from duetlink.learning.gossip.graphs import Graph
from duetlink.learning.gossip.node import GossipNode, Node
from tests.fuzz import mutate

KINDS = ("fallback", "push-sum", "fragments")

_GRAPH = Graph("ring", 4)
_PARAMETERS = 90


def _node(rank: int, kind: str) -> Node:
    strides = Strides.fitting(_PARAMETERS, 84, 4)
    if kind == "fragments":
        return FragmentNode(rank, 4, strides, "float32", seed=rank)
    if kind == "push-sum":
        return GossipNode(rank, _GRAPH, strides, PushSum(strides.chunks, strides.length), seed=rank)
    return GossipNode(rank, _GRAPH, strides, Fallback(rank, 4, strides.chunks, "float32"), seed=rank)


@functools.cache
def samples() -> list[bytes]:
    found = []
    for number, kind in enumerate(KINDS):
        sender = _node(1, kind)
        sender.start(np.linspace(-1, 1, _PARAMETERS, dtype=np.float32), 0.0)
        sent = [payload for to, payload in sender.due(9.0) if to == 0]
        head = ChunkHead.from_wire(sent[-1])._replace(kind=ASK)
        sent.append(ask(head, np.ones(Strides.fitting(_PARAMETERS, 84, 4).chunks, np.bool_)))
        found += [bytes([1, number]) + payload for payload in sent]
    return found


def make(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(samples()))
    if rng.random() < 0.1:
        data[0] = rng.randrange(4)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if rng.random() < 0.6:
            data[rng.randrange(2, len(data))] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
        else:
            data[2:] = mutate.octets(rng, bytes(data[2:]))
        if len(data) < 3:
            break
    return bytes(data)


def use(data: bytes) -> None:
    of, kind = (data + bytes(2))[:2]
    receiver = _node(0, KINDS[kind % len(KINDS)])
    receiver.start(np.zeros(_PARAMETERS, np.float32), 0.0)
    try:
        receiver.take(of % 4, data[2:], 0.0)
    finally:
        list(receiver.due(9.0))
        vector, mixed = receiver.finish(9.0)
        assert np.isfinite(vector).all(), mixed
