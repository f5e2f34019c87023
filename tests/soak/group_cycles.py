"""The cycles of a soak's group: a newcomer joins, all work, it leaves or is killed, the others work.

Then a sample is taken.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence

from tests.soak.kernel import Kernel, Kernels
from tests.soak.samples import Samples

STAYING = ("ann", "ben", "cleo")
NEWCOMERS = 13  # of one group: its code is for 15 who join
EVERY = 8  # cycles of a long group for one newcomer


def run(kernels: Kernels, samples: Samples, goes_on: Callable[[int], bool]) -> None:
    """Until `goes_on(cycles done)` says no. Raises NotebookError: a call failed, or a result was wrong.

    One group follows the other: the first has a newcomer in each cycle, the later ones live longer.
    """
    done, suffix, every = 0, "", 1
    for number in itertools.count(2):
        with contextlib.ExitStack() as stack:
            members = _founded(kernels, suffix, stack)
            for cycle in range(NEWCOMERS * every):
                if not goes_on(done):
                    break
                if cycle % every == 0:
                    _churn(kernels, members, samples, is_killed=cycle // every % 2 == 1)
                operations = sum(together(members, f"work({list(STAYING)})"))
                samples.take(members)
                samples.count({"operations of members": operations})
                done += 1
            together(members, "close()")
        if not goes_on(done):
            return
        suffix, every = f" of group {number}", EVERY


def _founded(kernels: Kernels, suffix: str, stack: contextlib.ExitStack) -> list[Kernel]:
    members: list[Kernel] = []
    for name in STAYING:
        code = members[0].run("out = side.code") if members else None
        members.append(kernels.start(name + suffix, "member", name=name, code=code))
        stack.callback(members[-1].close)
    for member in members:
        member.answer()
    together(members, f"admit({len(members)})")
    return members


def _churn(kernels: Kernels, members: list[Kernel], samples: Samples, *, is_killed: bool) -> None:
    """Somebody joins, works with the others, and leaves or is killed."""
    code = members[0].run("out = side.code")
    newcomer = kernels.start("newcomer", "member", name="newcomer", code=code)
    try:
        newcomer.answer()
        everyone = [*members, newcomer]
        together(everyone, f"admit({len(everyone)})")
        operations = sum(together(everyone, f"work({[*STAYING, 'newcomer']})"))
        if is_killed:
            begin(members, f"survive({len(members)})")  # they wait for it when it dies
            newcomer.kill()
        else:
            newcomer.did("close()")
            begin(members, f"survive({len(members)})")
        ended(members)
    finally:
        newcomer.close()
    samples.count({"operations of members": operations, "killed" if is_killed else "left": 1, "joined": 1})


def begin(members: Sequence[Kernel], work: str) -> None:
    for member in members:
        member.do(work)


def ended(members: Sequence[Kernel]) -> list[int]:
    return [member.answer() for member in members]


def together(members: Sequence[Kernel], work: str) -> list[int]:
    """All at once, as members of a group have to; returns what each answered."""
    begin(members, work)
    return ended(members)
