"""What is to be run here for the peer: what it is, what it gets, and how it gets on."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from duetlink.base.quantities import size_text
from duetlink.compute.operations import function
from duetlink.compute.operations.function import Call
from duetlink.compute.operations.lineage import Lineage
from duetlink.compute.operations.literal import harmless
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.worker.libraries import LIBRARIES
from duetlink.compute.worker.memory import place
from duetlink.duet.answering.failure import Failure
from duetlink.duet.objects.asset import AssetInfo, inherited_tags
from duetlink.duet.objects.catalogue import Mine
from duetlink.duet.objects.job_log import JobLog

MAX_EXPRESSION = 60  # characters, to call it by
NOT_RUN = "not known: it has not been run"
_MOST_CODE_LINES = 100  # of how an input was made
_MAX_WORDS = 200  # characters


@dataclass(frozen=True, slots=True)
class Input:
    """What the function gets for one of its arguments, or for a part of one."""

    mine: Mine | None = None  # an asset, or a result of the peer's steps as it was when this came
    body: memoryview = field(default=memoryview(b""), repr=False)  # else a value of the peer's
    words: str = ""  # what that is, as the peer says

    @property
    def size_bytes(self) -> int:
        """The memory that is held for it; an asset is held anyway."""
        if self.mine is None:
            return len(self.body)
        return 0 if self.mine.info.lineage is None else self.mine.info.size_bytes

    @property
    def hint(self) -> str:
        """What it may be called in code."""
        return self.mine.info.name if self.mine is not None and self.mine.info.lineage is None else ""

    @property
    def kind(self) -> str:
        return self.mine.info.kind if self.mine is not None else self.words

    def known_by(self) -> tuple[str, str]:
        """What makes it the same for who has approved it. Of an asset its name: a new revision of it is the
        same. Reads all of a value.
        """
        if self.mine is None:
            return "value", hashlib.sha256(self.body).hexdigest()
        made = self.mine.info.lineage
        return ("asset", self.mine.info.name) if made is None else ("result", made.digest)

    def comment(self, name: str, known_by: tuple[str, str]) -> list[str]:
        """What it is, as lines of text for a person."""
        if self.mine is None:
            return [
                f"{name}: a value that came with it, {size_text(len(self.body))}, "
                f"SHA-256 {known_by[1][:12]}…; it is said to be {harmless(self.words) or 'nothing'}"
            ]
        info = self.mine.info
        what = f"{harmless(info.kind)} {harmless(info.detail)}, {size_text(info.size_bytes)}"
        if info.lineage is None:
            return [f"{name}: the asset {harmless(info.name)!r}, {what}"]
        lines = info.lineage.code.split("\n")
        more = ["    …"] if len(lines) > _MOST_CODE_LINES else []
        return [
            f"{name}: {what}, made by",
            *(f"    {harmless(line)}" for line in lines[:_MOST_CODE_LINES]),
            *more,
        ]

    async def place(self) -> tuple[int, int]:
        """A descriptor of memory that holds it, the caller's to close, and its size. Raises WorkLimit."""
        if self.mine is None:
            return await asyncio.to_thread(place, [self.body], len(self.body)), len(self.body)
        outgoing = await self.mine.content.outgoing()
        return await asyncio.to_thread(
            place, list(outgoing.pieces()), outgoing.size_bytes
        ), outgoing.size_bytes


