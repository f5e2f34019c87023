"""A duet and a group side by side for some minutes, and what their processes hold after each cycle."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import tempfile
import time
from pathlib import Path

from tests.soak import duet_cycles, group_cycles
from tests.soak.kernel import Kernels
from tests.soak.samples import Samples
from tests.soak.verdict import LEAST_CYCLES

STUCK_S = 300.0  # between two samples: every call of a workload gives up sooner


class Stuck(Exception):
    """No sample came for so long: a call hangs that should have ended."""


def soak(minutes: float, *, reshares: bool, group: bool, only: tuple[str, ...]) -> Samples:
    """Run both for so long, and for as many cycles as a verdict takes.

    Raises:
        NotebookError: a call failed, or a value was wrong.
        Stuck: a call hangs.
    """
    samples = Samples()
    goes_on = functools.partial(_goes_on, samples.begun_s + 60 * minutes)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as home,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
        contextlib.closing(Kernels(Path(home))) as kernels,
    ):
        works = [pool.submit(duet_cycles.run, kernels, samples, goes_on, reshares=reshares, only=only)]
        if group:
            works.append(pool.submit(group_cycles.run, kernels, samples, goes_on))
        while not all(work.done() for work in works):
            done, _ = concurrent.futures.wait(works, 1.0, concurrent.futures.FIRST_EXCEPTION)
            for work in done:
                work.result()
            if time.monotonic() - samples.latest_s > STUCK_S:
                raise Stuck(f"no cycle has ended for {STUCK_S:g} s")
        for work in works:
            work.result()
    return samples


def _goes_on(until_s: float, cycles: int) -> bool:
    return cycles < LEAST_CYCLES or time.monotonic() < until_s
