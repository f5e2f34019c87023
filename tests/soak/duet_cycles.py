"""The cycles of a soak's duet: cut the link, share, get, work, unshare; then a sample."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tests.soak.kernel import Kernel, Kernels
from tests.soak.samples import Samples


def run(
    kernels: Kernels,
    samples: Samples,
    goes_on: Callable[[int], bool],
    *,
    reshares: bool,
    only: tuple[str, ...],
) -> None:
    """Until `goes_on(cycles done)` says no. Raises NotebookError: a call failed, or a value was wrong."""
    with contextlib.ExitStack() as stack:
        owner = kernels.start("owner", "owner", only=only)
        stack.callback(owner.close)
        code = owner.run("out = side.code")
        scientist = kernels.start("scientist", "scientist", code=code, only=only)
        stack.callback(scientist.close)
        scientist.answer()
        cycle, revisions = 0, {}
        while goes_on(cycle):
            _reconnect(owner, scientist)
            version = cycle if reshares else 0
            if reshares or not cycle:
                revisions = owner.did(f"share({version})")
            samples.count(scientist.did(f"work({version}, {revisions})"))
            if reshares:
                owner.did("unshare()")
                scientist.did("miss()")
            samples.take((owner, scientist))
            samples.count({"reconnects": 1, "shares": len(revisions) if reshares or not cycle else 0})
            cycle += 1
        for side in (scientist, owner):
            side.did("close()")


def _reconnect(*sides: Kernel) -> None:
    before = [side.did("reconnects()") for side in sides]
    for side in sides:  # cut one way only, it takes up to 20 s until both have noticed
        side.did("lose_connection()")
    for side, times in zip(sides, before, strict=True):
        side.did(f"wait_reconnected({times})")
