"""Tries programs, one seed after another, and prints what differs, made short; see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import duetlink
from duetlink.settings import Settings
from tests.remote.conftest import Bench
from tests.remote.fuzzer import world
from tests.remote.fuzzer.draw import program
from tests.remote.fuzzer.grammar import LIBRARIES
from tests.remote.fuzzer.trial import Open, Side, here, run, shrunk

_AGAIN = 200  # programs, after which a new duet begins: a session of thousands is another test


class _Pair:
    """A duet whose owner shares all objects, and says yes."""

    def __init__(self, bench: Bench) -> None:
        real, mocks = world.data(), world.mocks()
        self.pointers: Mapping[str, Any] = {
            name: bench.share(real[name], name, mocks[name]) for name in world.names()
        }
        self.remote = bench.scientist.remote
        self._fetch = bench.scientist.fetch

    def fetch(self, obj: Any) -> Any:
        return self._fetch(obj, reason="the fuzzer", timeout_s=60)


@contextmanager
def rooms() -> Iterator[Open]:
    """What runs programs in real rooms, over a real link."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(
            audit_path=str(Path(directory, "audit.jsonl")), budget_path=str(Path(directory, "privacy.jsonl"))
        )
        owner = duetlink.launch(name="Olga", settings=settings)
        scientist = duetlink.join(str(owner.code), name="Sven", settings=settings)
        bench = Bench(owner, scientist)
        serving = threading.Thread(target=bench.serve, daemon=True)
        serving.start()
        pair = _Pair(bench)

        @contextmanager
        def opened(names: Iterable[str]) -> Iterator[Side]:
            yield pair

        try:
            yield opened
        finally:
            scientist.close()
            owner.close()
            serving.join(10)


@contextmanager
def _in_this_process() -> Iterator[Open]:
    yield here


def main(arguments: list[str]) -> int:
    """How many programs differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.remote.fuzzer", description=__doc__)
    parser.add_argument("number", type=int, help="of programs")
    parser.add_argument("seed", type=int, help="of the first; the next one has the next number")
    parser.add_argument("--here", action="store_true", help="without a link or rooms")
    parser.add_argument("--library", choices=list(LIBRARIES), action="append", help="only of this one")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for first in range(asked.seed, asked.seed + asked.number, _AGAIN):
        with _in_this_process() if asked.here else rooms() as opened:
            for seed in range(first, min(first + _AGAIN, asked.seed + asked.number)):
                outcome = run(program(seed, asked.library or tuple(LIBRARIES)), opened)
                counts.update(programs=1, variables=outcome.compared, refused=len(outcome.refused))
                if outcome.difference is not None:
                    counts["different"] += 1
                    print(f"\n# seed {seed}\n{shrunk(outcome.difference, opened)}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return min(counts["different"], 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
