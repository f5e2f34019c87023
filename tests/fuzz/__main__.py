"""`python -m tests.fuzz`: every decoder for some minutes, from a seed that the clock gives. See `--help`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz import runner
from tests.fuzz.targets import names


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="for each decoder")
    parser.add_argument("--seed", default=str(int(time.time())), help="the same seed makes the same inputs")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="where failing inputs go")
    parser.add_argument("--plant", default="", help="a check to leave out, see plants.py")
    parser.add_argument("targets", nargs="*", help="some of the decoders; default: all")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    failed = False
    for target in names(chosen.targets):
        kept = runner.corpus(target)
        outcomes = [runner.replay(target, kept, plant=chosen.plant)] if kept else []
        outcomes.append(runner.fuzz(target, chosen.seed, chosen.seconds, plant=chosen.plant))
        for outcome in outcomes:
            print(outcome, flush=True)
            for path in runner.keep(outcome, chosen.out):
                print(f"    kept as {path}", flush=True)
            failed |= bool(outcome.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
