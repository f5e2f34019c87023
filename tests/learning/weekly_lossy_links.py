"""Gossip over a group's own links, of whose packets a fifth is dropped: each way agrees, however slowly.

`pytest tests/learning/weekly_lossy_links.py`, Linux and root. Members are threads of one process (this file,
run as a program) in a network namespace whose firewall drops packets by chance, of UDP and of TCP. Links
make datagrams slow down under loss, as TCP does: what is shown is that nobody waits for what was lost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import duetlink
from duetlink.groups.api.group import Group
from duetlink.groups.api.post import GroupPost
from duetlink.settings import Settings
from duetlink_gossip.averaging import Fallback
from duetlink_gossip.base import Node
from duetlink_gossip.chunks import Floats, Strides
from duetlink_gossip.courier import Courier
from duetlink_gossip.fragments import FragmentNode
from duetlink_gossip.graphs import Graph
from duetlink_gossip.node import GossipNode
from tests.lab.namespace import Namespace, unsupported

SIZE, COUNT = 3, 12_000
NEAR = 0.02  # of members that began at 0, 1 and 2
TURN_S, MOST_S, PATIENCE_S = 0.02, 90.0, 5.0
DROP = """
table inet loss {
  chain out {
    type filter hook output priority 0; policy accept;
    meta l4proto { udp, tcp } numgen random mod 100 < 20 counter drop
  }
}
"""
WAYS = [("datagrams", "async"), ("datagrams", "rounds"), ("streams", "async")]


@pytest.fixture
def place() -> Iterator[Namespace]:
    if why := unsupported():
        pytest.skip(why)
    made = Namespace("members")
    try:
        # members find each other by an address of their machine, which a namespace has none of
        made.ip("link add here0 type veth peer name here1", "addr add 10.77.1.1/24 dev here0")
        made.ip("link set dev here0 up", "link set dev here1 up")
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(("over", "mode"), WAYS)
def test_members_agree_over_links_that_lose_a_fifth(place: Namespace, over: str, mode: str) -> None:
    process = place.popen(
        [sys.executable, "-m", "tests.learning.weekly_lossy_links", over, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert "ready" in (line.strip() for line in iter(process.stdout.readline, ""))
        place.nft(DROP)
        process.stdin.write("\n")
        process.stdin.flush()
        told = json.loads(next(line for line in process.stdout if line.startswith("{")))
        dropped = place.configure(["nft", "list", "table", "inet", "loss"])
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    print(over, mode, told)
    assert "packets 0 " not in dropped
    assert told["spread"] < NEAR
    assert max(told["mixes"]) > 3
    # a round waits at most so long for what was lost; with fragments nobody waits for anything
    assert told["longest_s"] < (PATIENCE_S + 2.0 if mode == "rounds" else 2.0)


def make_node(post: GroupPost, mode: str) -> Node:
    strides = Strides.fitting(COUNT, post.mtu_bytes, 2)
    if mode == "async":
        return FragmentNode(post.rank, SIZE, strides, "int16", epoch=post.epoch)
    return GossipNode(
        post.rank,
        Graph("full", SIZE),
        strides,
        Fallback(post.rank, SIZE, strides.chunks, "int16"),
        epoch=post.epoch,
        lossless=post.lossless,
        patience_s=PATIENCE_S,
    )


def main(over: str, mode: str) -> None:
    settings = Settings(heartbeat_interval_s=0.5, heartbeat_timeout_s=30.0, reconnect_timeout_s=30.0)
    first = duetlink.group(size=SIZE, name="member 0", settings=settings)
    rest = [duetlink.group(first.code, name=f"member {n}", settings=settings) for n in range(1, SIZE)]
    groups = [first, *rest]
    for group in groups:
        group.wait_ready(60)
    print("ready", flush=True)
    sys.stdin.readline()
    vectors: list[Floats] = [np.full(COUNT, rank, np.float32) for rank in range(SIZE)]
    agreed, began_s = threading.Event(), time.monotonic()

    def spread() -> float:
        return float(np.ptp(np.stack(vectors), axis=0).max())

    def mix(group: Group) -> list[float]:
        post = group.post(over)
        courier, took_s = Courier(make_node(post, mode), post), list[float]()
        try:
            while not agreed.wait(TURN_S) and time.monotonic() - began_s < MOST_S:
                start_s = time.monotonic()
                vectors[post.rank] = courier.mix(vectors[post.rank])[0]
                took_s.append(time.monotonic() - start_s)
                if spread() < NEAR:
                    agreed.set()
        finally:
            courier.close()
        return took_s

    with ThreadPoolExecutor(SIZE) as pool:
        took_s = list(pool.map(mix, groups))
    told = {
        "spread": spread(),
        "agreed_s": round(time.monotonic() - began_s, 1),
        "mixes": [len(each) for each in took_s],
        "longest_s": max(max(each) for each in took_s),
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
