"""Datagrams of a gossip, as whoever receives them takes them.

An input is who sends it (rank 0 to 3), what the receiver does (its place in KINDS), and a datagram. One with
parities has taken all that an honest neighbour sent but one chunk, so that a parity makes this one again.
"""

from __future__ import annotations

import functools
import random

import numpy as np

from duetlink_gossip.averaging import Averaging, Fallback, PushSum
from duetlink_gossip.base import Node
from duetlink_gossip.chunks import ASK, DATA, ChunkHead, Strides, ask
from duetlink_gossip.fragments import FragmentNode
from duetlink_gossip.graphs import Graph
from duetlink_gossip.node import GossipNode
from tests.fuzz import mutate

KINDS = ("fallback", "push-sum", "fragments", "parity", "push-sum parity")

_GRAPH = Graph("ring", 4)
_PARAMETERS = 90


def _node(rank: int, kind: str) -> Node:
    strides = Strides.fitting(_PARAMETERS, 84, 4)
    if kind == "fragments":
        return FragmentNode(rank, 4, strides, "float32", seed=rank)
    averaging: Averaging = (
        PushSum(strides.chunks, strides.length)
        if kind.startswith("push-sum")
        else Fallback(rank, 4, strides.chunks, "float32")
    )
    return GossipNode(rank, _GRAPH, strides, averaging, seed=rank, fec=3 if kind.endswith("parity") else 0)


@functools.cache
def _sent(kind: str) -> list[bytes]:
    """What rank 1 sends to rank 0 in a round."""
    sender = _node(1, kind)
    sender.start(np.linspace(-1, 1, _PARAMETERS, dtype=np.float32), 0.0)
    return [payload for _ in range(2) for to, payload in sender.due(9.0) if to == 0]


@functools.cache
def samples() -> list[bytes]:
    found = []
    for number, kind in enumerate(KINDS):
        sent = _sent(kind)
        head = ChunkHead.from_wire(sent[0])._replace(kind=ASK)
        wanted = ask(head, np.ones(Strides.fitting(_PARAMETERS, 84, 4).chunks, np.bool_))
        found += [bytes([1, number]) + payload for payload in [*sent, wanted]]
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
    of, number = (data + bytes(2))[:2]
    kind = KINDS[number % len(KINDS)]
    receiver = _node(0, kind)
    receiver.start(np.zeros(_PARAMETERS, np.float32), 0.0)
    for payload in _sent(kind)[1:] if kind.endswith("parity") else ():
        if ChunkHead.from_wire(payload).kind == DATA:
            receiver.take(1, payload, 0.0)
    try:
        receiver.take(of % 4, data[2:], 0.0)
    finally:
        list(receiver.due(9.0))
        vector, mixed = receiver.finish(9.0)
        assert np.isfinite(vector).all(), mixed
