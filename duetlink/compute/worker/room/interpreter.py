"""The interpreter: runs one program, step after step, and keeps the results in a table by step number.

Theory. If a step that only computes a result fails, a `Fault` takes the place of the result, and every step
that uses it gets the same fault. If a step that writes fails, the run ends: the object that it should have
changed is no longer what the program says, and neither is anything that shares memory with it. Such a step is
skipped only if the object to change is itself a fault. A backward step is never skipped, because it changes
the gradients of everything that its loss was computed from. So no result is ever computed from a half-changed
object, and the steps alone determine which results are faults. The run also ends when a limit is reached,
because the available memory is no property of the program.

Example: `a = x / y; b = a + 1; c = x * 2`, where the division fails. Then `a` and `b` are faults that name
the first step, and the target `c` is computed nevertheless. A step `a += 1` would be skipped: it changes a
fault. A step `x += a` would end the run without a result, since `x` should have changed.
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import (
    AGGREGATE,
    BACKWARD,
    ELEMENTWISE,
    IN_PLACE,
    LOCAL,
    Allowed,
)
from duetlink.compute.operations.allow_lists.guards import check
from duetlink.compute.operations.allow_lists.settings import Settings, under
from duetlink.compute.operations.steps import body as wire
from duetlink.compute.operations.steps import program
from duetlink.compute.operations.steps.body import Body, BodyStep
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.compute.operations.steps.finished import finished
from duetlink.compute.operations.steps.items import check_items
from duetlink.compute.operations.steps.kinds import BACK, CHANGES_FIRST, FRESH, kind_by_name, writes
from duetlink.compute.worker.protocol import faults, groups
from duetlink.compute.worker.protocol.failures import is_memory_error
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.groups import EVERYBODY, State
from duetlink.compute.worker.room import read_only, separation
from duetlink.compute.worker.room.console import KernelGone
from duetlink.compute.worker.room.draws import Draws
from duetlink.compute.worker.room.progress import Progress
from duetlink.compute.worker.room.quick import operators
from duetlink.data import values
from duetlink.errors import (
    AssetNotFound,
    DuetError,
    LimitExceeded,
    OperationRefused,
    PrepError,
    RemoteProtocolError,
    WorkLimit,
)

Assets = Mapping[tuple[str, int], memoryview]


class NoResult(Exception):
    """Raised when a result does not exist; carries the fault that is the reason."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class Interpreter:
    """Runs a program once. Its steps may write to the memory of `assets`, so no other object may use it."""

    def __init__(
        self, allowed: Allowed, assets: Assets, body: Body, draws: Draws, *, goes_on: bool = False
    ) -> None:
        """Prepare a run. `goes_on`: keep all results, because a longer program may follow by `lengthen`."""
        self._allowed = allowed
        self._goes_on = goes_on
        self._assets = assets
        self._body = body
        self._draws = draws
        self._objects: dict[int, Any] = {}  # by step number; only results that later steps still need
        # by step number, see groups.py; a result without an entry has the group 1
        self._groups: dict[int, groups.Group] = {}
        # the bounds that `State` describes
        self._write_bound: groups.Group = EVERYBODY
        self._container_bound: groups.Group = EVERYBODY
        # by step number: the assets that steps opened, which no step may change
        self._shared: dict[int, tuple[str, int]] = {}
        self._records = True  # torch records gradients
        self._settings: Settings = ()
        self._applied_settings = contextlib.ExitStack()  # undoes `_settings` when it is closed
        self._release_order, self._last_use = _last_uses(body)
        self._released = 0  # the number of results of `_release_order` that were released
        self._done_up_to = 0  # the number of the last step that was run
        self._frozen_step = 0  # the number of the step whose result is a frozen value; 0: none
        self._has_failed = False  # a step has failed

    def run(self, progress: Progress) -> tuple[Any, groups.Group]:
        """Run all remaining steps. Returns the target and its group.

        Raises:
            NoResult: the target could not be computed.
        """
        self.go_on(progress, len(self._body.steps))
        target = self._body.target
        return self._result(target), min(self._groups.get(target, 1), self._write_bound)

    def go_on(self, progress: Progress, until: int) -> None:
        """Run the next steps, up to and including number `until`. Raises NoResult if the run ends early."""
        objects, groups_, last_use, order = self._objects, self._groups, self._last_use, self._release_order
        operate = operators(self._allowed, objects, groups_)
        released, count = self._released, len(order)
        try:
            _record_gradients(self._records)
            for number in range(self._done_up_to + 1, until + 1):
                raw = self._body.steps[number - 1]
                if number <= self._frozen_step and (
                    number == self._frozen_step or last_use[number] <= self._frozen_step
                ):
                    continue
                progress.at = number
                if not (self._records and not self._settings and operate(number, raw)):
                    self._run_step(number, raw)
                while not self._goes_on and released < count and last_use[order[released]] <= number:
                    objects.pop(order[released], None)
                    groups_.pop(order[released], None)
                    released += 1
        except BaseException:
            self._has_failed = True
            raise
        finally:
            _record_gradients(True)
            self._apply_settings(())
            self._released, self._done_up_to = released, until

    def _apply_settings(self, settings: Settings) -> None:
        """Apply library settings from now on. They stay in force over steps with equal settings.

        Torch keeps the tensors that autocast has converted while the settings stay in force.
        """
        self._applied_settings.close()
        self._settings = settings
        if settings:
            self._applied_settings.enter_context(under(settings))

    def lengthen(self, body: Body) -> None:
        """Continue with a longer program. The caller has checked that it begins with all the steps already
        run.

        Raises RemoteProtocolError if this run cannot be continued.
        """
        if not self._goes_on or self._has_failed or len(body.steps) < self._done_up_to:
            raise RemoteProtocolError("this run cannot go on with another program")
        self._body = body
        self._release_order, self._last_use = _last_uses(body)

    # -- frozen values ---------------------------------------------------------------------------------------

    def so_far(self) -> tuple[Any, State] | None:
        """Return the result of the last step that was run, and its state, for a later run that begins with
        it.

        Returns None if a step has failed, or the last step has no result.
        """
        number = self._done_up_to
        found = self._objects.get(number)
        if self._has_failed or number not in self._objects:
            return None
        return found, State(self._groups.get(number, 1), self._write_bound, self._container_bound)

    def opened(self) -> list[tuple[tuple[str, int], Any]]:
        """Return name, revision and present object of the assets that later steps may use."""
        return [
            (asset, self._objects[number])
            for number, asset in self._shared.items()
            if number in self._objects
        ]

    def begin_with(self, number: int, frozen: Any, state: State) -> None:
        """Use a frozen value in place of the steps up to `number`, which were run in exactly this form
        before.

        Of those steps, the ones that open an asset or a value that later steps use are still run.
        """
        self._frozen_step = number
        self._objects[number] = frozen
        self._groups[number], self._write_bound, self._container_bound = state

    # -- one step --------------------------------------------------------------------------------------------

    def _run_step(self, number: int, raw: Any) -> None:
        """Run a step, and store its result or a fault. Raises NoResult if the run must end here."""
        try:
            step = wire.step_of(raw)
        except RemoteProtocolError as error:
            raise NoResult(Fault(number, faults.MALFORMED, words=str(error))) from None
        try:
            self._evaluate(number, step)
            return
        except NoResult as failure:
            fault = failure.fault
            if _is_writing(step) and not self._changes_only_faults(step):
                raise
        except (KeyboardInterrupt, SystemExit, KernelGone):
            raise
        except BaseException as error:  # a panic in a Rust library is not an Exception
            fault = _fault_of(error, number, step)
            if _is_writing(step) or fault.code == faults.NOT_MADE:
                raise NoResult(fault) from None
        self._objects[number] = fault
        self._has_failed = True

    def _evaluate(self, number: int, step: BodyStep) -> None:
        operation = step.operation
        if operation == program.VALUE:
            self._objects[number] = values.decode(self._value(step), gradients=False)
            self._groups[number] = EVERYBODY
            return
        if operation == program.ASSET:
            self._open(number, step)
            return
        if step.records is not self._records:
            _record_gradients(step.records)
            self._records = step.records
        if step.settings != self._settings:
            self._apply_settings(step.settings)
        if step.draw is not None:
            self._draws.seed(step.draw)
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
            group = min(group, self._container_bound)
        effect, result = self._call(step, arguments, keywords, group)
        if group == groups.ROWS:
            private = [self._objects[reference] for reference in used if self._groups.get(reference) == group]
            if effect == AGGREGATE:
                group = groups.aggregate_group(operation, private, arguments, keywords, result)
            else:
                group = groups.row_group(operation, effect, private, arguments, keywords, result)
        self._objects[number] = result
        if group != 1:
            self._groups[number] = group

    def _call(
        self, step: BodyStep, arguments: list[Any], keywords: dict[str, Any], group: groups.Group
    ) -> tuple[str, Any]:
        """Check that the step is allowed for its arguments, and run it. Returns its effect and its result.

        `group` is the smallest group of the arguments.
        """
        operation = step.operation
        if operation[0] not in ".@":
            function = self._allowed.function(operation)
            if function.effect in (IN_PLACE, BACKWARD):
                self._check_own(step, function.changes)
            done = self._execute(step, function.call, function.effect, arguments, keywords, group)
            return function.effect, done
        if not arguments:
            raise RemoteProtocolError(f"{operation} has no argument")
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
            return effect, self._execute(step, _method(name), effect, arguments, keywords, group)
        if operation.startswith("@="):
            name = operation[2:]
            if not self._allowed.settable(type(target), name) or len(arguments) != 2:
                raise OperationRefused(f".{name} of a {type(target).__name__} may not be set")
            self._check_own(step)
            self._note_write(step, arguments, group)
            setattr(
                target, name, separation.copy_arrays(arguments[1], separation.maker_of(operation, arguments))
            )
            return IN_PLACE, None
        name = operation[1:]
        effect = self._allowed.attribute(type(target), name)
        if effect is None:
            raise OperationRefused(f".{name} of a {type(target).__name__} may not be read")
        maker = separation.maker_of(operation, arguments)
        return effect, separation.separate(finished(getattr(target, name)), maker, arguments)

    def _execute(
        self,
        step: BodyStep,
        call: Callable[..., Any],
        effect: str,
        arguments: list[Any],
        keywords: dict[str, Any],
        group: groups.Group,
    ) -> Any:
        """Check the arguments of an allowed call, make the call, and return its result; see separation.py."""
        operation = step.operation
        check(operation, arguments, keywords)
        if effect in (IN_PLACE, BACKWARD):
            self._note_write(step, arguments, group)
        if effect == BACKWARD:
            arguments, keywords = separation.gradients(arguments, keywords)
        maker = separation.maker_of(operation, (*arguments, *keywords.values()))
        if maker in separation.TABLES:
            target = [] if operation.startswith(separation.TABLES) else arguments[:1]
            others = [separation.copy_arrays(argument, maker) for argument in arguments[len(target) :]]
            arguments = [*target, *others]
            keywords = {name: separation.copy_arrays(argument, maker) for name, argument in keywords.items()}
        result = self._call_protected(step, call, effect, arguments, keywords)
        given = (*arguments, *keywords.values())
        result = separation.separate(result, maker, given, fresh=effect in (ELEMENTWISE, AGGREGATE))
        check_items(operation, arguments[0] if effect == IN_PLACE else result)
        return result

    def _call_protected(
        self,
        step: BodyStep,
        call: Callable[..., Any],
        effect: str,
        arguments: list[Any],
        keywords: dict[str, Any],
    ) -> Any:
        """Make a call while all arrays are read-only, except those that the lists say it writes to."""
        if effect == BACKWARD:
            return finished(call(*arguments, **keywords))
        positions = self._changed_positions(step) if effect == IN_PLACE else ()
        if len(arguments) <= max(positions, default=-1):  # a changed argument was given by keyword
            return finished(call(*arguments, **keywords))
        changed = [arguments[position] for position in positions]
        given = (*arguments, *keywords.values())
        if changed:
            given = tuple(argument for argument in given if not _is_in(argument, changed))
        locked = read_only.lock(given)
        try:
            result = finished(call(*arguments, **keywords))
        except ValueError as error:
            if not locked or not read_only.is_refusal(error):
                raise
        else:
            read_only.unlock(locked)
            read_only.unlock_views(result, locked)
            return result
        finally:
            read_only.unlock(locked)
        # compiled code may require writable arrays even if it only reads them: run it again on copies
        if step.settings != self._settings:
            self._apply_settings(step.settings)
        if step.draw is not None:
            self._draws.seed(step.draw)

        def copied(argument: Any) -> Any:
            return (
                argument
                if _is_in(argument, changed)
                else separation.copy_arrays(argument, separation.TABLES[0])
            )

        named = {name: copied(argument) for name, argument in keywords.items()}
        return finished(call(*map(copied, arguments), **named))

    def _changed_positions(self, step: BodyStep) -> Sequence[int]:
        """Return the positions of the arguments that a writing step changes, by the lists."""
        if step.operation[0] in ".@":
            return (0,)
        return self._allowed.function(step.operation).changes or (0,)

    def _value(self, step: BodyStep) -> memoryview:
        index = step.arguments[0] if len(step.arguments) == 1 else None
        if type(index) is not int or not 0 <= index < len(self._body.values):
            raise RemoteProtocolError("a step opens a value that the program does not have")
        return self._body.values[index]

    def _open(self, number: int, step: BodyStep) -> None:
        name, revision = step.arguments if len(step.arguments) == 2 else (None, None)
        if type(name) is not str or type(revision) is not int:
            raise RemoteProtocolError("a step opens an asset without its name and revision")
        try:
            body = self._assets[name, revision]
        except KeyError:
            raise AssetNotFound(f"{name!r}, revision {revision}, was not given to this room") from None
        self._objects[number] = values.decode(body, gradients=False)  # slices assume that assets have none
        self._groups[number] = groups.ROWS
        self._shared[number] = name, revision

    def _check_own(self, step: BodyStep, changes: Sequence[int] = (0,)) -> None:
        """Refuse a step that changes an asset. A view may be changed: it is of this run's own copy."""
        changed = [step.arguments[position] for position in changes if position < len(step.arguments)]
        if len(changed) < len(changes):
            changed += step.keywords.values()
        for target in changed:
            if type(target) is list and target and target[0] in self._shared:
                raise OperationRefused("a shared object cannot be changed; work on a copy, such as x.copy()")
        if not step.arguments:
            raise OperationRefused("give the object that it changes as the first argument, not by keyword")
        if step.operation.endswith("seed") and any(type(argument) is list for argument in step.arguments):
            raise OperationRefused("a seed must be a number, not the result of a step")

    def _note_write(self, step: BodyStep, arguments: Sequence[Any], group: groups.Group) -> None:
        """Lower the groups after a write: the written data may be visible through other results."""
        target = step.arguments[0]
        group = 1 if group == groups.ROWS else group
        if groups.is_data(arguments[0]) or step.operation == ".backward":
            self._write_bound = min(self._write_bound, group)
        else:
            self._container_bound = min(self._container_bound, group)
        if type(target) is list and target and type(target[0]) is int:
            self._groups[target[0]] = min(self._groups.get(target[0], 1), group)

    def _argument(self, argument: Any, used: list[int]) -> Any:
        if type(argument) is list and len(argument) == 1 and type(argument[0]) is int:
            used.append(argument[0])
            return self._result(argument[0])

        def result(number: int) -> Any:
            used.append(number)
            return self._result(number)

        return program.decode(
            argument,
            result=result,
            constant=self._allowed.constant,
            function=lambda name: self._allowed.function(name).call,
        )

    def _result(self, number: int) -> Any:
        try:
            found = self._objects[number]
        except KeyError:
            raise RemoteProtocolError(f"no earlier step makes result {number}") from None
        if type(found) is Fault:
            raise NoResult(found)
        return found

    def _changes_only_faults(self, step: BodyStep) -> bool:
        """True if all objects that a writing step changes are faults, and no other object would show the
        change.

        The latter holds for results that share no memory with earlier ones, and for models of statsmodels,
        which only read their data.
        """
        if kind_by_name(step.operation, worst_effect) >= BACK:
            return False
        positions: Sequence[int] = (0,)
        with contextlib.suppress(OperationRefused):
            positions = self._changed_positions(step)
        changed = [step.arguments[position] for position in positions if position < len(step.arguments)]
        numbers = list(_numbers(changed))
        return bool(numbers) and all(
            type(self._objects.get(number)) is Fault and self._is_independent(number) for number in numbers
        )

    def _is_independent(self, number: int) -> bool:
        """True if changing a step's result leaves its arguments unchanged, judged by name, as in slices."""
        operation = wire.step_of(self._body.steps[number - 1]).operation
        return operation.startswith("statsmodels.") or kind_by_name(operation, worst_effect) == FRESH


