"""`python -m benchmarks [NAME …]`: the tables of the README by default, or those named."""

from __future__ import annotations

import importlib
import sys

NAMES = ("control", "busy", "seed_table", "large", "tunnel", "codecs", "dedup")
BY_NAME_ALONE = ("soak", "day", "delivery", "gradients")  # half an hour and more


def main() -> None:
    names = sys.argv[1:] or NAMES
    for name in names:
        if name not in NAMES + BY_NAME_ALONE:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(NAMES + BY_NAME_ALONE)}")
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
