"""The handler of rooms that run one program, or compute one private statistic, on assets."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.compute.operations.steps import body as wire
from duetlink.compute.privacy.release import FAILED, plan
from duetlink.compute.privacy.statistic import Statistic
from duetlink.compute.worker.protocol import answers, faults
from duetlink.compute.worker.protocol.answers import Answer
from duetlink.compute.worker.protocol.failures import is_memory_error
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.groups import EVERYBODY, Group, State
from duetlink.compute.worker.protocol.memory import map_sealed
from duetlink.compute.worker.room.console import KernelGone
from duetlink.compute.worker.room.draws import Draws
from duetlink.compute.worker.room.frozen import freeze, is_unchanged
from duetlink.compute.worker.room.interpreter import Assets, Interpreter, NoResult
from duetlink.compute.worker.room.progress import Emit, Progress
from duetlink.data import values
from duetlink.errors import (
    LimitExceeded,
    OperationFailed,
    RemoteProtocolError,
    UnsupportedValue,
    WorkLimit,
)


class ProgramHandler:
    """Runs one program: either at once, or up to a step whose result is frozen, and then to the end.

    Commands: `asset` and `frozen` give it memory; `begin` runs and freezes the first steps; `run` returns the
    result; `release` returns a private statistic of it. With the field `goes_on`, the room can later run a
    longer program that begins with all the steps of this one.
    """

    def __init__(self, allowed: Allowed | None = None) -> None:
        self._allowed = allowed if allowed is not None else installed()
        self._assets: dict[tuple[str, int], memoryview] = {}
        self._originals: dict[tuple[str, int], memoryview] = {}  # read-only originals, of assets used twice
        self._frozen: tuple[int, memoryview, State] | None = None
        self._begun: _Run | None = None
        self._handlers: dict[str, Callable[..., Answer]] = {
            "asset": self._take_asset,
            "frozen": self._take_frozen,
            "begin": self._begin,
            "run": self._run,
            "release": self._release,
        }

    def handle(self, command: str, content: bytes, fds: Sequence[int], emit: Emit) -> Answer:
        """Carry out one command. Raises RemoteProtocolError, OperationFailed and other DuetErrors."""
        try:
            handler = self._handlers[command]
        except KeyError:
            raise RemoteProtocolError(f"a room knows no command {command!r}") from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return handler(json.loads(content), fds, emit)

    def _take_asset(self, fields: Any, fds: Sequence[int], emit: Emit) -> Answer:
        (fd,) = fds
        body = map_sealed(fd, fields["size_bytes"], writable_copy=True)
        self._assets[fields["name"], fields["revision"]] = body
        if fields.get("again"):
            self._originals[fields["name"], fields["revision"]] = map_sealed(fd, fields["size_bytes"])
        return b"", ()

    def _take_frozen(self, fields: Any, fds: Sequence[int], emit: Emit) -> Answer:
        """Keep the frozen value that an earlier room made by the first steps of the program to come."""
        (fd,) = fds
        body = map_sealed(fd, fields["size_bytes"], writable_copy=True)
        self._frozen = fields["steps"], body, State(*fields["state"])
        return b"", ()

    def _begin(self, fields: Any, fds: Sequence[int], emit: Emit) -> Answer:
        """Run the first steps of a program, and freeze the result of the last of them."""
        run = self._start_run(fields, fds, emit)
        return run.freeze(fields["steps"], fields["max_bytes"], fields["least_s"], self._originals)

    def _run(self, fields: Any, fds: Sequence[int], emit: Emit) -> Answer:
        """Run a program, and answer with its encoded target or a fault."""
        try:
            obj, group = self._target(fields, fds, emit)
        except NoResult as failure:
            return answers.no_result(failure.fault)
        try:
            encoded = values.encode(obj, plain_nan=True)
            if encoded.size_bytes <= fields["max_bytes"]:
                return answers.result(encoded, group)
        except UnsupportedValue as error:
            words = f"a {type(obj).__name__} cannot travel; ask for its parts: {error}"
            return answers.no_result(Fault(0, faults.CANNOT_TRAVEL, words=faults.one_line(words)))
        except (KeyboardInterrupt, SystemExit, KernelGone):
            raise
        except (LimitExceeded, WorkLimit):
            pass
        except BaseException as error:  # encoding calls the object's library, which may raise anything
            if not is_memory_error(error):
                words = faults.one_line(f"a {type(obj).__name__} cannot travel: {faults.error_text(error)}")
                return answers.no_result(Fault(0, faults.CANNOT_TRAVEL, words=words))
        return answers.no_result(Fault(0, faults.NOT_MADE, words="the result is larger than it may be"))

    def _release(self, fields: Any, fds: Sequence[int], emit: Emit) -> Answer:
        """Answer with a private statistic of a program's target. The ledger is charged already."""
        statistic = Statistic.from_json(fields["statistic"].encode())
        bounds = tuple(fields["bounds"]) if fields["bounds"] is not None else None
        planned = plan(statistic, bounds, max_contributions=fields["rows_per_person"])
        try:
            column, _ = self._target(fields, fds, emit)
        except (KeyboardInterrupt, SystemExit, KernelGone):
            raise
        except BaseException:  # its type and text would reveal something about the data
            raise OperationFailed(FAILED) from None
        # the run has ended, so its seeds no longer apply: the noise comes from the system's entropy
        released = planned.release(column)
        return answers.result(values.encode(dataclasses.asdict(released), plain_nan=True), EVERYBODY)

    def _target(self, fields: Any, fds: Sequence[int], emit: Emit) -> tuple[Any, Group]:
        """Run a program to its end; return its target and group. Raises NoResult, RemoteProtocolError.

        The program is the one that was begun, or the one in `fds`, or the one in `fds` as a continuation of
        the one that was run.
        """
        if self._begun is not None and fields.get("goes_on") and fds:
            self._begun.lengthen(_body(fields, fds))
            return self._begun.end()
        return (
            self._begun if self._begun is not None and not fds else self._start_run(fields, fds, emit)
        ).end()

    def _start_run(self, fields: Any, fds: Sequence[int], emit: Emit) -> _Run:
        if self._begun is not None:
            raise RemoteProtocolError("a room runs one program, and this room has run one already")
        self._begun = _Run(self._allowed, self._assets, _body(fields, fds), fields, emit)
        if self._frozen is not None:
            self._begun.begin_with(*self._frozen)
        return self._begun


