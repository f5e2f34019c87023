"""`python -m benchmarks [NAME …]`: the tables of the README by default, or those named."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile

NAMES = ("control", "busy", "seed_table", "large", "tunnel", "codecs", "dedup")
# half an hour and more, or a matter of their own
BY_NAME_ALONE = ("soak", "day", "delivery", "gradients", "panel", "page", "policies", "remote")


def main() -> None:
    names = sys.argv[1:] or NAMES
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_DATA_HOME"] = directory  # what is measured is not in the user's own audit log
        for name in names:
            if name not in NAMES + BY_NAME_ALONE:
                sys.exit(f"no benchmark {name!r}; there are {', '.join(NAMES + BY_NAME_ALONE)}")
            importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
