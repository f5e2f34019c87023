"""What a member of `weekly_lost_members.py` trains, in the test's own process or in one that is killed.

It is imported once, by a process that forks the others: torch takes seconds to load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import duetlink
from duetlink.errors import PeerLost
from duetlink.groups.api.group import Group
from duetlink.learning import DpSgd, Gossip, LocalSteps
from duetlink.settings import Settings

SIZE = 4
PATIENCE_S = 8.0  # of a round of gossip, whose neighbours say nothing
PAUSE_S = 0.02  # between two steps, which cost nothing here
# A process that is stopped is lost after so long; one that is killed, when its connections end.
SETTINGS = {
    "gossip": Settings(
        heartbeat_interval_s=0.5, heartbeat_timeout_s=30.0, reconnect_timeout_s=30.0, only=("tcp",)
    ),
    "steps": Settings(
        heartbeat_interval_s=0.2, heartbeat_timeout_s=2.0, reconnect_timeout_s=2.0, only=("tcp",)
    ),
}


def join(kind: str, name: str, code: str = "") -> Group:
    arguments: dict[str, Any] = {"name": name, "settings": SETTINGS[kind], "patience_s": 0.0}
    return duetlink.group(code, **arguments) if code else duetlink.group(size=SIZE, **arguments)


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 2))


def begin(way: str, group: Group, model: nn.Module) -> tuple[Any, Callable[[], Any]]:
    """A training in this way, and a step of it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if way in ("rounds", "async"):
        graph = "full" if way == "rounds" else "ring"
        gossip = Gossip(model, group, mode=way, graph=graph, patience_s=PATIENCE_S)
        return gossip, gossip.mix
    x, y = torch.randn(64, 20), torch.randint(0, 2, (64,))
    if way == "local steps":
        steps = LocalSteps(model, group, every=1, quorum=2, grace_s=0.3)

        def step() -> bool:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            return steps.after_step()

        return steps, step
    training = DpSgd(
        model,
        optimizer,
        nn.CrossEntropyLoss(reduction="none"),
        rows=256,
        batch=32,
        clip=1.0,
        noise=1.0,
        group=group,
        trust="leader",
    )

    return training, lambda: training.step(x[:8], y[:8])


def train(way: str, kind: str, name: str, code: str) -> None:
    """Never ends by itself."""
    torch.set_num_threads(1)
    never = threading.Event()
    group, model = join(kind, name, code), make_model()
    group.wait_ready(60)
    _, step = begin(way, group, model)
    while True:
        try:
            step()
        except PeerLost:  # another one was killed
            group.sync(model)
        never.wait(PAUSE_S)
