"""`python -m tests.engines`: Flower, Spark Connect, Dask and preparations over shared ports. See `--help`.

The engines live in an environment of their own, since what they need would bind the versions of ours.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ["DUETLINK_AUDIT_PATH"] = ""

from tests.engines import dask_cluster, flower, preparation, spark
from tests.engines.programs import Programs

ENGINES = {"flower": flower.run, "spark": spark.run, "prep": preparation.run, "dask": dask_cluster.run}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engines", description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path(".engines/bin"), help="of the engines' environment")
    parser.add_argument("engines", nargs="*", help=f"some of {', '.join(ENGINES)}; default: all")
    chosen = parser.parse_args()
    failed = False
    for name in chosen.engines or ENGINES:
        begin_s = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            programs = Programs(chosen.bin.absolute(), Path(directory))
            try:
                with programs:
                    said = ENGINES[name](programs)
            except Exception:
                traceback.print_exc()
                print(programs.logs(), flush=True)
                failed = True
                continue
        print(f"{name}: {said} ({time.monotonic() - begin_s:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
