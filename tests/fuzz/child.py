"""The process that decodes hostile inputs, and may die of one: `python -m tests.fuzz.child OPTIONS`.

What it is about to decode lies in a file that its parent maps too, so that the input is there after a death.
CPU time over a second ends the process by a signal, also within a library that never returns.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from tests.fuzz import plants

LIMIT_S = 1.0  # of one input, in processor time
MEMORY_FACTOR = 10
MOST_INPUT_BYTES = 8 << 20
_HARD_LIMIT_BYTES = 4 << 30
HEAD = struct.Struct("<qQ")  # number of the input, its size


class Meter:
    """How far this process's memory has risen since `begin`."""

    def __init__(self) -> None:
        self._status = os.open("/proc/self/status", os.O_RDONLY)
        self._clear = os.open("/proc/self/clear_refs", os.O_WRONLY)
        self._start_bytes = 0

    def begin(self) -> None:
        os.pwrite(self._clear, b"5", 0)  # forget the highest point so far
        self._start_bytes = self._read(b"VmRSS:")

    def risen_bytes(self) -> int:
        return self._read(b"VmHWM:") - self._start_bytes

    def _read(self, name: bytes) -> int:
        status = os.pread(self._status, 4096, 0)
        return int(status.partition(name)[2].split(None, 1)[0]) * 1024


def main(options: dict[str, Any]) -> None:
    told = os.fdopen(os.dup(1), "w", buffering=1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # libraries print where a panic was
    plants.plant(options["plant"])
    from duetlink.errors import DuetError
    from tests.fuzz.targets import ROOM_BYTES, TARGETS

    target = TARGETS[options["target"]]
    with open(options["shared"], "r+b") as file:
        shared = mmap.mmap(file.fileno(), 0)
    meter = Meter()
    _warm_up(target)
    used_bytes = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (used_bytes + _HARD_LIMIT_BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps({"ready": True}), file=told)

    kept = [Path(path) for path in options["inputs"]]
    begun_s = time.process_time()  # so that a busy machine tries as many inputs
    tried = refused = 0
    for number in itertools.count(options["start"]):
        if number - options["start"] < len(kept):
            data = kept[number - options["start"]].read_bytes()
        elif kept or time.process_time() - begun_s > options["seconds"]:
            break
        else:
            data = target.make(random.Random(f"{options['target']}:{options['seed']}:{number}"))
        if len(data) > MOST_INPUT_BYTES:
            continue
        HEAD.pack_into(shared, 0, number, len(data))
        shared[HEAD.size : HEAD.size + len(data)] = data
        meter.begin()
        tried += 1
        why = ""
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        try:
            target.consume(data)
        except DuetError:
            refused += 1
        except BaseException as error:
            why = f"foreign exception {type(error).__name__}"
            traceback.print_exc()
        signal.setitimer(signal.ITIMER_PROF, 0)
        allowed = MEMORY_FACTOR * (target.size_bytes(data) + ROOM_BYTES) + target.slack_bytes
        if not why and meter.risen_bytes() > allowed:
            why = f"memory: {meter.risen_bytes():,} bytes, {allowed:,} allowed"
        if why:
            after_s = time.process_time() - begun_s
            failed = {"failed": number, "why": why, "data": data.hex(), "after_s": after_s}
            print(json.dumps(failed), file=told)
    print(json.dumps({"tried": tried, "refused": refused, "next": number}), file=told)
    told.flush()
    os._exit(0)


def _warm_up(target: Any) -> None:
    """What a library does once, on first use, is not the input's."""
    from duetlink.errors import DuetError

    for data in target.samples():
        with contextlib.suppress(DuetError):
            target.consume(data)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
