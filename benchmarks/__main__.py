"""`python -m benchmarks [control] [busy] [seed_table] [large]`: all of them by default."""

from __future__ import annotations

import importlib
import sys

NAMES = ("control", "busy", "seed_table", "large")


def main() -> None:
    names = sys.argv[1:] or NAMES
    for name in names:
        if name not in NAMES:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
