"""Programs and functions of the peer that have to run here before their result can leave."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from duetlink.base.quantities import size_text
from duetlink.compute.operations import function
from duetlink.compute.operations.canonical import DIGEST_VERSION, Program
from duetlink.compute.operations.function import FunctionCall
from duetlink.compute.operations.lineage import Lineage
from duetlink.compute.operations.printer.all_steps import all_steps
from duetlink.compute.operations.printer.literal import harmless
from duetlink.compute.operations.printer.source_shown import shown_source
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.worker.protocol.libraries import LIBRARIES, OF_FUNCTIONS
from duetlink.data import values
from duetlink.duet.answering.failure import Failure
from duetlink.duet.answering.private import Private
from duetlink.duet.objects.asset import AssetInfo, inherited_tags
from duetlink.duet.objects.job_log import JobLog

MAX_EXPRESSION = 60  # characters of the name that is shown
NOT_RUN = "not known: it has not been run"
_FIRST_LINES, _LAST_LINES = 60, 40  # of the code of an input, when it is too long to show
_MAX_WORDS = 200  # characters
TagsOf = Callable[[str, int], tuple[str, ...]]  # the tags of an asset, by name and revision


@dataclass(frozen=True, slots=True)
class Input:
    """The source of one argument of a function (or of a part of one): an asset, a program, or a value that
    the peer sent.
    """

    asset: AssetInfo | None = None
    program: Program | None = None  # the argument is the result of this program
    # the argument is a value that the peer sent
    body: memoryview = field(default=memoryview(b""), repr=False)
    words: str = ""  # the peer's description of that value

    @property
    def size_bytes(self) -> int:
        """The memory that the input holds while the request waits. An asset counts 0, since it is held
        anyway.
        """
        if self.asset is not None:
            return 0
        return len(self.body) if self.program is None else self.program.held_bytes

    @property
    def hint(self) -> str:
        """The name to show for it in code; empty if it has none."""
        return self.asset.name if self.asset is not None else ""

    @property
    def assets(self) -> list[tuple[str, int]]:
        """The names and revisions of the assets that it contains or is made of."""
        if self.asset is not None:
            return [(self.asset.name, self.asset.revision)]
        return [] if self.program is None else self.program.assets

    def known_by(self) -> tuple[str, str]:
        """Return the key under which an approval covers it again.

        An asset counts by its name, so that a new revision is covered too; a program by its digest, a value
        by the SHA-256 of its bytes. Reads all bytes of a value.
        """
        if self.asset is not None:
            return "asset", self.asset.name
        if self.program is not None:
            return "result", self.program.digest
        return "value", hashlib.sha256(self.body).hexdigest()

    def comment(self, name: str, known_by: tuple[str, str]) -> list[str]:
        """Describe it in lines of text for a person."""
        if self.asset is not None:
            info = self.asset
            what = f"{harmless(info.kind)} {harmless(info.detail)}, {size_text(info.size_bytes)}"
            return [f"{name}: the asset {harmless(info.name)!r}, {what}"]
        if self.program is None:
            known = values.told(self.body)
            what = f"it is said to be {harmless(self.words) or 'nothing'}"
            if known is not None:
                what = f"it is {harmless(f'{known.kind} {known.detail}'.strip())}"
            size = size_text(len(self.body))
            return [f"{name}: a value that came with it, {size}, SHA-256 {known_by[1][:12]}…; {what}"]
        lines = self.program.lineage.code.split("\n")
        hidden = len(lines) - _FIRST_LINES - _LAST_LINES
        made_by = "made by"
        if hidden > 0:
            made_by = (
                f"made by {len(lines):,} lines, {hidden:,} of which are left out here; request.steps has all"
            )
            lines[_FIRST_LINES:-_LAST_LINES] = [f"\u2026 {hidden:,} lines \u2026"]
        return [f"{name}: {made_by}", *(f"    {harmless(line)}" for line in lines)]

    def all_steps(self, name: str) -> list[str]:
        """Return each step that makes it on a line of its own; empty if no program makes it."""
        return [] if self.program is None else [f"# {name} is made by", *all_steps(self.program.slice)]


@dataclass(slots=True, eq=False, weakref_slot=True)
class Job:
    """One program or function, from its arrival to its answer. Written on the loop thread only."""

    info: AssetInfo  # the description of its result before the run
    log: JobLog = field(default_factory=JobLog, kw_only=True)
    failure: Failure | None = field(default=None, kw_only=True)  # of the last run
    made: bool = field(default=False, kw_only=True)  # it has been run, and its result exists
    running: bool = field(default=False, kw_only=True)  # it runs in a room now
    steps_done: int = field(default=0, kw_only=True)
    started_s: float = field(default=0.0, kw_only=True)  # start of the run, by time.monotonic
    memory_bytes: Callable[[], int | None] = field(default=lambda: None, kw_only=True)  # memory of its room
    task: asyncio.Task[None] | None = field(default=None, kw_only=True)
    # lines of the log that were sent to the peer; None: the log is not shared
    shared_lines: int | None = field(default=None, kw_only=True)
    is_charged: bool = field(default=False, kw_only=True)  # its claim has been charged
    # identifies its charge in the ledger
    key: str = field(default_factory=lambda: secrets.token_hex(8), kw_only=True)
    mock: str = field(default="", kw_only=True)  # its result on mocks, as the peer describes it
    # the cost that it claims, charged when it runs
    claim: Claim | None = field(default=None, kw_only=True)
    runs_on_arrival: ClassVar[bool] = False  # it runs on arrival, before anything is decided
    is_function: ClassVar[bool] = False  # a whole function, not a program of listed steps

    @property
    def name(self) -> str:
        """The name to show for it; a program has the expression that it computes."""
        return self.info.name

    @property
    def steps(self) -> int:
        """The number of steps of a program; 0 for a function."""
        return 0

    def all_steps(self) -> str:
        """Return each step of the peer's that it runs on a line of its own, with nothing left out."""
        return ""

    @property
    def progress_words(self) -> str:
        """The progress of its run, for a person: `step 3 of 10, 3.2 s, 120 MB`. Empty while it
        does not run.
        """
        if not self.running:
            return ""
        parts = [f"step {min(self.steps_done + 1, self.steps):,} of {self.steps:,}"] if self.steps else []
        taken_s = time.monotonic() - self.started_s
        parts.append(f"{taken_s:.1f} s" if taken_s < 10 else f"{taken_s:,.0f} s")
        if (taken := self.memory_bytes()) is not None:
            parts.append(size_text(taken))
        return ", ".join(parts)

    @property
    def busy(self) -> bool:
        """True while it runs or waits for its turn to run."""
        return self.task is not None and not self.task.done()

    @property
    def whole_assets(self) -> list[tuple[str, int]]:
        """The names and revisions of the assets that it gets unchanged."""
        return []

    @property
    def held_bytes(self) -> int:
        """The memory that it holds while its request waits."""
        raise NotImplementedError

    def stop(self) -> None:
        """Cancel the run and drop the inputs; its request has been answered."""
        self.cancel()

    def ended(self, task: asyncio.Task[None]) -> None:
        """Drop the task of a finished run, whose frames would keep its memory alive; `failure`
        has the error.
        """
        if not task.cancelled():
            task.exception()  # marks the error as seen; a call that waits for the task gets it as well
        if self.task is task:
            self.task = None

    def cancel(self) -> None:
        """Cancel the run, if there is one. A second cancel does nothing, since it would interrupt the closing
        of the room.
        """
        if self.task is not None and not self.task.cancelling():
            self.task.cancel()


