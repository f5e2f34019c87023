"""One process of `groups.py` that calls gloo: RANK SIZE PORT. Orders are lines of its standard input."""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    port = int(sys.argv[3] or 0)
    store = dist.TCPStore(
        "127.0.0.1", port, size, rank == 0, timeout=timedelta(seconds=60), wait_for_workers=False
    )
    if not rank:
        print(json.dumps({"place": str(store.port)}), flush=True)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
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
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may wait for members that have ended


if __name__ == "__main__":
    main()
