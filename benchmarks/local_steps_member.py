"""The members of `local_steps.py`, threads of one process: STEPS PAUSE_S GRACE_S ROUNDS SEEDS. Prints JSON.

It is alone in its network namespace, so all that crosses the loopback interface is theirs. Their settings
leave out `local`: in shared memory they would send nothing.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import duetlink
from duetlink import Settings
from duetlink.learning import LocalSteps
from tests.learning.gossip_lab import FASHION, Task

MEMBERS = 4
BATCH, RATE = 32, 0.1
STEP_S, EVERY, ROUNDS_WITH_PAUSE = 0.005, 20, 20  # of the members of which one pauses

# Arguments of LocalSteps; None: the mean of all models after each step.
WAYS: dict[str, dict[str, Any] | None] = {
    "averaged after each step": None,
    "every 100, float32": {"every": 100},
    "every 100, int8": {"every": 100, "updates": "int8"},
    "every 100, sparse 3 %": {"every": 100, "updates": "sparse"},
    "every 250, int8": {"every": 250, "updates": "int8"},
}


def sent_bytes() -> int:
    """Bytes that the loopback interface of this namespace has sent, with all headers."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    fields = next(line.split(":")[1].split() for line in lines if line.strip().startswith("lo:"))
    return int(fields[8])


def make_groups() -> list[Any]:
    settings = Settings(only=("tcp",))
    first = duetlink.group(size=MEMBERS, name="member 0", settings=settings)
    rest = [
        duetlink.group(first.code, name=f"member {rank}", settings=settings) for rank in range(1, MEMBERS)
    ]
    for group in (first, *rest):
        group.wait_ready(60)
    return [first, *rest]


def of_all(groups: Sequence[Any], call: Callable[[Any], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(call, groups))


class Rows:
    """Rows that one member trains on, and the model that all members test."""

    def __init__(self) -> None:
        self.task = Task(FASHION if FASHION.exists() else None)
        if FASHION.exists():  # the lab's rows are padded for a LeNet, with three times the same colour
            self.x, self.test_x = (each[:, 0].flatten(1) for each in (self.task.x, self.task.test_x))
        else:
            self.x, self.test_x = self.task.x, self.task.test_x

    def make(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(self.x.shape[1], 100), nn.ReLU(), nn.Linear(100, 10))

    def accuracy(self, model: nn.Module) -> float:
        with torch.no_grad():
            return float((model(self.test_x).argmax(1) == self.task.test_y).float().mean())

    def train(self, model: nn.Module, mine: Tensor, seed: int, steps: int) -> Any:
        """Yields after each step."""
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        drawn = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            rows = mine[torch.randint(len(mine), (BATCH,), generator=drawn)]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(self.x[rows]), self.task.y[rows]).backward()
            optimizer.step()
            yield


def learn(groups: list[Any], rows: Rows, way: dict[str, Any] | None, steps: int, seed: int) -> Any:
    """Accuracy of the model that all have in the end, bytes on the wire, and seconds."""
    models = [rows.make(seed) for _ in groups]
    parts = rows.task.parts(MEMBERS, None)
    before, began_s = sent_bytes(), time.perf_counter()

    def member(group: Any) -> None:
        rank = group.rank or 0
        training = rows.train(models[rank], parts[rank], MEMBERS * seed + rank, steps)
        if way is not None:
            with LocalSteps(models[rank], group, **way) as local:
                for _ in training:
                    local.after_step()
            return
        parameters = list(models[rank].parameters())
        for _ in training:
            flat = nn.utils.parameters_to_vector(parameters).detach()
            mean = group.all_reduce(flat, "mean")
            nn.utils.vector_to_parameters(mean, parameters)

    of_all(groups, member)
    took_s = time.perf_counter() - began_s
    reached = [rows.accuracy(model) for model in models]
    assert max(reached) == min(reached), "the members' models differ"
    return {"accuracy": reached[0], "sent_bytes": sent_bytes() - before, "took_s": took_s}


def paused(groups: list[Any], pause_s: float, grace_s: float) -> float:
    """How long the others take for their rounds, where the last member pauses once. A step is a wait."""
    never = threading.Event()
    done_s: list[float] = []

    def member(group: Any) -> None:
        rank = group.rank or 0
        model = nn.Linear(100, 10)
        with LocalSteps(model, group, every=EVERY, quorum=MEMBERS - 1, grace_s=grace_s) as local:
            group_began_s, has_paused = time.perf_counter(), False
            while local.round < ROUNDS_WITH_PAUSE:
                if rank == MEMBERS - 1 and local.round == 3 and not has_paused:
                    has_paused = True
                    never.wait(pause_s)
                never.wait(STEP_S)
                local.after_step()
            if rank == 0:
                done_s.append(time.perf_counter() - group_began_s)

    of_all(groups, member)
    return done_s[0]


def main() -> None:
    steps, pause_s, grace_s, rounds, seeds = (float(text) for text in sys.argv[1:6])
    torch.set_num_threads(1)
    rows = Rows()
    groups = make_groups()
    found: dict[str, list[Any]] = {name: [] for name in WAYS}
    for seed in range(int(seeds)):
        for name, way in WAYS.items():
            found[name].append(learn(groups, rows, way, int(steps), seed))
    times: dict[str, list[float]] = {"nobody": [], "one": []}
    for _ in range(int(rounds)):
        times["nobody"].append(paused(groups, 0.0, grace_s))
        times["one"].append(paused(groups, pause_s, grace_s))
    of_all(groups, lambda group: group.close())
    parameters = sum(each.numel() for each in rows.make(0).parameters())
    told = {"task": rows.task.name.partition(",")[0], "parameters": parameters}
    print(json.dumps(told | {"ways": found, "times_s": times}), flush=True)


if __name__ == "__main__":
    main()
