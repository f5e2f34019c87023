"""What a policy's answer and the audit log cost, on top of a round trip. Both sides are in one process."""

from __future__ import annotations

import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duetlink
from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, report
from duetlink import Duet, Policy, Settings

ASKED = 100  # times per round
OTHERS = 100  # policies that do not match


@benchmark
@rounds(7)
def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        log = Path(directory) / "audit.jsonl"
        plain = stack.enter_context(_pair(""))
        logged = stack.enter_context(_pair(str(log)))
        ways = {
            "a ping": lambda: _median(plain[1].ping),
            "get, granted before by a person, no log": _getting(plain, "by person"),
            "get, answered by a policy, no log": _getting(plain, "by policy"),
            "get, granted before by a person": _getting(logged, "by person"),
            "get, answered by a policy": _getting(logged, "by policy"),
            f"get, answered by a policy behind {OTHERS} others": _getting(logged, "behind others"),
        }
        samples = interleave(ways, rounds)
    rows = [
        [name, f"{sample.median_s * 1000:.2f} ({sample.spread})", _above(sample.median_s, base)]
        for name, sample in samples.items()
        for base in [samples["get, granted before by a person, no log"].median_s]
    ]
    report(
        "policies",
        "A request of 3 numbers, answered by a policy (both sides on one thread each, in one process)",
        ["what", "ms, median (least to most)", "ms on top of a granted get without a log"],
        rows,
        {name: sample.times_s for name, sample in samples.items()},
    )


def _above(time_s: float, base_s: float) -> str:
    return f"{(time_s - base_s) * 1000:+.2f}"


@contextlib.contextmanager
def _pair(audit_path: str) -> Iterator[tuple[Duet, Duet]]:
    """Two sides, three objects at the owner, and how each of them is granted."""
    settings = Settings(audit_path=audit_path)
    with contextlib.redirect_stdout(io.StringIO()):
        owner = duetlink.launch(settings=settings)
    with owner, duetlink.join(str(owner.code), settings=Settings(audit_path="")) as scientist:
        owner.wait_connected(30)
        for name in ("by person", "by policy", "behind others"):
            owner.share([1.0, 2.0, 3.0], name)
            scientist.wait_object(name, 10)
        pending = scientist.store["by person"].request()
        owner.wait_request(10).approve()
        pending.result(10)
        owner.policies.add(Policy("approve", assets="by policy", max_elements=10, rate=(10**6, 60)))
        for number in range(OTHERS):
            owner.policies.add(
                Policy("deny", assets=f"other {number}*", tags=("a", "b*"), hours=("00:00", "23:59"))
            )
        owner.policies.add(Policy("approve", assets="behind others", total_elements=10**9))
        yield owner, scientist


def _getting(pair: tuple[Duet, Duet], name: str) -> Callable[[], float]:
    pointer = pair[1].store[name]
    return lambda: _median(lambda: pointer.get(timeout_s=30))


def _median(work: Callable[[], object]) -> float:
    times_s = []
    for _ in range(ASKED):
        start_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - start_s)
    return statistics.median(times_s)


if __name__ == "__main__":
    main()
