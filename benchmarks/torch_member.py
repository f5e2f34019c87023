"""One process of a team that calls torch.distributed: BACKEND ADDRESS RANK SIZE PLACE.

ADDRESS is where rank 0 can be reached, PLACE where it is. Orders are lines of standard input. Nothing of
duetlink is loaded but for its backend.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    backend, address, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    if backend == "duetlink":
        import duetlink.groups.torch  # noqa: F401  (registers the backend)
    port = int(sys.argv[5] or 0)
    store = dist.TCPStore(
        address, port, size, rank == 0, timeout=timedelta(seconds=60), wait_for_workers=False
    )
    if not rank:
        print(json.dumps({"place": str(store.port)}), flush=True)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    for line in sys.stdin:
        order = json.loads(line)
        array = torch.full((order["items"],), rank + 1, dtype=torch.float32)
        dist.barrier()
        start_s = time.perf_counter()
        for _ in range(order["calls"]):
            dist.all_reduce(array)
        taken_s = time.perf_counter() - start_s
        expected = torch.tensor(size * (size + 1) / 2) * torch.tensor(float(size)) ** (order["calls"] - 1)
        if not (array == expected).all():
            raise SystemExit(f"{order}: {array[:3]}, not {expected}")
        if not rank:
            print(json.dumps({"seconds": taken_s}), flush=True)
    if backend == "duetlink":
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may wait for members that have ended


if __name__ == "__main__":
    main()
