"""One collective operation as the engine runs it: what was called, on which arrays, by which schedule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from duetlink.groups.collectives.execution.elements import Array, Combine
from duetlink.groups.collectives.execution.encoding import Encoding
from duetlink.groups.collectives.execution.layout import Layout
from duetlink.groups.collectives.execution.operation import Operation
from duetlink.groups.collectives.execution.spare_memory import Backup
from duetlink.groups.collectives.schedules.schedule import Schedule

RunShared = Callable[["Work", Backup | None], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Work:
    """Everything that one operation needs. Sends read `given`, receives write `taken`; often one array."""

    operation: Operation
    schedule: Schedule
    given: Array
    taken: Array
    given_layout: Layout
    taken_layout: Layout
    combine: Combine | None = None
    # runs it in place of the schedule, through shared memory; keeps items in the backup before it writes them
    run_shared: RunShared | None = None
    restore: bool = False  # restore the old content of `taken` if the operation fails
    encoding: Encoding | None = None  # of the pieces that are sent
