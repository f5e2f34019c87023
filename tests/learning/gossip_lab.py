"""`python -m tests.learning.gossip_lab`: accuracy and time of gossip, for each share of packets dropped.

Members are threads of one process, each with a socket in a network namespace of its own; a router between
them drops packets (see gossip_network.py). Linux and root. Two partitions of the rows: even, and sorted by
label in four shards for each member, as in decentralizepy's tutorial. The data are Fashion-MNIST, padded to
32x32x3 for the LeNet of 89,834 parameters with group norm, where Debian's package dataset-fashion-mnist is;
else the digits of scikit-learn and a small network. In the way "tcp" members send whole models over TCP
connections, in the clear, and wait for each neighbour.

`mix ms` is what a member waits in one iteration: prepare, send, receive and average, without training; in
mode "async" it waits for nobody, so sending goes on meanwhile. `with training` is all the time of the slowest
member, divided by its iterations: on few cores mostly training, of all members on the same cores. The way
"fec" is "rounds" with a parity for each four datagrams.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import itertools
import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.harness import report
from duetlink.learning import Gossip
from duetlink_gossip.graphs import Graph, metropolis_hastings
from tests.learning.gossip_network import PORT, LossyNetwork

FASHION = Path("/usr/share/datasets/fashion-mnist")
SEED = 90
DEGREE = 3
TCP_S = 120.0  # one iteration over TCP; then it is given up
TCP_ROUNDS = 20  # where packets are lost, an iteration takes seconds


class LeNet(nn.Sequential):
    """decentralizepy's for CIFAR-10 (datasets/CIFAR10.py), on 3x32x32."""

    def __init__(self) -> None:
        def stage(before: int, after: int) -> list[nn.Module]:
            return [
                nn.Conv2d(before, after, 5, padding=2),
                nn.GroupNorm(2, after),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]

        super().__init__(*stage(3, 32), *stage(32, 32), *stage(32, 64), nn.Flatten(), nn.Linear(64 * 16, 10))


class Task:
    """Rows to train on and to test with, and a model for them."""

    def __init__(self, directory: Path | None) -> None:
        if directory is not None:
            self.name = "Fashion-MNIST, LeNet"
            read = {name: _idx(next(directory.glob(f"{name}*"))) for name in _FILES}
            images = [read[name].astype(np.float32) / 255 for name in _FILES[::2]]
            padded = [np.pad(each, ((0, 0), (2, 2), (2, 2))) for each in images]
            self.x, self.test_x = (torch.from_numpy(each)[:, None].expand(-1, 3, -1, -1) for each in padded)
            self.y, self.test_y = (torch.from_numpy(read[name].astype(np.int64)) for name in _FILES[1::2])
            self.make: Callable[[], nn.Module] = LeNet
            self.rate = 0.01
        else:
            from sklearn.datasets import load_digits

            self.name = "digits, 64-200-100-10"
            x, y = load_digits(return_X_y=True)
            order = np.random.default_rng(SEED).permutation(len(x))
            rows, labels = torch.from_numpy((x[order] / 16).astype(np.float32)), torch.from_numpy(y[order])
            self.x, self.test_x = rows[:1437], rows[1437:]
            self.y, self.test_y = labels[:1437], labels[1437:]
            self.make = lambda: nn.Sequential(
                nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10)
            )
            self.rate = 0.1

    def parts(self, size: int, shards: int | None) -> list[Tensor]:
        """Rows of each member: by chance, or sorted by label and dealt out in so many shards."""
        drawn = torch.Generator().manual_seed(SEED)
        if shards is None:
            return list(torch.randperm(len(self.y), generator=drawn).tensor_split(size))
        pieces = torch.argsort(self.y, stable=True).tensor_split(size * shards)
        order = torch.randperm(size * shards, generator=drawn).reshape(size, shards)
        return [torch.cat([pieces[at] for at in each]) for each in order.tolist()]

    def accuracy(self, model: nn.Module) -> float:
        with torch.no_grad():
            found = [model(rows).argmax(1) for rows in self.test_x[:2000].split(500)]
        return float((torch.cat(found) == self.test_y[:2000]).float().mean())


