"""One process of a team that calls a group: RANK SIZE CODE. Orders are lines of its standard input."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

import duetlink

WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "in_place": {"in_place": True},
    "secure": {"secure": True, "limit": 16.0},
}


def main() -> None:
    rank, size, code = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    group = duetlink.group(code) if rank else duetlink.group(size=size)
    if not rank:
        print(json.dumps({"place": group.code}), flush=True)
    with group:
        group.wait_ready(60)
        for line in sys.stdin:
            order = json.loads(line)
            calls, way = order["calls"], WAYS[order["way"]]
            array = np.full(order["items"], rank + 1, np.float32)
            total = array
            group.barrier()
            start_s = time.perf_counter()
            for _ in range(calls):
                total = group.all_reduce(array, **way)
            taken_s = time.perf_counter() - start_s
            expected = np.float32(size * (size + 1) / 2)
            if total is array:
                expected *= np.float32(size) ** (calls - 1)
            if not np.allclose(total, expected, rtol=0, atol=1e-3 if "secure" in way else 0):
                raise SystemExit(f"{order}: {total[:3]}, not {expected}")
            if not rank:
                print(json.dumps({"seconds": taken_s}), flush=True)


if __name__ == "__main__":
    main()
