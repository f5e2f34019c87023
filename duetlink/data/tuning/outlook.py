"""What each choice would bring to one transfer, on its path as the path is now."""

from __future__ import annotations

from duetlink.data.codecs.element import Element
from duetlink.data.codecs.registry import named
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import FEWEST_BYTES
from duetlink.data.tuning.goodput import Goodput
from duetlink.data.tuning.knowledge import Knowledge
from duetlink.data.tuning.model import Figures, Line, processors_rate
from duetlink.data.tuning.priors import FAST_BYTES_PER_S, OTHER_WIRE_CPU_S, WIRE_CPU_S, prior
from duetlink.data.tuning.ranking import POSSIBLE_GOODPUT
from duetlink.data.tuning.speeds import Place
from duetlink.data.tuning.subject import Subject

LARGE_CHUNK_BYTES = 1 << 20


class Outlook:
    """The settings in force, what was measured of the path, and what follows from them for a choice.

    Its course keeps it up to date, under the course's lock.
    """

    def __init__(self, knowledge: Knowledge, path: str, size_bytes: int, round_trip_s: float) -> None:
        self.knowledge = knowledge
        self.path = path
        self.size_bytes = max(1, size_bytes)
        self._round_trip_s = round_trip_s
        self.settings = knowledge.compression
        self.goodput = Goodput(knowledge.goodput(path))
        self.others_load: float | None = None  # share of the processors that other programs use
        self.raw = Choice(named("raw"), 0)
        self.failed: dict[str, str] = {}  # by codec, for the rest of the transfer: how, in words

    @property
    def speed(self) -> float | None:
        """What the path takes, the cap considered."""
        estimate, cap = self.goodput.estimate, self.settings.rate_cap_bytes_per_s
        if self.goodput.floor is not None:  # nothing here says how fast it is; others may know
            estimate = max(estimate or 0.0, self.knowledge.goodput(self.path) or 0.0)
        return cap if estimate is None else estimate if cap is None else min(estimate, cap)

    @property
    def fast(self) -> bool:
        """Whether processors rather than the path limit the transfer."""
        speed = self.speed
        return speed is not None and Line(speed, 1, 1).processor_bound

    def lines(self) -> list[Line]:
        """The path as the model sees it: one line, or one for each speed that it may have."""
        speed, floor = self.speed, self.goodput.floor or 0.0
        possible = [goodput for goodput in POSSIBLE_GOODPUT if goodput >= floor] or [floor]
        wire_cpu_s = WIRE_CPU_S.get(self.path, OTHER_WIRE_CPU_S)
        knowledge = self.knowledge
        return [
            Line(
                goodput,
                self._workers(goodput),
                knowledge.cpus,
                wire_cpu_s,
                self._round_trip_s,
                knowledge.together,
            )
            for goodput in ([speed] if speed is not None else possible)
        ]

    def _workers(self, goodput: float) -> float:
        """Threads that may encode; fewer where other programs use the processors."""
        workers = self.knowledge.workers
        # a load that the peer makes is our own, and the model accounts for it; so it is on a fast link
        if self.others_load is None or self.knowledge.together or Line(goodput, 1, 1).processor_bound:
            return workers
        return min(workers, max(0.5, self.knowledge.cpus * (1 - self.others_load)))

    def candidates(self, element: Element) -> list[Choice]:
        """All choices for such items that are ready, but raw and what has failed."""
        choices = self.knowledge.candidates(element)
        return [choice for choice in choices if choice.codec.ready and choice.codec.name not in self.failed]

    def unready(self, element: Element) -> list[Choice]:
        """The choices for such items whose library is not loaded yet."""
        return [choice for choice in self.knowledge.candidates(element) if not choice.codec.ready]

    def figures(self, subject: Subject, choice: Choice, ratio: float | None) -> Figures:
        """`ratio` None: what is usual for such data."""
        speeds = self.knowledge.speeds
        usual = prior(choice.key, subject.kind).ratio
        return Figures(
            speeds.encode(place(subject, choice)),
            speeds.decode(choice.key, subject.kind),
            max(1e-6, usual if ratio is None else ratio),
        )

    def processors_rate(self, subject: Subject, choice: Choice) -> float:
        """Bytes of arrays per second that the processors of both ends allow."""
        figures = self.figures(subject, choice, subject.ratio(choice.key))
        return min(processors_rate(figures, line) for line in self.lines())

    def ratio(self, choice: Choice, raw_bytes: int, encoded_bytes: int) -> float:
        """The encoded share of a chunk as large as they can be here, by what was seen of a smaller one."""
        full_bytes = max(raw_bytes, min(self.size_bytes, LARGE_CHUNK_BYTES))
        overhead_bytes = min(choice.codec.overhead_bytes, encoded_bytes)
        return (encoded_bytes - overhead_bytes) / raw_bytes + overhead_bytes / full_bytes

    def allowed(self, figures: Figures, leniency: float = 1.0) -> bool:
        """Objective "bytes": fast, or hidden by the link. All others judge speed themselves."""
        if self.settings.objective != FEWEST_BYTES or figures.encode >= leniency * FAST_BYTES_PER_S:
            return True
        speed = self.speed
        return speed is not None and figures.encode * self.knowledge.workers >= speed / figures.ratio


def place(subject: Subject, choice: Choice) -> Place:
    """Where the speed of a choice for such data is kept."""
    return choice.key, subject.element.name, subject.kind