_FILES = ("train-images", "train-labels", "t10k-images", "t10k-labels")


def _idx(path: Path) -> Any:
    """An array of the IDX format, http://yann.lecun.com/exdb/mnist."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    dimensions = data[3]
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


class Member:
    """Trains, and mixes by whatever `mix` is."""

    def __init__(self, task: Task, rank: int, rows: Tensor) -> None:
        torch.manual_seed(SEED)  # all begin alike
        self.model = task.make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=task.rate)
        self.task, self.rows = task, rows
        self.drawn = torch.Generator().manual_seed(rank)
        self.mix_s: list[float] = []
        self.shares: list[float] = []

    def train(self, steps: int, batch: int = 8) -> None:
        for _ in range(steps):
            chosen = self.rows[torch.randint(len(self.rows), (batch,), generator=self.drawn)]
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(self.task.x[chosen]), self.task.y[chosen]).backward()
            self.optimizer.step()


def by_gossip(
    members: Sequence[Member],
    network: LossyNetwork,
    rounds: int,
    steps: int,
    loss: float,
    **way: Any,
) -> None:
    """`way` are arguments of Gossip."""
    network.lose(loss)

    def run(member: Member, gossip: Gossip) -> None:
        while gossip.round < rounds:
            member.train(steps)
            begun_s = time.perf_counter()
            mixed = gossip.mix()
            member.mix_s.append(time.perf_counter() - begun_s)
            member.shares.append(mixed.share)

    gossips = [
        Gossip(member.model, post, degree=DEGREE, seed=SEED, **way)
        for member, post in zip(members, network.posts(), strict=True)
    ]
    try:
        with ThreadPoolExecutor(len(members)) as pool:
            list(pool.map(run, members, gossips))
    finally:
        for gossip in gossips:
            gossip.close()


def by_tcp(members: Sequence[Member], network: LossyNetwork, rounds: int, steps: int, loss: float) -> None:
    """Whole models over connections, each neighbour waited for; raises TimeoutError after TCP_S."""
    size = len(members)
    neighbours = Graph("regular", size, DEGREE, SEED).at(0)
    network.lose(0)
    ends = _connections(network, neighbours)
    network.lose(loss)

    def run(rank: int) -> None:
        member = members[rank]
        parameters = list(member.model.parameters())
        weights = metropolis_hastings(neighbours, rank)
        for _ in range(min(rounds, TCP_ROUNDS)):
            member.train(steps)
            begun_s = time.perf_counter()
            mine = torch.cat([p.detach().reshape(-1) for p in parameters]).numpy()
            sending = [
                threading.Thread(target=_send, args=(ends[rank][other], mine.tobytes()))
                for other in neighbours[rank]
            ]
            for thread in sending:
                thread.start()
            mixed = mine.copy()
            for other in neighbours[rank]:
                theirs = np.frombuffer(_exactly(ends[rank][other], mine.nbytes), np.float32)
                mixed += weights[other] * (theirs - mine)
            for thread in sending:
                thread.join()
            torch.nn.utils.vector_to_parameters(torch.from_numpy(mixed), parameters)
            member.mix_s.append(time.perf_counter() - begun_s)
            member.shares.append(1.0)

    try:
        with ThreadPoolExecutor(size) as pool:
            list(pool.map(run, range(size)))
    finally:
        for each in ends:
            for end in each.values():
                end.close()


def _connections(network: LossyNetwork, neighbours: Any) -> list[dict[int, socket.socket]]:
    ends: list[dict[int, socket.socket]] = [{} for _ in neighbours]
    for one, other in ((a, b) for a, each in enumerate(neighbours) for b in each if a < b):
        listening = network.socket(one, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = PORT + 1 + other
        listening.bind((network.address(one), port))
        listening.listen()
        ends[other][one] = network.socket(other, socket.SOCK_STREAM)
        ends[other][one].settimeout(TCP_S)
        ends[other][one].connect((network.address(one), port))
        ends[one][other], _ = listening.accept()
        listening.close()
        for end in (ends[one][other], ends[other][one]):
            end.settimeout(TCP_S)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ends


def _send(end: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # whoever waits for what comes back finds it out
        end.sendall(data)


def _exactly(end: socket.socket, size_bytes: int) -> bytearray:
    data = bytearray(size_bytes)
    view = memoryview(data)
    while view:
        got = end.recv_into(view)
        if not got:
            raise ConnectionError("a member is gone")
        view = view[got:]
    return data


HEADERS = [
    "way, rows, packets lost",
    *("received %", "accuracy %", "of the lowest %"),
    *("ms of a mix", "95 % within", "ms of an iteration"),
]
WAYS: dict[str, Callable[..., None]] = {
    "rounds": functools.partial(by_gossip, graph="regular"),
    "fec": functools.partial(by_gossip, graph="regular", fec=4),
    "async": functools.partial(by_gossip, mode="async"),
    "tcp": by_tcp,
}


@click.command()
@click.option("--members", "size", default=16, show_default=True)
@click.option("--rounds", default=200, show_default=True)
@click.option("--steps", default=9, show_default=True, help="of training, between two rounds")
@click.option("--loss", default="0,10,20,40,70", show_default=True, help="per cent of packets, each way")
@click.option("--shards", default="4,0", show_default=True, help="0: rows by chance")
@click.option("--ways", default="rounds,async", show_default=True, help=f"of {', '.join(WAYS)}")
@click.option("--digits", is_flag=True, help="even where Fashion-MNIST is")
def main(size: int, rounds: int, steps: int, loss: str, shards: str, ways: str, digits: bool) -> None:
    """Accuracy and time of gossip, for each share of packets dropped."""
    torch.set_num_threads(1)
    task = Task(None if digits or not FASHION.exists() else FASHION)
    count = sum(p.numel() for p in task.make().parameters())
    title = (
        f"{task.name}, {count:,} parameters; {size} members, {DEGREE} neighbours each, {rounds} rounds of "
        f"{steps} steps; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(title)
    found: list[list[str]] = []
    with LossyNetwork(size) as network:
        for parted, lost, name in itertools.product(shards.split(","), loss.split(","), ways.split(",")):
            rows = task.parts(size, int(parted) or None)
            members = [Member(task, rank, part) for rank, part in enumerate(rows)]
            which = f"{name}, {f'{parted} shards' if int(parted) else 'rows by chance'}, {lost} % lost"
            began_s = time.perf_counter()
            try:
                WAYS[name](members, network, rounds, steps, float(lost) / 100)
            except TimeoutError:
                print(f"{which}: no iteration within {TCP_S:g} s", flush=True)
                found.append([which, "", "", "", f"over {1000 * TCP_S:g}", "", ""])
                continue
            took_s = time.perf_counter() - began_s
            times = [each for member in members for each in member.mix_s]
            iteration_ms = 1000 * took_s / min(len(member.mix_s) for member in members)
            reached = [task.accuracy(member.model) for member in members]
            share = statistics.fmean(each for member in members for each in member.shares)
            figures = [f"{100 * each:.1f}" for each in (share, statistics.fmean(reached), min(reached))]
            figures += [f"{1000 * each:.0f}" for each in (statistics.median(times), np.quantile(times, 0.95))]
            found.append([which, *figures, f"{iteration_ms:.0f}"])
            print(*found[-1], f"{took_s:.0f} s in all", sep="  ", flush=True)
    report(f"gossip_lab_{'_'.join(ways.split(','))}", title, HEADERS, found, None)


if __name__ == "__main__":
    main()
