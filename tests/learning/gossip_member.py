"""A member of a gossip in a process of its own, without torch: `python gossip_member.py`.

The first line of stdin is JSON: rank, own address, addresses of all, secrets by rank, data (an .npz with this
member's x and y and the test set), rounds, graph, degree, and how the chunks travel. It learns softmax
regression with plain gradient steps, mixes after each few, and prints one line of JSON for every round, and
one at the end. It may be started in a network namespace.
"""

from __future__ import annotations

import json
import socket
import sys
import time

import numpy as np

from duetlink_gossip.averaging import Fallback
from duetlink_gossip.chunks import Strides, form_of, item_bytes
from duetlink_gossip.courier import Courier
from duetlink_gossip.graphs import Graph
from duetlink_gossip.node import GossipNode
from duetlink_gossip.udp import UdpPost

CLASSES = 10
BATCH, STEPS, RATE = 16, 4, 0.5


def step(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """One step of gradient descent on the cross entropy, in place; shape (features + 1, classes)."""
    rows = np.hstack([x, np.ones((len(x), 1), np.float32)])
    scores = rows @ weights
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(y)), y] -= 1
    weights -= RATE / len(x) * rows.T @ chances


def accuracy(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float((np.argmax(x @ weights[:-1] + weights[-1], axis=1) == y).mean())


def main() -> None:
    given = json.loads(sys.stdin.readline())
    rank, size = given["rank"], len(given["addresses"])
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(tuple(given["addresses"][rank]))
    post = UdpPost(
        sock,
        rank,
        [[(host, port)] for host, port in given["addresses"]],
        {int(other): bytes.fromhex(secret) for other, secret in given["secrets"].items()},
        packet_bytes=given.get("packet_bytes", 1452),
    )
    data = np.load(given["data"])
    x, y = data["x"], data["y"]
    weights = np.zeros((x.shape[1] + 1, CLASSES), np.float32)
    precision = given.get("precision", "int16")
    strides = Strides.fitting(weights.size, post.mtu_bytes, item_bytes(precision))
    graph = Graph(given["graph"], size, given.get("degree", 3), given.get("seed", 90))
    averaging = Fallback(rank, size, strides.chunks, precision)
    node = GossipNode(
        rank, graph, strides, averaging, form=form_of(weights.shape), patience_s=given["patience_s"]
    )
    courier = Courier(node, post)
    rng = np.random.default_rng(rank)
    began_s = time.monotonic()
    while node.round < given["rounds"]:
        for _ in range(STEPS):
            chosen = rng.integers(0, len(x), BATCH)
            step(weights, x[chosen], y[chosen])
        mixed_weights, mixed = courier.mix(weights.reshape(-1))
        weights = mixed_weights.reshape(weights.shape)
        told = {"round": mixed.round, "share": mixed.share, "s": mixed.duration_s, "reason": mixed.reason}
        print(json.dumps(told), flush=True)
    took_s = time.monotonic() - began_s
    end = {
        "accuracy": accuracy(weights, data["test_x"], data["test_y"]),
        "took_s": took_s,
        "forged": post.forged,
    }
    print(json.dumps(end), flush=True)
    courier.close()


if __name__ == "__main__":
    main()
