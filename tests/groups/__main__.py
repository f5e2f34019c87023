"""`python -m tests.groups`: what takes longer than a change should wait for. Root, for the networks.

Two to eight kernels on one host, groups in many mixes of networks, members killed in each kind of operation,
at many steps and as processes, and a thousand members that come and go. The seed is printed; DUETLINK_SEED
repeats it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.lab.group_mixes import MIXES, Mix
from tests.lab.lab import Lab
from tests.lab.namespace import unsupported
from tests.lab.notebook import NotebookError

HERE = Path(__file__).parent


def networks() -> list[str]:
    """One line for each mix; returns those that failed."""
    failed = []
    for kinds in MIXES:
        named = ", ".join(kinds)
        try:
            with Lab() as lab, Mix(lab, kinds) as mix:
                met_s = mix.meet()
                relayed, expected = mix.relayed(), mix.expected()
                digests = mix.work()
                assert digests == [digests[0]] * len(kinds), "other bits"
                victim = random.randrange(len(kinds))
                name = mix.kinds[victim]
                heard = mix.lose(victim, after=random.randrange(1, 9))
                assert heard == [[victim, name, True]] * (len(kinds) - 1), heard
                if len(kinds) > 3:  # of two that are left each needs the other
                    digests = mix.work()
                    assert digests == [digests[0]] * (len(kinds) - 1), "other bits"
                note = "" if relayed == expected else f"; relayed {relayed}, not {expected}"
            print(f"{named}: met in {met_s:.1f} s, all operations right{note}", flush=True)
        except (AssertionError, NotebookError) as error:
            failed.append(named)
            print(f"{named}: {error}", flush=True)
    return failed


def tests(*arguments: str, **environment: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *arguments]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


def main() -> None:
    seed = os.environ.get("DUETLINK_SEED", str(random.SystemRandom().randrange(10**6)))
    random.seed(int(seed))
    print(f"DUETLINK_SEED={seed}", flush=True)
    codes = [
        tests(str(HERE / "test_churn.py"), "--timeout", "900", DUETLINK_SEED=seed, DUETLINK_CHANGES="1000"),
        tests(str(HERE / "test_losses.py"), DUETLINK_SEEDS="12"),
        tests(str(HERE / "test_killed_members.py"), "--timeout", "600", DUETLINK_KILLS="all"),
        tests(str(HERE / "test_notebook_kernels.py"), "--timeout", "900", DUETLINK_KERNELS="8"),
    ]
    if why := unsupported():
        sys.exit(why)
    failed = networks()
    if any(codes) or failed:
        sys.exit(f"DUETLINK_SEED={seed}: failed: tests {codes}; networks {failed}")


if __name__ == "__main__":
    main()
