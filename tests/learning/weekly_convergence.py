"""What each way of training learns of the lab's rows: `pytest tests/learning/weekly_convergence.py -s`.

Fashion-MNIST with LeNet where Debian's package dataset-fashion-mnist is, else the digits: see gossip_lab.py.
Too long for each change: the name keeps it out of what pytest collects by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from duetlink.groups.api.group import Group
from duetlink.learning import DpSgd, Gossip, LocalSteps
from duetlink_gossip.udp import UdpPost
from tests.groups.conftest import MakeGroup, make_group
from tests.learning.gossip_lab import FASHION, Member, Task
from tests.learning.test_gossip_udp import bound, pair_secrets

__all__ = ["make_group"]  # a fixture

SIZE = 4
ROUNDS, STEPS = 30, 9
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def task() -> Iterator[Task]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Task(FASHION if FASHION.exists() else None)
    torch.set_num_threads(threads)


def told(task: Task, way: str, *models: nn.Module) -> float:
    """The lowest accuracy of these."""
    reached = [task.accuracy(model) for model in models]
    print(f"{task.name}: {way}: " + ", ".join(f"{100 * each:.1f} %" for each in reached))
    return min(reached)


def test_private_training_learns(task: Task) -> None:
    torch.manual_seed(0)
    model = task.make()
    training = DpSgd(
        model,
        torch.optim.SGD(model.parameters(), lr=0.5),
        nn.CrossEntropyLoss(reduction="none"),
        rows=len(task.y),
        batch=256,
        clip=1.0,
        noise=0.7,
    )
    epochs = (training.batches(task.x, task.y) for _ in itertools.count())
    for batch in itertools.islice(itertools.chain.from_iterable(epochs), 60):
        training.step(*batch)
    epsilon = training.epsilon(delta=1e-5)
    assert told(task, f"DP-SGD, epsilon {epsilon:.2f}", model) > 0.6


def test_local_steps_learn(task: Task, make_group: MakeGroup) -> None:
    members = [Member(task, rank, rows) for rank, rows in enumerate(task.parts(SIZE, None))]

    def train(group: Group) -> None:
        member = members[group.rank or 0]
        steps = LocalSteps(member.model, group, every=STEPS, weight=len(member.rows))
        for _ in range(ROUNDS * STEPS):
            member.train(1)
            steps.after_step()
        steps.close()

    with ThreadPoolExecutor(SIZE) as pool:
        list(pool.map(train, make_group(SIZE)))
    assert told(task, "local steps", *(member.model for member in members)) > 0.6


@pytest.mark.parametrize("mode", ["rounds", "async"])
def test_gossip_learns(task: Task, mode: str) -> None:
    members = [Member(task, rank, rows) for rank, rows in enumerate(task.parts(SIZE, None))]
    socks, shared = [bound() for _ in members], pair_secrets(SIZE)
    addresses = [[sock.getsockname()] for sock in socks]
    posts = [UdpPost(sock, rank, addresses, shared[rank]) for rank, sock in enumerate(socks)]
    gossips = [Gossip(m.model, post, mode=mode) for m, post in zip(members, posts, strict=True)]

    def train(member: Member, gossip: Gossip) -> None:
        while gossip.round < ROUNDS:
            member.train(STEPS)
            gossip.mix()

    try:
        with ThreadPoolExecutor(SIZE) as pool:
            list(pool.map(train, members, gossips))
    finally:
        for gossip in gossips:
            gossip.close()
    assert told(task, f"gossip, {mode}", *(member.model for member in members)) > 0.5