# -- facts that follow from the steps alone ------------------------------------------------------------------


def _is_writing(step: BodyStep) -> bool:
    """True for a step whose purpose is a change, judged by name, as in slices."""
    return kind_by_name(step.operation, worst_effect) >= CHANGES_FIRST or writes(step.keywords)


def _last_uses(body: Body) -> tuple[list[int], array[int]]:
    """Return the results in the order of their last use, without the target, and the last use of each result.

    The second array is indexed by result number, and holds the number of the last step that uses the result.
    """
    count = len(body.steps)
    last_use = array("q", range(count + 1))
    for number, raw in enumerate(body.steps, 1):
        for used in _uses(raw):
            if 0 < used < number:
                last_use[used] = number
    order = sorted(range(1, count + 1), key=last_use.__getitem__)
    if 1 <= body.target <= count:
        order.remove(body.target)
    return order, last_use


def _uses(raw: Any) -> Iterator[int]:
    """Yield the results that an encoded step refers to. The step may be malformed."""
    if type(raw) is list:
        for part in raw[1:3]:
            if type(part) is list or type(part) is dict:
                yield from _numbers(part.values() if type(part) is dict else part)


def _numbers(arguments: Iterable[Any]) -> Iterator[int]:
    """Yield the results that encoded arguments refer to, at any depth."""
    open_: list[Any] = list(arguments)
    while open_:
        part = open_.pop()
        if type(part) is list:
            if len(part) == 1 and type(part[0]) is int:
                yield part[0]
            else:
                open_ += part


