"""The tuner of one sending direction of a link.

    course = tuner.begin("scans", "tcp", size_bytes, now_s)
    choice = course.choose(chunk, element, now_s)        # before each chunk is encoded
    ...
    course.sent(raw_bytes, wire_bytes, held_s, now_s)    # after the transport has taken it

It samples the data (`sample.py`), tries codecs on the sample, and takes the least of a cost model
(`model.py`). It decides again when the link's goodput (`goodput.py`) or the data have changed (`course.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from duetlink.data.tuning.compression import Compression
from duetlink.data.tuning.course import Course
from duetlink.data.tuning.decision import Decision
from duetlink.data.tuning.knowledge import Knowledge


class Tuner:
    """Any thread may call."""

    def __init__(
        self,
        compression: Compression,
        available: frozenset[str],
        cpus: int,
        record: Callable[[Decision], None],
        clock: Callable[[], float] = time.perf_counter,
        *,
        workers: int | None = None,
        together: bool = False,
        wanted: Callable[[str], None] = lambda codec: None,
    ) -> None:
        """`available` are the codecs that both sides have, by name. `record` is called with each decision,
        and once more when its outcome is known, on the thread that brought it about; it calls nothing here.
        `clock` times the encoding of samples, and nothing else. `workers` threads encode, and as many decode:
        one per processor if not given. `together`: those of the peer are the same processors. `wanted` is
        called with the name of a codec that is being loaded here, and that the peer is to `load`.
        """
        self._knowledge = Knowledge(
            compression, available, cpus, record, clock, workers or cpus, together, wanted
        )

    @property
    def compression(self) -> Compression:
        """The configuration in force."""
        return self._knowledge.compression

    def set_compression(self, compression: Compression) -> None:
        """Use another configuration, from the next chunk of running transfers on."""
        self._knowledge.compression = compression

    def path_speed(self, path: str, bytes_per_s: float) -> None:
        """A path was measured by other means."""
        if bytes_per_s > 0:
            self._knowledge.goodput[path] = bytes_per_s

    def load(self, name: str) -> None:
        """The peer's tuner wants a codec: make it ready, if both sides have it, before chunks wait for it."""
        self._knowledge.load_for_peer(name)

    def link_changed(self) -> None:
        """Forget how fast paths are: they lead elsewhere now."""
        self._knowledge.goodput.clear()
        self._knowledge.shunned.clear()

    def begin(self, name: str, path: str, size_bytes: int, now_s: float, round_trip_s: float = 0.0) -> Course:
        """A transfer of `size_bytes` over one path begins."""
        return Course(self._knowledge, name, path, size_bytes, now_s, round_trip_s)