@dataclass(slots=True, eq=False)
class ProgramJob(Job):
    """A program of listed steps. It runs as soon as it arrives, so that policies and persons can decide about
    its result.
    """

    program: Program
    statistic: bytes = b""  # the private statistic to make instead, as JSON; charged already
    private: Private | None = None  # the same, planned; one from an earlier kernel is planned when it runs
    is_check: bool = False  # the peer only asks whether the program can be run
    runs_on_arrival: ClassVar[bool] = True

    @property
    def is_paid(self) -> bool:
        """True for a private statistic: its budget was charged before the job was made."""
        return bool(self.statistic)

    @property
    def steps(self) -> int:
        return len(self.program.slice)

    def all_steps(self) -> str:
        return "\n".join(all_steps(self.program.slice))

    @property
    def held_bytes(self) -> int:
        return self.program.held_bytes


@dataclass(slots=True, eq=False)
class FunctionJob(Job):
    """A function whose source a person reads, or a policy knows, before it runs."""

    function: str  # its name
    source: str
    call: FunctionCall
    inputs: tuple[Input, ...]
    is_function: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function

    @property
    def whole_assets(self) -> list[tuple[str, int]]:
        return [
            (input_.asset.name, input_.asset.revision) for input_ in self.inputs if input_.asset is not None
        ]

    @property
    def held_bytes(self) -> int:
        return sum(input_.size_bytes for input_ in self.inputs)

    def all_steps(self) -> str:
        """Return the steps that make its inputs, each on a line of its own."""
        names = function.input_names([input_.hint for input_ in self.inputs], self.function)
        parts = zip(self.inputs, names, strict=True)
        return "\n".join(line for input_, name in parts for line in input_.all_steps(name))

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that its room should import before it is locked down. The function may import others
        later, if the sandbox lets it.
        """
        kinds = [input_.asset.kind for input_ in self.inputs if input_.asset is not None]
        words = " ".join((*kinds, *(input_.words for input_ in self.inputs)))
        any_listed = any(input_.program is not None for input_ in self.inputs)
        return tuple(
            library
            for library in LIBRARIES
            if library in words or library in self.source or (any_listed and library not in OF_FUNCTIONS)
        )

    def stop(self) -> None:
        self.cancel()
        self.inputs = ()


def describe(
    name: str,
    source: str,
    call: FunctionCall,
    inputs: tuple[Input, ...],
    tags_of: TagsOf,
    claim: Claim | None = None,
) -> AssetInfo:
    """Return the description of a function's result before it has been run: how it is shown, and its lineage.

    Type and size are unknown until then. Reads all values.
    """
    known_by = [input_.known_by() for input_ in inputs]
    names = function.input_names([input_.hint for input_ in inputs], name)
    assets: dict[tuple[str, int], None] = {}
    operations: set[str] = set()
    comments: list[str] = []
    for input_, known, called in zip(inputs, known_by, names, strict=True):
        comments += input_.comment(called, known)
        assets |= dict.fromkeys(input_.assets)
        if input_.program is not None:
            operations |= set(input_.program.lineage.operations)
    if claim is not None:
        private = f"it trains privately: {claim}, charged to the budget of {_names(assets)} when it is run"
        comments.append(private)
    shown = function.show_call(name, call, names)
    code = "\n".join(
        [
            *(f"# {line}" for line in comments),
            "",
            shown_source(source).rstrip("\n"),
            *("", "", f"result = {shown}"),
        ]
    )
    did = (f"function {name}", *sorted(operations))
    expression = shown if len(shown) <= MAX_EXPRESSION else f"{shown[: MAX_EXPRESSION - 1]}…"
    digest = digest_of(name, source, call, known_by, claim)
    lineage = Lineage(tuple(assets), did, 1, code.lstrip("\n"), digest, expression)
    return unmade(lineage, tags_of, group=1 if assets else None)


def digest_of(
    name: str, source: str, call: FunctionCall, known_by: Sequence[tuple[str, str]], claim: Claim | None
) -> str:
    """Return the digest under which an approval covers the same function with the same inputs again;
    `known_by` has one key for each input.
    """
    digest = function.digest_of(name, source, call, known_by)
    if claim is None:
        return digest
    # approving the same function at another cost does not approve this one
    claimed = f"{digest} {claim.epsilon!r} {claim.delta!r}".encode()
    return DIGEST_VERSION + hashlib.sha256(claimed).hexdigest()


def unmade(lineage: Lineage, tags_of: TagsOf, group: int | None = None) -> AssetInfo:
    """Return the description of a result that has not been made: all but its type and size."""
    tags, common_tags = inherited_tags([tags_of(name, revision) for name, revision in lineage.assets])
    return AssetInfo(
        lineage.expression,
        0,
        "",
        NOT_RUN,
        0,
        tags=tags,
        lineage=lineage,
        group=group,
        common_tags=common_tags,
    )


def _names(assets: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{harmless(name)!r}" for name, _ in assets)


def mock_words(kind: str, detail: str, text: str) -> str:
    """Return what the peer reports of the result on mocks, cut to a length that can be shown."""
    what = " ".join(part for part in (kind[:_MAX_WORDS], detail[:_MAX_WORDS]) if part)
    return f"{what}: {text[:4000]}" if text else what