# -- failures ------------------------------------------------------------------------------------------------

# the fault codes of our own errors; the code of all others is REFUSED
_CODES = (
    (AssetNotFound, faults.NOT_SHARED),
    (RemoteProtocolError, faults.MALFORMED),
    (LimitExceeded, faults.NOT_MADE),
    (WorkLimit, faults.NOT_MADE),
)


def _fault_of(error: BaseException, number: int, step: BodyStep) -> Fault:
    where = f"step {number} ({step.operation})"
    if isinstance(error, PrepError):  # counts as a library's ValueError about the data
        return _make_fault(number, faults.RAISED, f"{where}: {error}", faults.error_number(error))
    if isinstance(error, DuetError):
        code = next((code for kind, code in _CODES if isinstance(error, kind)), faults.REFUSED)
        return _make_fault(number, code, f"{where}: {error}")
    if is_memory_error(error):
        return _make_fault(
            number, faults.NOT_MADE, f"{where} needs more memory than there is: {faults.error_text(error)}"
        )
    return _make_fault(
        number,
        faults.RAISED,
        f"{where} failed on the real data: {faults.error_text(error)}",
        faults.error_number(error),
    )


def _make_fault(number: int, code: int, words: str, error: int = 0) -> Fault:
    return Fault(number, code, error, faults.one_line(words))


# -- calls ---------------------------------------------------------------------------------------------------


def _record_gradients(enabled: bool) -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_grad_enabled(enabled)


def _is_in(obj: Any, others: Sequence[Any]) -> bool:
    return any(obj is other for other in others)


def _method(name: str) -> Callable[..., Any]:
    def call(target: Any, *arguments: Any, **keywords: Any) -> Any:
        return getattr(target, name)(*arguments, **keywords)

    return call
