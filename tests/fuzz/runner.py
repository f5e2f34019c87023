"""Fuzzing one decoder for some time, in child processes that may die."""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.child import HEAD, MOST_INPUT_BYTES

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).parent / "corpus"
MOST_FAILURES = 5
_START_TIMEOUT_S = 120.0  # the libraries may have to come from a slow disk
_BUSY = 8  # times as long as a child computes, it may take where others compute as well
_STUCK_S = 30.0  # without processor time, which the child itself is ended for
_ENVIRONMENT = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "MKL_NUM_THREADS"), "1"
    ),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "DUETLINK_AUDIT_PATH": "",
    "RUST_BACKTRACE": "0",  # a panic would load polars' symbols, 60 MB
}


@dataclass
class Failure:
    """One input that did what no input may."""

    number: int
    why: str
    data: bytes
    words: str  # the end of what the process said, such as where it died
    after_s: float

    def __str__(self) -> str:
        return f"input {self.number}, {len(self.data)} bytes, after {self.after_s:.1f} s: {self.why}"


@dataclass
class Outcome:
    """What came of fuzzing one decoder."""

    target: str
    seed: str
    tried: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        words = f"{self.target}: seed {self.seed}, {self.tried:,} inputs in {self.seconds:.0f} s, "
        words += f"{self.refused:,} refused, {len(self.failures)} failures"
        return "\n  ".join([words, *map(str, self.failures)])


def fuzz(
    target: str, seed: str, seconds: float, *, plant: str = "", most_failures: int = MOST_FAILURES
) -> Outcome:
    """Try inputs that are made from `seed` until so much processor time is over, or enough have failed."""
    return _run(Outcome(target, seed), seconds, (), plant, most_failures)


def replay(target: str, inputs: Sequence[Path], *, plant: str = "") -> Outcome:
    """Try these inputs, each once."""
    return _run(Outcome(target, "corpus"), 0.0, inputs, plant, len(inputs))


def corpus(target: str) -> list[Path]:
    """The inputs that are kept for a decoder: those that one of its versions did not survive."""
    return sorted((CORPUS / target).glob("*.bin"))


def keep(outcome: Outcome, directory: Path) -> list[Path]:
    """Write down the inputs that failed, to be tried again."""
    paths = []
    for failure in outcome.failures:
        path = directory / outcome.target / f"seed-{outcome.seed}-input-{failure.number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(failure.data)
        path.with_suffix(".txt").write_text(f"{failure}\n\n{failure.words}")
        paths.append(path)
    return paths


def _run(outcome: Outcome, seconds: float, inputs: Sequence[Path], plant: str, most_failures: int) -> Outcome:
    next_number, left = 0, list(inputs)
    with tempfile.TemporaryDirectory(prefix="duetlink-fuzz-") as directory:
        shared_path, words_path = Path(directory, "input"), Path(directory, "words")
        shared_path.write_bytes(bytes(HEAD.size + MOST_INPUT_BYTES))
        while (left or (not inputs and outcome.seconds < seconds)) and len(outcome.failures) < most_failures:
            options = {
                "target": outcome.target,
                "seed": outcome.seed,
                "start": next_number,
                "seconds": seconds - outcome.seconds,
                "shared": str(shared_path),
                "inputs": [str(path) for path in left],
                "plant": plant,
            }
            child = _Child(options, words_path)
            begun = child.wait_ready()
            found = child.finish()
            outcome.tried += found.tried
            outcome.refused += found.refused
            spent_s = time.monotonic() - begun
            with open(shared_path, "r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
                died_at, size = HEAD.unpack_from(shared, 0)
                data = shared[HEAD.size : HEAD.size + size]
            words = words_path.read_text(errors="replace")[-4000:]
            for number, why, failed_data, after_s in found.failures:
                failure = Failure(number, why, failed_data, words, outcome.seconds + after_s)
                outcome.failures.append(failure)
            if found.death:
                failure = Failure(died_at, found.death, data, words, outcome.seconds + spent_s)
                outcome.failures.append(failure)
                outcome.tried += died_at + 1 - next_number
                left = left[died_at + 1 - next_number :]
                next_number = died_at + 1
            else:
                left, next_number = [], found.next_number
            outcome.seconds += spent_s
    return outcome


@dataclass
class _Found:
    tried: int = 0
    refused: int = 0
    next_number: int = 0
    death: str = ""
    failures: list[tuple[int, str, bytes, float]] = field(default_factory=list)


class _Child:
    """One child process, from its start to its end."""

    def __init__(self, options: dict[str, Any], words_path: Path) -> None:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.child", json.dumps(options)]
        with open(words_path, "wb") as words:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=words,
                env={**os.environ, **_ENVIRONMENT},
            )
        self._deadline_s = _BUSY * options["seconds"] + _STUCK_S
        self._words_path = words_path

    def wait_ready(self) -> float:
        line = self._line(_START_TIMEOUT_S)
        if not line or not json.loads(line).get("ready"):
            self._end()
            raise RuntimeError(
                f"the child did not start: {self._words_path.read_text(errors='replace')[-4000:]}"
            )
        return time.monotonic()

    def finish(self) -> _Found:
        found = _Found()
        end = time.monotonic() + self._deadline_s
        while line := self._line(end - time.monotonic()):
            told = json.loads(line)
            if "failed" in told:
                failed = told["failed"], told["why"], bytes.fromhex(told["data"]), told["after_s"]
                found.failures.append(failed)
            else:
                found.tried, found.refused = told["tried"], told["refused"]
                found.next_number = told["next"]
        status = self._end()
        if status == -signal.SIGPROF:
            found.death = "hang: over a second of processor time"
        elif status < 0:
            found.death = f"died by {signal.Signals(-status).name}"
        elif status > 0 or not found.tried:
            found.death = f"ended with status {status}"
        return found

    def _line(self, timeout_s: float) -> bytes:
        """The next line; empty at its end, or when the time is over."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, timeout_s))
        return self._process.stdout.readline() if ready else b""

    def _end(self) -> int:
        try:
            status = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status
