"""One process of a team that calls torch.distributed: BACKEND ADDRESS RANK SIZE PLACE.

ADDRESS is where rank 0 can be reached, PLACE where it is. Orders are lines of standard input. Nothing of
duetlink is loaded but for its backend.
"""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.distributed as dist

from benchmarks.torch_job import meet, part


def main() -> None:
    backend, address, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    meet(backend, address, rank, size, sys.argv[5])
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
    part(backend)


if __name__ == "__main__":
    main()
