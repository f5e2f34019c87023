"""Groups of one host as those of several: what they sum goes over their links, where it is counted."""

from __future__ import annotations

from duetlink.groups.collectives.same_host import host_memory


def send_all_bytes() -> None:
    """From now on no group of this process sums through shared memory."""
    host_memory.supported = lambda: False
