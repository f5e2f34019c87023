"""What a room does with a program: one step after the other, and its target as a value.

The objects that the program names are there, and nothing else. A step that only makes something, and fails,
leaves a fault in the place of its result, which whoever uses it meets. A step that was to change something,
and fails, ends the run: what it was to change is in no known state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import sys
import time
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from duetlink.compute.operations import body as bodies
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
from duetlink.compute.operations.program import CanonicalStep
from duetlink.compute.privacy.release import FAILED, plan
from duetlink.compute.privacy.statistic import Statistic
from duetlink.compute.worker import answers, faults, groups, separation
from duetlink.compute.worker.console import KernelGone
from duetlink.compute.worker.desks import Emit
from duetlink.compute.worker.failures import is_memory_error
from duetlink.compute.worker.faults import Fault, error_of
from duetlink.compute.worker.groups import EVERYBODY
from duetlink.compute.worker.memory import map_sealed
from duetlink.compute.worker.quick import operators
from duetlink.data import values
from duetlink.errors import (
    AssetNotFound,
    DuetError,
    OperationFailed,
    OperationRefused,
    PrepError,
    RemoteProtocolError,
    UnsupportedValue,
    WorkLimit,
)

_PROGRESS_S = 0.25
_MAX_MESSAGE = 500  # characters of a library's error


@functools.cache
def installed() -> Allowed:
    """The lists of all that is installed."""
    return Allowed.installed()


def rehearse() -> None:
    """Do small steps, so that what is looked up once is looked up already. Nothing of it uses threads."""
    desk = ProgramDesk()
    steps: list[tuple[str, list[Any]]] = [
        ("numpy.array", [["l", 1.0, 2.0, 2.0]]),
        (".mean", [[1]]),
        ("operator.mul", [[1], 2.0]),
        ("operator.getitem", [[1], ["s", 0, 2, None]]),
        ("numpy.mean", [[1]]),
        ("pandas.DataFrame", [["d", "a", [1], "b", ["l", "x", "y", "y"]]]),
        ("operator.getitem", [[6], "a"]),
        ("operator.mul", [[7], 2.0]),
        (".mean", [[8]]),
        (".groupby", [[6], "b"]),
        (".mean", [[10]]),
        ("operator.gt", [[7], 1.0]),
        ("operator.getitem", [[6], [12]]),
        (".describe", [[7]]),
    ]
    for number, (operation, arguments) in enumerate(steps, 1):
        with contextlib.suppress(Exception):
            desk._step(number, CanonicalStep(operation, arguments, {}, True, None))
            made = values.encode(desk._objects[number])
            values.decode(memoryview(bytearray(b"".join(made.segments))))
    for kind in list(desk._allowed.classes):
        with contextlib.suppress(Exception):
            desk._allowed.method(kind, "mean")


class _Unmade(Exception):
    """An argument of a step is what an earlier one failed to make."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class ProgramDesk:
    """Runs one program."""

    def __init__(self, allowed: Allowed | None = None) -> None:
        self._allowed = allowed if allowed is not None else installed()
        self._assets: dict[tuple[str, int], memoryview] = {}
        self._objects: dict[int, Any] = {}
        # of results, see groups.py; what is not there may be one row's
        self._groups: dict[int, groups.Group] = {}
        # what was written in place can be seen from anywhere; what a model, say, keeps, from all that holds
        # it
        self._most: groups.Group = EVERYBODY
        self._kept: groups.Group = EVERYBODY
        self._shared: set[int] = set()  # assets, which nothing may change, by their numbers
        self._values: list[memoryview] = []
        self._gradients = True
        self._salt = b""
        self._handlers: dict[str, Callable[[bytes, Sequence[int], Emit], tuple[bytes, Sequence[int]]]] = {
            "asset": self._take_asset,
            "run": self._run,
            "release": self._release,
        }

    def handle(
        self, command: str, content: bytes, fds: Sequence[int], emit: Emit
    ) -> tuple[bytes, Sequence[int]]:
        """Do one command of the owner's kernel. Raises RemoteProtocolError, OperationFailed, …"""
        try:
            handler = self._handlers[command]
        except KeyError:
            raise RemoteProtocolError(f"a room knows no command {command!r}") from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return handler(content, fds, emit)

    # -- commands --------------------------------------------------------------------------------------------

    def _take_asset(self, content: bytes, fds: Sequence[int], emit: Emit) -> tuple[bytes, Sequence[int]]:
        """The memory of an asset of the program to come."""
        asset = json.loads(content)
        (fd,) = fds
        mapped = map_sealed(fd, asset["size_bytes"], writable_copy=True)
        self._assets[asset["name"], asset["revision"]] = mapped
        return b"", ()

    def _run(self, content: bytes, fds: Sequence[int], emit: Emit) -> tuple[bytes, Sequence[int]]:
        """Do a program, and give what it makes, with what a person wants to know of it; or the fault."""
        asked = json.loads(content)
        try:
            made = self._made(asked, fds, emit)
            encoded = values.encode(made, plain_nan=True)
        except _Unmade as unmade:
            return answers.not_given(unmade.fault)
        except UnsupportedValue as error:
            words = f"a {type(made).__name__} cannot travel; ask for its parts: {error}"
            return answers.not_given(Fault(0, faults.CANNOT_TRAVEL, words=words))
        except RemoteProtocolError as error:
            return answers.not_given(Fault(0, faults.MALFORMED, words=str(error)))
        except MemoryError:
            return answers.not_given(Fault(0, faults.NOT_MADE, words="it needs more memory than is allowed"))
        target = asked["target"]
        group = min(self._groups.get(target, 1), self._most)
        if encoded.size_bytes > asked["max_bytes"]:
            words = f"the result has {encoded.size_bytes:,} bytes, over the {asked['max_bytes']:,} allowed"
            return answers.not_given(Fault(0, faults.NOT_MADE, words=words))
        try:
            return answers.result(encoded, group)
        except WorkLimit as error:
            return answers.not_given(Fault(0, faults.NOT_MADE, words=str(error)))

    def _release(self, content: bytes, fds: Sequence[int], emit: Emit) -> tuple[bytes, Sequence[int]]:
        """A private statistic of what a program makes. It is paid for already. Its noise is the system's: a
        program that draws is refused before it gets here.
        """
        asked = json.loads(content)
        statistic = Statistic.from_json(asked["statistic"].encode())
        bounds = tuple(asked["bounds"]) if asked["bounds"] is not None else None
        planned = plan(statistic, bounds, max_contributions=asked["rows_per_person"])
        try:
            column = self._made(asked, fds, emit, seeded=False)
        except (KeyboardInterrupt, SystemExit, KernelGone):
            raise
        except BaseException:  # which would tell of the data; a panic of a library in Rust is no Exception
            raise OperationFailed(FAILED) from None
        released = planned.release(column)
        return answers.result(values.encode(dataclasses.asdict(released), plain_nan=True), EVERYBODY)

    # -- a program -------------------------------------------------------------------------------------------

    def _made(self, asked: dict[str, Any], fds: Sequence[int], emit: Emit, *, seeded: bool = True) -> Any:
        """Its target. Raises _Unmade, RemoteProtocolError."""
        (fd,) = fds
        found = bodies.read(map_sealed(fd, asked["size_bytes"], writable_copy=True))
        asked["target"] = found.target
        self._values = found.values
        steps = [wire.read_step(raw) for raw in found.steps]
        if seeded:
            self._salt = asked["salt"].encode()
            self._seed(wire.Draw(None, -1))
        last = _last_uses(steps, found.target)
        next_told_s = time.monotonic() + _PROGRESS_S
        operate = operators(self._allowed, self._objects, self._groups)
        for number, step in enumerate(steps, 1):
            if step.gradients is not self._gradients:
                self._gradients = step.gradients
                sys.modules["torch"].set_grad_enabled(step.gradients)
            if not operate(number, step):
                self._do(number, step, seeded=seeded)
            for used in last[number]:
                self._objects.pop(used, None)
                self._groups.pop(used, None)
            if time.monotonic() >= next_told_s:
                next_told_s = time.monotonic() + _PROGRESS_S
                emit("progress", json.dumps(number / len(steps)).encode())
        return self._result(found.target)

    def _seed(self, draw: wire.Draw) -> None:
        """What a step draws follows from the last seed that the program has set, or from the salt, and from
        how many have drawn since.
        """
        origin = self._salt if draw.seed is None else str(draw.seed).encode()
        digest = hashlib.sha256(b"%d %s" % (draw.number, origin)).digest()
        seed = int.from_bytes(digest[:4], "little")
        if (torch := sys.modules.get("torch")) is not None:
            torch.default_generator.manual_seed(seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed)
            # what a generator without a seed is given in place of the system's entropy
            entropy: Any = sys.modules["numpy.random.bit_generator"]
            entropy.randbits = lambda bits: (
                int.from_bytes(hashlib.shake_256(digest).digest((bits + 7) // 8), "little") >> (-bits % 8)
            )

    # -- one step --------------------------------------------------------------------------------------------

    def _do(self, number: int, step: CanonicalStep, *, seeded: bool) -> None:
        """Do a step. Raises _Unmade where that ends the run."""
        try:
            if seeded and step.draw is not None:
                self._seed(step.draw)
            self._step(number, step)
        except _Unmade as unmade:
            fault = unmade.fault
        except PrepError as error:  # as a library's ValueError, of the data
            fault = Fault(number, faults.RAISED, error_of(error), str(error))
        except DuetError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), faults.REFUSED)
            fault = Fault(number, code, words=str(error))
        except (KeyboardInterrupt, SystemExit, KernelGone):
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            code = faults.NOT_MADE if is_memory_error(error) else faults.RAISED
            words = f"{type(error).__name__}: {str(error)[:_MAX_MESSAGE]}"
            fault = Fault(number, code, error_of(error), words)
        else:
            return
        self._objects[number] = fault
        if fault.code == faults.NOT_MADE or (self._writes(step) and not self._was_unmade(step)):
            raise _Unmade(fault)

    def _writes(self, step: CanonicalStep) -> bool:
        """Whether a step was to change something, for some class of objects."""
        operation = step.operation
        return (
            worst_effect(operation) in (IN_PLACE, BACKWARD) if is_listed(operation) else operation[:2] == "@="
        )

    def _was_unmade(self, step: CanonicalStep) -> bool:
        """Whether there is nothing that it could have changed, since that was never made."""
        target = step.arguments[0] if step.arguments else None
        return (
            type(target) is list
            and len(target) == 1
            and type(target[0]) is int
            and type(self._objects.get(target[0])) is Fault
        )

    def _step(self, number: int, step: CanonicalStep) -> None:
        operation = step.operation
        if operation == wire.VALUE:
            (index,) = step.arguments
            if type(index) is not int or not 0 <= index < len(self._values):
                raise RemoteProtocolError(f"there is no value {index!r}")
            self._objects[number] = values.decode(self._values[index], gradients=False)
            self._groups[number] = EVERYBODY
            return
        if operation == wire.ASSET:
            self._open(number, step)
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
        self._objects[number] = result
        if group != 1:
            self._groups[number] = group

    def _call(
        self, step: CanonicalStep, arguments: list[Any], keywords: dict[str, Any], group: groups.Group
    ) -> tuple[str, Any]:
        """Its effect, and what it has made of arguments of which the smallest group is given."""
        operation = step.operation
        if operation[0] not in ".@":
            function = self._allowed.function(operation)
            if function.effect in (IN_PLACE, BACKWARD):
                self._check_own(step, function.changes)
            done = self._done(step, function.call, function.effect, arguments, keywords, group)
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
            return effect, self._done(step, _method(name), effect, arguments, keywords, group)
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
        step: CanonicalStep,
        call: Callable[..., Any],
        effect: str,
        arguments: list[Any],
        keywords: dict[str, Any],
        group: groups.Group,
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
        result = _finished(call(*arguments, **keywords))
        given = (*arguments, *keywords.values())
        result = separation.apart(result, maker, given, fresh=effect in (ELEMENTWISE, AGGREGATE))
        check_items(operation, arguments[0] if effect == IN_PLACE else result)
        return result

    def _open(self, number: int, step: CanonicalStep) -> None:
        name, revision = step.arguments
        try:
            mapped = self._assets[name, revision]
        except KeyError:
            raise AssetNotFound(f"{name!r}, revision {revision}, is not there to be worked on") from None
        self._objects[number] = values.decode(mapped, gradients=False)  # the trace relies on it
        self._groups[number] = groups.ROWS
        self._shared.add(number)

    def _check_own(self, step: CanonicalStep, changes: Sequence[int] = (0,)) -> None:
        """Refuse to change an asset. A view of one may be changed, of this program's own copy of it."""
        changed = [step.arguments[place] for place in changes if place < len(step.arguments)]
        if len(changed) < len(changes):
            changed += step.keywords.values()
        for target in changed:
            if type(target) is list and target and target[0] in self._shared:
                raise OperationRefused("what is shared cannot be changed; work on a copy, such as x.copy()")
        if not step.arguments:
            raise OperationRefused("what it changes is to be given first, and not by name")
        if step.operation in wire.SEEDS:
            raise OperationRefused("a seed is an attribute of steps, and no step")

    def _changed(self, step: CanonicalStep, arguments: Sequence[Any], group: groups.Group) -> None:
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
        if type(found) is Fault:
            raise _Unmade(found)
        return found


# what an error of ours says of a step; any other refuses it
_CODES = (
    (AssetNotFound, faults.NOT_SHARED),
    (RemoteProtocolError, faults.MALFORMED),
)


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


def _last_uses(steps: Sequence[CanonicalStep], target: int) -> list[array[int] | tuple[()]]:
    """After each step, which results nobody uses any more."""
    last: dict[int, int] = {}
    for number, step in enumerate(steps, 1):
        last[number] = number
        for used in wire.references(step):
            last[used] = number
    last.pop(target, None)
    gone: list[array[int] | tuple[()]] = [()] * (len(steps) + 1)
    for number, after in last.items():
        if not gone[after]:
            gone[after] = array("q")
        gone[after].append(number)  # type: ignore[union-attr]
    return gone