@dataclass(slots=True, eq=False, weakref_slot=True)
class Job:
    """One function, from its arrival to its answer. Written on the loop thread only."""

    name: str
    source: str
    call: Call
    inputs: tuple[Input, ...]
    mock: str  # what it has made of mocks, in the peer's words
    info: AssetInfo  # until it has been run
    claim: Claim | None = None  # of what it costs
    is_charged: bool = False  # that is paid
    log: JobLog = field(default_factory=JobLog)
    failure: Failure | None = None  # of the last time that it was run
    made: bool = False  # it has been run, and what came of it is there
    running: bool = False  # the worker is at it
    steps: int = 0  # of a program; 0: a function has none
    steps_done: int = 0
    started_s: float = 0.0  # when it began to run, by time.monotonic
    memory_bytes: Callable[[], int | None] = lambda: None  # what its worker takes up now
    task: asyncio.Task[None] | None = None
    shared_lines: int | None = None  # of the log, that the peer has; None: it has none and gets none

    @property
    def is_function(self) -> bool:
        """Whether a whole function is run, and not a program of listed steps."""
        return bool(self.source)

    @property
    def busy(self) -> bool:
        """Whether it is run, or waits to be."""
        return self.task is not None and not self.task.done()

    @property
    def mine(self) -> list[Mine]:
        """Those of its inputs that are this side's."""
        return [input_.mine for input_ in self.inputs if input_.mine is not None]

    @property
    def held_bytes(self) -> int:
        return sum(input_.size_bytes for input_ in self.inputs)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those that its worker should have before it is locked down; others it may find later, or not."""
        kinds = [input_.kind.partition(".")[0] for input_ in self.inputs]
        return tuple(library for library in LIBRARIES if library in kinds or library in self.source)

    @property
    def course(self) -> str:
        """How far its run is, for a person: `step 3 of 10, 3.2 s, 120 MB`. Empty where it does not run."""
        if not self.running:
            return ""
        parts = [f"step {min(self.steps_done + 1, self.steps):,} of {self.steps:,}"] if self.steps else []
        taken_s = time.monotonic() - self.started_s
        parts.append(f"{taken_s:.1f} s" if taken_s < 10 else f"{taken_s:,.0f} s")
        if (taken := self.memory_bytes()) is not None:
            parts.append(size_text(taken))
        return ", ".join(parts)

    def stop(self) -> None:
        """It has been answered: end it where it runs, and let its inputs go."""
        self.cancel()
        self.inputs = ()

    def cancel(self) -> None:
        """End it where it runs. Once: another time would interrupt what ends its worker."""
        if self.task is not None and not self.task.cancelling():
            self.task.cancel()


def describe(
    name: str, source: str, call: Call, inputs: tuple[Input, ...], claim: Claim | None = None
) -> AssetInfo:
    """What is known of its result before it is run: all but type and size. Reads all values."""
    known_by = [input_.known_by() for input_ in inputs]
    names = function.input_names([input_.hint for input_ in inputs], name)
    assets: dict[tuple[str, int], None] = {}
    operations: set[str] = set()
    tags: list[tuple[str, ...]] = []
    further_tags: list[str] = []
    comments: list[str] = []
    for input_, known, called in zip(inputs, known_by, names, strict=True):
        comments += input_.comment(called, known)
        if input_.mine is not None:
            info = input_.mine.info
            made = info.lineage
            assets |= dict.fromkeys(((info.name, info.revision),) if made is None else made.assets)
            operations |= set(made.operations if made is not None else ())
            if made is None or made.assets:  # what the peer has made of nothing of ours has no tags to share
                tags.append(info.tags if info.common_tags is None else info.common_tags)
                further_tags += info.tags
    if claim is not None:
        private = f"it trains privately: {claim}, charged to the budget of {_names(assets)} when it is run"
        comments.append(private)
    shown = function.show_call(name, call, names)
    code = "\n".join(
        [
            *(f"# {line}" for line in comments),
            "",
            function.shown_source(source).rstrip("\n"),
            *("", "", f"result = {shown}"),
        ]
    )
    did = (f"function {name}", *sorted(operations))
    expression = shown if len(shown) <= MAX_EXPRESSION else f"{shown[: MAX_EXPRESSION - 1]}…"
    digest = function.digest_of(name, source, call, known_by)
    if claim is not None:  # whoever has allowed the same at another cost has not allowed this
        claimed = f"{digest} {claim.epsilon!r} {claim.delta!r}".encode()
        digest = f"v2:{hashlib.sha256(claimed).hexdigest()}"
    lineage = Lineage(tuple(assets), did, 1, code.lstrip("\n"), digest, expression)
    any_has, common_tags = inherited_tags(tags)
    return AssetInfo(
        expression,
        0,
        "",
        NOT_RUN,
        0,
        tags=tuple(dict.fromkeys((*any_has, *further_tags))),
        lineage=lineage,
        group=1 if assets else None,
        common_tags=common_tags,
    )


def _names(assets: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{harmless(name)!r}" for name, _ in assets)


def mock_words(kind: str, detail: str, text: str) -> str:
    """What the peer says that came of mocks, at a length that can be shown."""
    what = " ".join(part for part in (kind[:_MAX_WORDS], detail[:_MAX_WORDS]) if part)
    return f"{what}: {text[:4000]}" if text else what
