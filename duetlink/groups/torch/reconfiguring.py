"""What `reconfigure` of a group takes: who goes on, and in which order.

torch 2.14 has `ReconfigureOptions` with the same fields, and `torch.distributed._reconfigure` that passes
them on; to 2.13 there is neither, and the group's own method takes `Reconfigure`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta

from duetlink.errors import GroupError


@dataclass(frozen=True, slots=True)
class Reconfigure:
    uuid: int  # used once, by all who take part in this reconfiguration
    handles: list[str] | AbstractSet[str]  # a list fixes the ranks, a set leaves them open
    timeout: timedelta | None = None  # that of the group by default
    hints: dict[str, str] = field(default_factory=dict)  # none is known


def handle(generation: int, rank: int) -> str:
    """The name of a rank of a job."""
    return f"duetlink:{generation}:{rank}"


def ordered(handles: list[str] | AbstractSet[str], generation: int, size: int) -> list[int]:
    """Ranks of the job, by their new ranks. Those of a set keep the order that they had.

    Raises:
        GroupError: none, one twice, or one that is no rank of this job.
    """
    known = {handle(generation, rank): rank for rank in range(size)}
    if not handles:
        raise GroupError("a reconfiguration takes the handle of at least one rank")
    if strangers := [each for each in handles if each not in known]:
        raise GroupError(
            f"{str(strangers[0])[:100]!r} is the handle of none of the {size} ranks of this job; who is new "
            "begins a new job with all"
        )
    found = [known[each] for each in handles]
    if len(set(found)) != len(found):
        raise GroupError("a reconfiguration takes the handle of each rank once")
    return found if isinstance(handles, list | tuple) else sorted(found)
