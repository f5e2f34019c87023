"""What the worker does with steps: a table of objects, and one step after the other.

All that it says of the steps is which of them failed, in the closed vocabulary of `faults.py`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import program as wire
from duetlink.compute.operations.allowed import (
    AGGREGATE,
    BACKWARD,
    ELEMENTWISE,
    IN_PLACE,
    LOCAL,
    Allowed,
)
from duetlink.compute.operations.effects import is_listed, worst_effect
from duetlink.compute.operations.guards import check
from duetlink.compute.operations.items import check_items
from duetlink.compute.operations.program import Step
from duetlink.compute.privacy.release import FAILED, plan
from duetlink.compute.privacy.statistic import Statistic
from duetlink.compute.worker import answers, groups, separation, spoiled
from duetlink.compute.worker.console import KernelGone
from duetlink.compute.worker.faults import MESSAGE, TYPE, Fault, error_of
from duetlink.compute.worker.groups import EVERYBODY
from duetlink.compute.worker.memory import map_sealed
from duetlink.compute.worker.quick import operators
from duetlink.data import values
from duetlink.errors import (
    AssetNotFound,
    DuetError,
    LimitExceeded,
    OperationFailed,
    OperationRefused,
    PrepError,
    RemoteProtocolError,
    UnsupportedValue,
    WorkLimit,
)

MOST_OBJECTS = 1_000_000
_MAX_MESSAGE = 500  # characters of a library's error, where the owner lets messages out


_RETIRED = Fault(0, 0, pb.WorkFailure.NOT_SHARED)  # in place of an asset that is no longer shared


class _Unmade(Exception):
    """An argument of a step is what an earlier one failed to make."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class ProgramDesk:
    """The objects of one program, from its first step to the end of the worker."""

    def __init__(self, allowed: Allowed | None = None, detail: str = TYPE) -> None:
        self._allowed = allowed if allowed is not None else Allowed.installed()
        self._detail = detail
        self._assets: dict[tuple[str, int], memoryview] = {}
        self._untouched: dict[tuple[str, int], memoryview] = {}  # the same, which no step can write to
        self._objects: dict[int, Any] = {}
        # of results, see groups.py; what is not there may be one row's
        self._groups: dict[int, groups.Group] = {}
        self._operate = operators(self._allowed, self._objects, self._groups)
        # what was written in place can be seen from anywhere; what a model, say, keeps, from all that holds
        # it
        self._most: groups.Group = EVERYBODY
        self._kept: groups.Group = EVERYBODY
        self._draws = 0
        self._shared: dict[int, tuple[str, int]] = {}  # assets, which nothing may change, by their ids
        # From a way to an object, such as `frame.loc`, which writes to the frame, to that object; also from a
        # step that failed to make such a way.
        self._parts: dict[int, int] = {}
        self._handlers: dict[str, Callable[[bytes, Sequence[int]], tuple[bytes, Sequence[int]]]] = {
            "asset": self._take_asset,
            "retire": self._retire,
            "run": self._run,
            "take": self._give,
            "release": self._release,
            "detail": self._set_detail,
        }

    def handle(
        self, command: str, content: bytes, fds: Sequence[int], emit: Callable[[str, bytes], None]
    ) -> tuple[bytes, Sequence[int]]:
        """Do one command of the owner's kernel. Raises RemoteProtocolError, OperationFailed, …"""
        try:
            handler = self._handlers[command]
        except KeyError:
            raise RemoteProtocolError(f"the worker knows no command {command!r}") from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return handler(content, fds)

    # -- commands --------------------------------------------------------------------------------------------

    def _set_detail(self, content: bytes, fds: Sequence[int]) -> tuple[bytes, Sequence[int]]:
        self._detail = content.decode()
        return b"", ()

    def _take_asset(self, content: bytes, fds: Sequence[int]) -> tuple[bytes, Sequence[int]]:
        """The memory of an asset, for steps to come."""
        asset = json.loads(content)
        (fd,) = fds
        body = map_sealed(fd, asset["size_bytes"], writable_copy=True)
        self._assets[asset["name"], asset["revision"]] = body
        untouched = map_sealed(fd, asset["size_bytes"], writable_copy=False)
        self._untouched[asset["name"], asset["revision"]] = untouched
        return b"", ()

    def _retire(self, content: bytes, fds: Sequence[int]) -> tuple[bytes, Sequence[int]]:
        """Let go of revisions that are no longer shared; what was made from them stays."""
        for name, revision in json.loads(content):
            which = name, revision
            self._assets.pop(which, None)
            self._untouched.pop(which, None)
            for id_ in [id_ for id_, asset in self._shared.items() if asset == which]:
                del self._shared[id_]
                self._groups.pop(id_, None)
                self._objects[id_] = _RETIRED
        return b"", ()

    def _run(self, content: bytes, fds: Sequence[int]) -> tuple[bytes, Sequence[int]]:
        """Do a batch; the answer says what has failed."""
        work = pb.Work.FromString(content)
        bodies: list[memoryview] = []
        large = iter(fds)
        for value in work.values:
            if value.HasField("offer"):
                bodies.append(map_sealed(next(large), value.offer.size_bytes, writable_copy=True))
            else:
                bodies.append(memoryview(bytearray(value.body)))  # to be written to, as the mock can be
        faults: list[tuple[int, Fault]] = []  # with the number of the result that is not made
        failed: list[int] = []  # by their place in the batch
        steps = wire.parse(wire.inflate(work.steps))
        if len(self._objects) + len(steps) > MOST_OBJECTS:
            raise LimitExceeded(f"{MOST_OBJECTS:,} results are held; let go of some pointers")
        operate = self._operate
        for position, raw in enumerate(steps):
            if operate(raw):
                continue
            step = wire.step_of(raw)
            fault = self._do(step, bodies, work.number, position)
            if fault is not None:
                failed.append(position)
                faults.append((step.id, fault))
        return answers.batch(faults, failed)

    def _give(self, content: bytes, fds: Sequence[int]) -> tuple[bytes, Sequence[int]]:
        """A result as bytes in memory, with what a person wants to know of it."""
        asked = json.loads(content)
        id_ = asked["id"]
        try:
            obj = self._result(id_)
            encoded = values.encode(obj, plain_nan=True)
        except _Unmade as unmade:
            return answers.not_given(unmade.fault)
        except RemoteProtocolError:
            return answers.not_given(Fault(0, 0, pb.WorkFailure.MALFORMED))
        except UnsupportedValue as error:
            words = f"a {type(obj).__name__} cannot travel; ask for its parts: {error}"
            return answers.not_given(self._fault(0, 0, pb.WorkFailure.CANNOT_TRAVEL, words=words))
        too_large = answers.not_given(Fault(0, 0, pb.WorkFailure.TOO_LARGE))
        if encoded.size_bytes > asked["max_bytes"]:
            return too_large
        group = min(self._groups.get(id_, 1), self._most)
        try:
            return answers.result(encoded, group)
        except WorkLimit:
            return too_large

    def _release(self, content: bytes, fds: Sequence[int]) -> tuple[bytes, Sequence[int]]:
        """A private statistic of a result. It is paid for already."""
        asked = json.loads(content)
        statistic = Statistic.from_json(asked["statistic"].encode())
        bounds = tuple(asked["bounds"]) if asked["bounds"] is not None else None
        planned = plan(statistic, bounds, max_contributions=asked["rows_per_person"])
        # of the asset as it was shared, by these steps alone, whatever else the program has done
        fresh = ProgramDesk(self._allowed)
        fresh._assets = self._untouched
        try:
            for raw in asked["steps"]:
                fresh._step(wire.step_of(raw), ())
            column = fresh._result(asked["id"])
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # which would tell of the data; a panic of a library in Rust is no Exception
            raise OperationFailed(FAILED) from None
        released = planned.release(column)
        return answers.result(values.encode(dataclasses.asdict(released), plain_nan=True), EVERYBODY)

    # -- one step --------------------------------------------------------------------------------------------

    def _do(self, step: Step, bodies: Sequence[memoryview], batch: int, position: int) -> Fault | None:
        """Do a step; None: it is done."""
        try:
            self._step(step, bodies)
        except _Unmade as unmade:
            return self._fail(step, unmade.fault)
        except PrepError as error:  # as a library's ValueError, of the data
            fault = self._fault(
                batch, position, pb.WorkFailure.RAISED, error_of(error), words=f"{_shown(step)}: {error}"
            )
            return self._fail(step, fault)
        except DuetError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), pb.WorkFailure.REFUSED)
            words = f"{_shown(step)}: {error}"
            return self._fail(step, self._fault(batch, position, code, words=words))
        except (KeyboardInterrupt, SystemExit, KernelGone):
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            fault = self._fault(batch, position, pb.WorkFailure.RAISED, error_of(error))
            if self._detail == MESSAGE:
                why = f"{type(error).__name__}: {str(error)[:_MAX_MESSAGE]}"
                fault = dataclasses.replace(fault, words=f"{_shown(step)} failed on the real data: {why}")
            return self._fail(step, fault)
        return None

    def _fault(
        self, batch: int, position: int, code: int, error: int = pb.WorkFailure.EXCEPTION, words: str = ""
    ) -> Fault:
        return Fault(batch, position, code, error, words if self._detail == MESSAGE else "")

    def _step(self, step: Step, bodies: Sequence[memoryview]) -> None:
        id_, operation = step.id, step.operation
        if id_ in self._objects:
            raise RemoteProtocolError(f"result {id_} is there already")
        if operation == wire.DROP:
            for dropped in step.arguments:
                if type(dropped) is int and dropped not in self._shared:
                    self._objects.pop(dropped, None)
                    self._groups.pop(dropped, None)
                    self._parts.pop(dropped, None)
            return
        if operation in (wire.VALUE, wire.ASSET) and not id_:
            raise RemoteProtocolError(f"a step {operation} has no number for its result")
        if operation == wire.VALUE:
            (index,) = step.arguments
            self._objects[id_] = values.decode(bodies[index], gradients=False)
            self._groups[id_] = EVERYBODY
            return
        if operation == wire.ASSET:
            self._open(step)
            return
        if operation == wire.GRAD:
            import torch

            torch.set_grad_enabled(step.arguments[0] is True)
            return
        used: list[int] = []
        arguments = [
            argument if type(argument) is not list else self._argument(argument, used)
            for argument in step.arguments
        ]
        keywords = (
            {name: self._argument(argument, used) for name, argument in step.keywords.items()}
            if step.keywords
            else step.keywords
        )
        group: groups.Group = EVERYBODY
        for reference in used:
            group = min(group, self._groups.get(reference, 1))
        if any(groups.holds_others(self._objects[reference]) for reference in used):
            group = min(group, self._kept)
        effect, result = self._call(step, arguments, keywords, group)
        if group == groups.ROWS:
            private = [self._objects[reference] for reference in used if self._groups.get(reference) == group]
            if effect == AGGREGATE:
                group = groups.of_aggregate(operation, private, arguments, keywords, result)
            else:
                group = groups.of_rows(operation, effect, private, arguments, result)
        if id_:
            self._objects[id_] = result
            if operation[0] == "@":
                self._parts[id_] = used[0]
            if group != 1:
                self._groups[id_] = group

    def _call(
        self, step: Step, arguments: list[Any], keywords: dict[str, Any], group: groups.Group
    ) -> tuple[str, Any]:
        """Its effect, and what it has made of arguments of which the smallest group is given."""
        operation = step.operation
        if operation[0] not in ".@":
            function = self._allowed.function(operation)
            if function.effect in (IN_PLACE, BACKWARD):
                self._check_own(step, function.changes)
            draws = function.random or _MODULES.match(operation) is not None
            done = self._done(step, function.call, function.effect, arguments, keywords, group, draws)
            return function.effect, done
        if not arguments:
            raise RemoteProtocolError(f"{operation} is done to nothing")
        target = arguments[0]
        if operation[0] == ".":
            name = operation[1:]
            effect = self._allowed.method(type(target), name)
            if effect is None or effect == LOCAL:
                raise OperationRefused(
                    f".{name} of a {type(target).__name__} may not be called on private data"
                )
            if effect in (IN_PLACE, BACKWARD):
                self._check_own(step)
            draws = self._allowed.draws(type(target), name)
            return effect, self._done(step, _method(name), effect, arguments, keywords, group, draws)
        if operation.startswith("@="):
            name = operation[2:]
            if not self._allowed.settable(type(target), name) or len(arguments) != 2:
                raise OperationRefused(f".{name} of a {type(target).__name__} may not be set")
            self._check_own(step)
            self._changed(step, arguments, group)
            setattr(target, name, separation.own(arguments[1], separation.maker_of(operation, arguments)))
            return IN_PLACE, None
        name = operation[1:]
        effect = self._allowed.attribute(type(target), name)
        if effect is None:
            raise OperationRefused(f".{name} of a {type(target).__name__} may not be read")
        maker = separation.maker_of(operation, arguments)
        return effect, separation.apart(_finished(getattr(target, name)), maker, arguments)

    def _done(
        self,
        step: Step,
        call: Callable[..., Any],
        effect: str,
        arguments: list[Any],
        keywords: dict[str, Any],
        group: groups.Group,
        draws: bool,
    ) -> Any:
        """What comes of a call that the lists allow, if the arguments are allowed as well."""
        operation = step.operation
        check(operation, arguments, keywords)
        if effect in (IN_PLACE, BACKWARD):
            self._changed(step, arguments, group)
        if effect == BACKWARD:
            arguments, keywords = separation.gradients(arguments, keywords)
        maker = separation.maker_of(operation, (*arguments, *keywords.values()))
        if maker in separation.TABLES:
            target = [] if operation.startswith(separation.TABLES) else arguments[:1]
            others = [separation.own(argument, maker) for argument in arguments[len(target) :]]
            arguments = [*target, *others]
            keywords = {name: separation.own(argument, maker) for name, argument in keywords.items()}
        try:
            result = _finished(call(*arguments, **keywords))
        finally:
            if draws and min(group, self._most, self._kept) < EVERYBODY:
                self._stir()
        given = (*arguments, *keywords.values())
        result = separation.apart(result, maker, given, fresh=effect in (ELEMENTWISE, AGGREGATE))
        check_items(operation, arguments[0] if effect == IN_PLACE else result)
        return result

    def _stir(self) -> None:
        """Let the random numbers to come not depend on how many the data have made it draw."""
        self._draws += 1
        seed = int.from_bytes(hashlib.sha256(str(self._draws).encode()).digest()[:4])
        if "torch" in sys.modules:
            sys.modules["torch"].default_generator.manual_seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)

    def _open(self, step: Step) -> None:
        name, revision = step.arguments
        try:
            body = self._assets[name, revision]
        except KeyError:
            raise AssetNotFound(f"{name!r}, revision {revision}, is not there to be worked on") from None
        self._objects[step.id] = values.decode(body, gradients=False)  # the log relies on it
        self._groups[step.id] = groups.ROWS
        self._shared[step.id] = name, revision

    def _check_own(self, step: Step, changes: Sequence[int] = (0,)) -> None:
        """Refuse to change an asset. A view of one may be changed, of this program's own copy of it."""
        changed = [step.arguments[place] for place in changes if place < len(step.arguments)]
        if len(changed) < len(changes):
            changed += step.keywords.values()
        for target in changed:
            if type(target) is list and target and target[0] in self._shared:
                raise OperationRefused("what is shared cannot be changed; work on a copy, such as x.copy()")
        if not step.arguments:
            raise OperationRefused("what it changes is to be given first, and not by name")
        if step.operation.endswith("seed") and any(type(argument) is list for argument in step.arguments):
            raise OperationRefused("a seed is a number, and no result")

    def _changed(self, step: Step, arguments: Sequence[Any], group: groups.Group) -> None:
        """What is changed, also by what fails half-way, may be seen through other results."""
        target = step.arguments[0]
        group = 1 if group == groups.ROWS else group
        if groups.is_data(arguments[0]) or step.operation == ".backward":
            self._most = min(self._most, group)
        else:
            self._kept = min(self._kept, group)
        if type(target) is list and target and type(target[0]) is int:
            self._groups[target[0]] = min(self._groups.get(target[0], 1), group)

    def _argument(self, argument: Any, used: list[int]) -> Any:
        if type(argument) is list and len(argument) == 1 and type(argument[0]) is int:
            used.append(argument[0])
            return self._result(argument[0])

        def result(id_: int) -> Any:
            used.append(id_)
            return self._result(id_)

        return wire.decode(
            argument,
            result=result,
            constant=self._allowed.constant,
            function=lambda name: self._allowed.function(name).call,
        )

    def _result(self, id_: int) -> Any:
        try:
            found = self._objects[id_]
        except (KeyError, TypeError):
            raise RemoteProtocolError(f"there is no result {id_!r}") from None
        if found is _RETIRED:
            raise AssetNotFound("the object is no longer shared in this revision; take it from duet.store")
        if type(found) is Fault:
            raise _Unmade(found)
        return found

    def _fail(self, step: Step, fault: Fault) -> Fault:
        """Let a fault stand in place of what the step was to make, and of all that it was to change."""
        target = step.arguments[0] if step.arguments else None
        of = target[0] if type(target) is list and len(target) == 1 and type(target[0]) is int else 0
        if step.id and step.id not in self._objects:
            self._objects[step.id] = fault
            # what would be written by way of it, as by `frame.loc(axis=0)`, would be written there
            if of in self._objects and worst_effect(step.operation) not in (ELEMENTWISE, AGGREGATE):
                self._parts[step.id] = of
        if self._writes(step):
            self._spoil(of, fault)
            if step.operation == ".backward":
                for id_ in spoiled.learning(self._objects):
                    self._spoil(id_, fault)
        return fault

    def _writes(self, step: Step) -> bool:
        """Whether a step was to change its first argument."""
        if not step.id:  # it makes nothing
            return True
        return is_listed(step.operation) and worst_effect(step.operation) in (IN_PLACE, BACKWARD)

    def _spoil(self, id_: int, fault: Fault) -> None:
        """Let a fault stand in place of a result that is not what it should be, and of all that look at its
        memory: also an asset, of which this program has written to a view.
        """
        while id_ in self._objects and id_ not in self._shared:
            written = self._objects[id_]
            self._objects[id_] = fault
            for other in spoiled.spoiled_by(written, self._objects):
                self._objects[other] = fault
            id_ = self._parts.pop(id_, 0)


# what an error of ours says of a step; any other refuses it
_CODES = (
    (AssetNotFound, pb.WorkFailure.NOT_SHARED),
    (RemoteProtocolError, pb.WorkFailure.MALFORMED),
)
_MODULES = re.compile(r"torch\.nn\.[A-Z]")  # their first weights are random


def _method(name: str) -> Callable[..., Any]:
    def call(target: Any, *arguments: Any, **keywords: Any) -> Any:
        return getattr(target, name)(*arguments, **keywords)

    return call


def _finished(result: Any) -> Any:
    """Nothing that is used up as it is looked at: how much is left of it would tell what was found in it. And
    no dict of pandas' own, which differs from one in how it is printed.
    """
    if type(result).__name__ == "PrettyDict":
        return dict(result)
    return list(result) if isinstance(result, Iterator) else result


def _shown(step: Step) -> str:
    return f"step {step.id} ({step.operation})" if step.id else step.operation
