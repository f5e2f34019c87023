"""One process of a team that trains by DDP: BACKEND ADDRESS BATCH RANK SIZE PLACE.

ADDRESS is where rank 0 can be reached, PLACE where it is. Orders are lines of standard input. Nothing of
duetlink is loaded but for its backend.
"""

# no `from __future__ import annotations`: torch compares the annotations of hooks with its own types

import contextlib
import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from benchmarks.torch_job import meet, part

LAYERS = 8


def model_of(items: int) -> nn.Sequential:
    """A perceptron with about that many weights, in layers of the same size."""
    torch.manual_seed(0)
    width = round((items / LAYERS) ** 0.5)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(width, width, bias=False), nn.ReLU())]
    return nn.Sequential(*layers)


class Timeline:
    """When each bucket of a step was ready, and when its sum was; in seconds since the step began."""

    def __init__(self) -> None:
        self.began_s = 0.0
        self.buckets: list[dict[str, float]] = []

    def hook(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        found = {"bytes": bucket.buffer().nbytes, "ready_s": time.perf_counter() - self.began_s}
        self.buckets.append(found)

        def summed(future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            found["summed_s"] = time.perf_counter() - self.began_s
            return future.value()

        assert dist.group.WORLD is not None
        return allreduce_hook(dist.group.WORLD, bucket).then(summed)


def hook(timeline: Timeline, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return timeline.hook(bucket)


def main() -> None:
    backend, address, batch, rank, size = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    meet(backend, address, rank, size, sys.argv[6])
    models: dict[tuple[int, bool], tuple[DistributedDataParallel, Timeline]] = {}
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        items, way = order["items"], order["way"]
        key = items, way == "timeline"
        if key not in models:
            parallel, timeline = DistributedDataParallel(model_of(items)), Timeline()
            if way == "timeline":
                parallel.register_comm_hook(timeline, hook)
            models[key] = parallel, timeline
        parallel, timeline = models[key]
        inputs = torch.randn(batch, parallel.module[0].in_features)
        dist.barrier()
        start_s = time.perf_counter()
        with parallel.no_sync() if way == "alone" else contextlib.nullcontext():
            for _ in range(order["calls"]):
                timeline.began_s, timeline.buckets = time.perf_counter(), []
                parallel(inputs).square().mean().backward()
                parallel.zero_grad()
        taken_s = time.perf_counter() - start_s
        step_s = time.perf_counter() - timeline.began_s
        if not rank:
            told = {"seconds": taken_s, "step_s": step_s, "buckets": timeline.buckets}
            print(json.dumps(told), flush=True)
    part(backend)


if __name__ == "__main__":
    main()
