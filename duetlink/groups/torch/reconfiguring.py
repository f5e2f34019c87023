"""The arguments of a group's `reconfigure`: the ranks that go on, and their order.

torch 2.14 has `ReconfigureOptions` with the same fields, and `torch.distributed._reconfigure`, which passes
them on. torch up to 2.13 has neither; there the group's own method takes `Reconfigure`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta

from duetlink.errors import GroupError


@dataclass(frozen=True, slots=True)
class Reconfigure:
    uuid: int  # a new number for each reconfiguration, the same at all ranks that take part
    handles: list[str] | AbstractSet[str]  # a list gives the ranks by its order; a set keeps the job's order
    timeout: timedelta | None = None  # by default that of the group
    hints: dict[str, str] = field(default_factory=dict)  # ignored


def handle(generation: int, rank: int) -> str:
    return f"duetlink:{generation}:{rank}"


def ordered(handles: list[str] | AbstractSet[str], generation: int, size: int) -> list[int]:
    """Return the ranks of the job in the order of their new ranks; those of a set in ascending order.

    Raises:
        GroupError: there are no handles, one is given twice, or one is not of this job.
    """
    known = {handle(generation, rank): rank for rank in range(size)}
    if not handles:
        raise GroupError("a reconfiguration takes the handle of at least one rank")
    if strangers := [each for each in handles if each not in known]:
        raise GroupError(
            f"{str(strangers[0])[:100]!r} is the handle of none of the {size} ranks of this job; to add a "
            "process, begin a new job with all ranks"
        )
    found = [known[each] for each in handles]
    if len(set(found)) != len(found):
        raise GroupError("a reconfiguration takes the handle of each rank once")
    return found if isinstance(handles, list | tuple) else sorted(found)
