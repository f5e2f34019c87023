"""The audit log below a request: one entry appended, with and without waiting for the disk."""

from __future__ import annotations

import statistics
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, report, timed
from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog

APPENDED = 100  # times per round


@benchmark
@rounds(7)
def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = AuditLog(Path(directory) / "audit.jsonl")
        ways = {
            "an entry appended and on the disk": partial(_append, log, sync=True),
            "an entry appended": partial(_append, log, sync=False),
        }
        samples = interleave(ways, rounds)
    report(
        "part_audit",
        "The audit log",
        ["what", "ms, median (least to most)"],
        [[name, f"{sample.median_s * 1000:.2f} ({sample.spread})"] for name, sample in samples.items()],
        {name: sample.times_s for name, sample in samples.items()},
    )


def _append(log: AuditLog, *, sync: bool) -> float:
    entry = Entry(kind="release", name="x", peer="Sven", revision=1, size_bytes=100, fingerprint="0" * 32)
    return statistics.median(timed(lambda: log.append([entry], sync=sync)) for _ in range(APPENDED))


if __name__ == "__main__":
    main()
