"""How the processes of a team meet as ranks of torch.distributed, and part."""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist


def meet(backend: str, address: str, rank: int, size: int, place: str) -> None:
    """Initialise torch.distributed. Rank 0, at `address`, prints its place for the others."""
    torch.set_num_threads(1)
    if backend == "duetlink":
        import duetlink.groups.torch  # noqa: F401  (registers the backend)
    store = dist.TCPStore(
        address, int(place or 0), size, rank == 0, timeout=timedelta(seconds=60), wait_for_workers=False
    )
    if not rank:
        print(json.dumps({"place": str(store.port)}), flush=True)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)


def part(backend: str) -> None:
    """End this process."""
    if backend == "duetlink":
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may wait for members that have ended