def _body(fields: Any, fds: Sequence[int]) -> wire.Body:
    (fd,) = fds
    return wire.read(map_sealed(fd, fields["size_bytes"], writable_copy=True))


class _Run:
    def __init__(self, allowed: Allowed, assets: Assets, body: wire.Body, fields: Any, emit: Emit) -> None:
        self._goes_on = bool(fields.get("goes_on"))
        self._open = contextlib.ExitStack()
        draws = self._open.enter_context(Draws(fields["salt"]))
        self._progress = self._open.enter_context(Progress(emit))
        self._interpreter = Interpreter(allowed, assets, body, draws, goes_on=self._goes_on)
        self._failure: NoResult | None = None

    def lengthen(self, body: wire.Body) -> None:
        """Continue with a longer program, which begins with all steps of the one that was run."""
        self._interpreter.lengthen(body)

    def begin_with(self, steps: int, body: memoryview, state: State) -> None:
        self._interpreter.begin_with(steps, values.decode(body, gradients=False), state)

    def freeze(self, steps: int, max_bytes: int, least_s: float, originals: Assets) -> Answer:
        """Run the first steps, and answer with the frozen result of the last of them, or with nothing.

        `originals` holds the original bytes of the assets that the remaining steps open too. If the first
        steps
        have changed one of those, nothing is frozen: a later run would open the original again.
        """
        began_s = time.monotonic()
        try:
            self._interpreter.go_on(self._progress, steps)
        except NoResult as failure:
            self._failure = failure
        made = self._interpreter.so_far()
        if made is not None and time.monotonic() - began_s >= least_s and self._are_unchanged(originals):
            obj, state = made
            if (kept := freeze(obj, max_bytes)) is not None:
                return answers.frozen(*kept, state)
        return answers.nothing_frozen()

    def _are_unchanged(self, bodies: Assets) -> bool:
        opened = self._interpreter.opened()
        return all(is_unchanged(obj, bodies[asset]) for asset, obj in opened if asset in bodies)

    def end(self) -> tuple[Any, Group]:
        with contextlib.nullcontext() if self._goes_on else self._open:
            if self._failure is not None:
                raise self._failure
            return self._interpreter.run(self._progress)


@functools.cache
def installed() -> Allowed:
    """Return the allow-lists of the installed libraries. A zygote has read them before it forks rooms."""
    return Allowed.installed()
