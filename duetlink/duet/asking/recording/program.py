"""Records the operations on pointers as steps; `Program` is the recorder of one duet.

Theory. An operation on a pointer runs at once on mocks and appends one step to the program. Nothing leaves
this side before the user requests a result; then the steps that made that result travel with the request.
Recording has to be much cheaper than the operation itself (about 1 µs). A step is therefore formatted as the
JSON text that will be sent, and is appended to a list by a single bytecode, so threads need no lock. When
`MOST_STEPS` steps have gathered, the thread that records the next one moves them into the trace
(`compute/operations/steps/trace.py`), which drops the steps that no pointer needs any more.

Ids only grow. When a pointer is garbage-collected, its id itself is appended to the list of steps (a `drop`).
Its place in the list matters: every step that used the pointer was recorded before it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import threading
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from duetlink.compute.operations.allow_lists.allowed import BACKWARD, IN_PLACE, Allowed
from duetlink.compute.operations.allow_lists.guards import check
from duetlink.compute.operations.allow_lists.settings import Settings
from duetlink.compute.operations.canonical import Program as Canonical
from duetlink.compute.operations.canonical import Value, compacted
from duetlink.compute.operations.sizes.lookup import hidden_after, hidden_then
from duetlink.compute.operations.sizes.mask import (
    EVERY,
    NESTED,
    PUBLIC,
    UNCOUNTED,
    has_pointers,
    hidden_in,
    trimmed,
)
from duetlink.compute.operations.steps import program
from duetlink.compute.operations.steps.effects import may_draw, worst_effect
from duetlink.compute.operations.steps.finished import finished
from duetlink.compute.operations.steps.program import SEEDS
from duetlink.compute.operations.steps.trace import LoggedValue, Trace
from duetlink.data import values
from duetlink.duet.asking.mocks.absent import absent
from duetlink.duet.asking.mocks.agreement import NO_DIFFERENCE, MateDifference, Mates
from duetlink.duet.asking.mocks.echoes import Echoes
from duetlink.duet.asking.mocks.mock_tensors import AsMocks, is_tensor
from duetlink.duet.asking.recording.iteration import is_counted
from duetlink.duet.asking.recording.modes import settings_here
from duetlink.duet.asking.recording.recipe import library_of, recipe_of, refuse
from duetlink.duet.asking.recording.room_parameters import room_keywords
from duetlink.duet.asking.recording.seeds import numpy_seed, torch_seed
from duetlink.duet.asking.recording.targets import IN_PLACE_OPERATORS, SharedMemory, check_targets
from duetlink.errors import OperationRefused, PrivateValue, UnsupportedValue

if TYPE_CHECKING:
    from duetlink.duet.asking.requests.asking import What
    from duetlink.duet.asking.requests.pending_request import PendingRequest

# a library raises these when the values do not fit; other data may fit, so the mates are asked
_OF_DATA = (IndexError, ValueError, ArithmeticError)
MOST_STEPS = 4096  # steps that wait to be moved into the trace
_MOST_UNLIKE = 100_000  # results whose comparison with the mates is remembered
# the trace is compacted when it exceeds twice what was needed after the last compaction, plus these
_COMPACT_STEPS = 200_000
_COMPACT_BYTES = 256 * 1024 * 1024  # of values
write_plain = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
PLAIN = frozenset((int, float, bool, str, type(None)))  # types that JSON has as well
_SEEDS = ("random_state", "seed")
_TEXT_DTYPES = frozenset("biufcSUmM")  # NumPy kinds whose dtype is fully described by its text, e.g. <M8[s]
# largest argument that travels inside a program; larger objects go by duet.send
_MOST_VALUE_BYTES = 64 * 1024 * 1024


class PlacedValue(NamedTuple):
    """The step that sends a value of this side to the owner."""

    id: int
    value: Value


class CheckedArguments(NamedTuple):
    """The checked arguments of an operation in three forms: with pointers, with the mocks of those pointers,
    and encoded as the JSON texts of a step.
    """

    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    mocks: tuple[Any, ...]
    mocks_by_name: dict[str, Any]
    encoded: list[str]
    encoded_by_name: dict[str, str]
    settings: Settings


# a recorded operation, a value, or the id of a result that is no longer needed
Step = str | PlacedValue | int
Ask = Callable[[Any, str, "float | None", "What"], "PendingRequest"]
MakeResult = Callable[["Program", Any, int], Any]


class _Arguments(threading.local):
    """Ids of the values that this thread placed as arguments of the step that it is about to record."""

    def __init__(self) -> None:
        self.ids: list[int] = []


class Program:
    """The recorder of one duet: all steps from the first operation until the link ends."""

    def __init__(self, allowed: Allowed, ask: Ask, result: MakeResult) -> None:
        """Create an empty program.

        `ask(pointer, reason, expires_s, what)` makes a request for a result. `result(program, mock, id)`
        makes a pointer to a result.
        """
        self.allowed = allowed
        self.ask = ask
        self._result = result
        self.steps: list[Step] = []
        self.drop: Callable[[int], None] = self.steps.append
        self.alarm = MOST_STEPS  # `move_to_trace` has to be called when this id has been given out
        self.next_id = itertools.count(1).__next__
        self._reading = threading.Lock()
        self._trace = Trace(worst_effect, may_learn=False)
        self._values: dict[str, Value] = {}  # by their digests
        self._values_bytes = 0
        self._has_dropped_steps = False
        self._needed = (0, 0)  # steps, and bytes of values, after the last compaction
        self._assets: dict[tuple[str, int], int] = {}
        self._makers: dict[type, Callable[[Any, int, int], Any]] = {
            tuple: self._take_apart,
            list: self._take_apart,
        }
        self._readers: dict[type, Callable[[Any], Any]] = {}
        self._gradients = True  # torch's grad mode in the step that was recorded last
        self._recording = threading.Lock()
        self.echoes = Echoes()
        self.shared = SharedMemory()
        self.agreement: Mates | None = None  # None: the rules alone decide which sizes are private
        self._differences: dict[int, MateDifference] = {}  # by the id of the result
        self._arguments = _Arguments()
        self.ended = False
        self.has_stand_ins = False  # True: some mock was not computed from mocks by its recorded steps
        self._check_open: Callable[[], None] = lambda: None

    # -- recording -------------------------------------------------------------------------------------------

    def append(self, step: Step) -> None:
        """Append one step, and move the steps into the trace if `MOST_STEPS` are waiting."""
        self.steps.append(step)
        if len(self.steps) >= MOST_STEPS:
            self.move_to_trace()

    def record(
        self,
        id_: int,
        operation: str,
        arguments: Sequence[str],
        keywords: Mapping[str, str] | None = None,
        *,
        draws: bool = True,
        settings: Settings = (),
    ) -> None:
        """Record a step whose arguments are encoded already.

        `draws=False` says that this call uses no random numbers although its operation may. `settings` are
        the settings of libraries that its result depends on (`recording/modes.py`).
        """
        head = _heads.get(operation)
        if head is None:
            head = _heads[operation] = f",{write_plain(operation)},["
        text = f"[{id_}{head}{','.join(arguments)}]"
        if keywords:
            named = ",".join(f"{write_plain(name)}:{argument}" for name, argument in keywords.items())
            text = f"{text},{{{named}}}"
        if not draws or settings:
            text += f"{'' if keywords else ',{}'},{int(draws)}"
        if settings:
            text += f",{write_plain(dict(settings))}"
        torch = sys.modules.get("torch")
        if torch is None:
            self.append(text + "]")
            return
        enabled = torch.is_grad_enabled()  # in this thread
        with self._recording:  # no other thread's step comes between a step and its mode
            if enabled is not self._gradients:
                self._gradients = enabled
                self.append(f'[0,"{program.GRAD}",[{write_plain(enabled)}]]')
            self.append(text + "]")

    def move_to_trace(self) -> None:
        """Move the waiting steps into the trace if there are at least `MOST_STEPS`.

        Callers that append to `steps` directly call this when they get an id of `alarm` or above.
        """
        self.alarm = self.next_id() + MOST_STEPS  # no result has that id
        if len(self.steps) >= MOST_STEPS and not self.ended:
            with self._reading:
                self._read()

    def program_of(self, id_: int) -> Canonical:
        """Return the canonical program that makes the result `id_`, from all steps recorded by now.

        Raises:
            OperationRefused: the user has renamed labels of a mock here, which the owner would not have.
            LimitExceeded: the steps and values of this session take too much memory.
            LookupError: no step makes this result.
            LinkClosed: the duet is closed.
        """
        self.echoes.check_lent()
        return self._canonical(id_)

    def difference_to_mates(self, remote: Any) -> MateDifference:
        """Compare a result on the mock with the same result on the mates.

        The answer is remembered by id: it does not change when something is written into the result later.
        """
        if is_tensor(
            remote._mock
        ):  # torch's sizes follow from sizes, and it was asked about when it was made
            return self._differences.get(remote._id, NO_DIFFERENCE)
        return self._difference_by_id(remote._id, remote._mock)

    def _difference_by_id(self, id_: int, mock: Any) -> MateDifference:
        found = self._differences.get(id_)
        if found is None:
            found = NO_DIFFERENCE
            if self.agreement is not None and id_ not in self.echoes.own and not self.ended:
                found = self.agreement.difference_to_mates(self._canonical(id_), mock)
            if len(self._differences) >= _MOST_UNLIKE:
                self._differences.clear()  # later questions run the mates again
            self._differences[id_] = found
        return found

    def _canonical(self, id_: int) -> Canonical:
        """Return the program of a result. Raises as `program_of`, except OperationRefused."""
        with self._reading:
            self.check_open()
            self._read()
            return Canonical.recorded(self._trace, id_, self._values)

    def holds_more_than(self, program: Canonical) -> bool:
        """Return True if steps were recorded that `program` does not contain."""
        with self._reading:
            self._read()
            return self._has_dropped_steps or self._trace.done > len(program.slice)

    def _read(self) -> None:
        """Move all steps recorded by now into the trace. The caller holds `_reading`."""
        batch = self.steps[:]
        del self.steps[: len(batch)]
        texts: list[str] = []
        for step in batch:
            if isinstance(step, str):
                texts.append(step)
            elif isinstance(step, int):
                texts.append(f'[0,"{program.DROP}",[{step}]]')
            else:
                self._put(texts)
                self._put_value(step)
        self._put(texts)
        steps, values_bytes = self._needed
        if (
            len(self._trace) > 2 * steps + _COMPACT_STEPS
            or self._values_bytes > 2 * values_bytes + _COMPACT_BYTES
        ):
            self._compact()

    def _put(self, texts: list[str]) -> None:
        if texts:
            self._trace.add(json.loads(f"[{','.join(texts)}]"))
            texts.clear()

    def _put_value(self, placed: PlacedValue) -> None:
        value = placed.value
        digest = hashlib.sha256(value.content).hexdigest()
        self._values[digest] = value
        self._values_bytes += len(value.content)
        words = f"{value.kind} {value.detail}".strip()
        self._trace.add([[placed.id, program.VALUE, [0]]], [LoggedValue(words, digest)])

    def _compact(self) -> None:
        """Drop the steps and values that no living pointer needs."""
        before = self._trace.done
        self._trace = compacted(self._trace)
        self._has_dropped_steps |= self._trace.done < before
        self._values = {value.digest: self._values[value.digest] for value in self._trace.values.values()}
        self._values_bytes = sum(len(value.content) for value in self._values.values())
        self._needed = len(self._trace), self._values_bytes

    def asset(self, name: str, revision: int, mock: Any) -> int:
        """Return the id of an asset. Its first use records the step that opens it."""
        key = name, revision
        known = self._assets.get(key)
        if known is None:
            known = self.next_id()
            self.record(known, program.ASSET, [write_plain(name), str(revision)])
            self.shared.add(known, mock)
            self._differences[known] = NO_DIFFERENCE
            self._assets[key] = known  # after that: another thread may use it at once
        return known

    def forget_asset(self, name: str, revision: int) -> None:
        """Drop an asset that no pointer holds and that the peer no longer shares."""
        id_ = self._assets.pop((name, revision), None)
        if id_ is not None:
            self.shared.forget(id_)
            self._differences.pop(id_, None)
            self.drop(id_)

    def place(self, obj: object) -> int:
        """Record a copy of a value of this side, and return its id.

        Raises:
            UnsupportedValue: it cannot be encoded, or takes more than 64 MiB.
            OperationRefused: it is a mock of this duet, or a copy of one.
        """
        self.echoes.check(obj)
        encoded = values.encode(obj)
        if encoded.size_bytes > _MOST_VALUE_BYTES:
            raise UnsupportedValue(
                f"an argument of {encoded.size_bytes:,} bytes is over {_MOST_VALUE_BYTES:,}; "
                "give it to the owner with duet.send, who can share it"
            )
        id_ = self.next_id()
        self.echoes.own.add(id_)
        # copied: the object may change before it leaves
        content, summary = b"".join(encoded.segments), encoded.summary
        self.append(PlacedValue(id_, Value(content, summary.kind, summary.detail)))
        if getattr(obj, "requires_grad", False):  # an encoded tensor does not carry the flag
            self.record(0, ".requires_grad_", [f"[{id_}]"])
        return id_

    def call(
        self,
        operation: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Any:
        """Call `function` with the mocks of the arguments, record the step, and return pointers to it.

        Raises:
            OperationRefused: an argument cannot be sent.
            Exception: whatever `function` raises for the mocks; nothing is recorded then.
        """
        if operation == "numpy.where" and len(arguments) == 1 and not keywords:
            operation, function = "numpy.nonzero", self.allowed.function("numpy.nonzero").call
        taken = self.take(operation, arguments, keywords)
        arguments, keywords, theirs, theirs_by_name, encoded, encoded_by_name, settings = taken
        # within AsMocks, torch's operations on pointers act on the mocks and record no steps of their own
        with AsMocks():
            mock = self.run_on_mocks(operation, function, taken)
            if operation in SEEDS:  # torch's returns the generator of this process
                mock = None
            elif operation in IN_PLACE_OPERATORS:
                assert mock is theirs[0]
                mock = None
            if mock is None:
                hidden = PUBLIC
            elif isinstance(mock, Iterator):
                hidden = EVERY if is_counted(operation, theirs) else UNCOUNTED
            else:
                hidden = hidden_after(operation, arguments, keywords, theirs, mock, self.allowed)
            mock = finished(mock)
        draws = not may_draw(operation) or self._draws(operation, theirs, theirs_by_name)
        if mock is None and self._returns_nothing(operation, theirs):
            return self.record_no_result(operation, encoded, encoded_by_name, draws=draws, settings=settings)
        made = self.record_result(
            operation, encoded, encoded_by_name, mock, hidden, draws=draws, settings=settings
        )
        # the sizes of a tensor that was made of tensors and of plain arguments follow from theirs
        if is_tensor(mock) and any(
            has_pointers(argument) and not is_tensor(one)
            for argument, one in zip(
                (*arguments, *keywords.values()), (*theirs, *theirs_by_name.values()), strict=True
            )
        ):
            made._hidden |= self._difference_by_id(made._id, mock).hidden
        return made

    def take(self, operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> CheckedArguments:
        """Check and encode the arguments of an operation.

        All checks are made here: which arguments may be written into (`targets.py`), which values the
        allow-lists permit (`guards.py`), and which settings of libraries count (`modes.py`).
        Raises OperationRefused.
        """
        arguments = [self.counterpart(argument) for argument in arguments]
        check_targets(operation, arguments, keywords, self.allowed, self.shared)
        mocks = tuple(map(mock_of, arguments))
        if keywords:
            keywords = room_keywords(operation, mocks[0] if mocks else None, keywords)
            keywords = {name: self.counterpart(argument) for name, argument in keywords.items()}
        mocks_by_name = {name: mock_of(argument) for name, argument in keywords.items()}
        check(operation, mocks, mocks_by_name)
        settings = settings_here(operation, (*mocks, *mocks_by_name.values()))
        encoded = [self.encode(argument) for argument in arguments]
        encoded_by_name = {name: self.encode(argument) for name, argument in keywords.items()}
        return CheckedArguments(arguments, keywords, mocks, mocks_by_name, encoded, encoded_by_name, settings)

    def run_on_mocks(self, operation: str, function: Callable[..., Any], taken: CheckedArguments) -> Any:
        """Call `function` with the mocks of its arguments. The caller is within `AsMocks`.

        If the call uses the first random number since the notebook has set a seed, the seed is recorded.

        Raises:
            PrivateValue: the call fails on the mocks and may succeed on other data.
            Exception: whatever `function` raises for the mocks.
        """
        hidden_then(operation, taken.arguments, taken.keywords, taken.mocks)
        seed_here = _seed_of(operation, taken.mocks)
        seed = seed_here()
        try:
            mock = function(*taken.mocks, **taken.mocks_by_name)
        except KeyError as error:
            if (private := absent(operation, taken.arguments, taken.keywords, error)) is not None:
                raise private from error
            self._check_failure(operation, taken, error)
            raise
        except _OF_DATA as error:
            self._check_failure(operation, taken, error)
            raise
        if seed is not None and seed_here() is None:
            self.record(0, "torch.manual_seed", [str(seed)])
        return mock

    def _check_failure(self, operation: str, taken: CheckedArguments, error: Exception) -> None:
        """Raise PrivateValue if an operation that failed on the mocks succeeds on one of their mates."""
        if self.agreement is None or self._returns_nothing(operation, taken.mocks):
            return
        id_ = self.next_id()
        self.record(id_, operation, taken.encoded, taken.encoded_by_name, settings=taken.settings)
        try:
            if not self.agreement.succeeds_on_a_mate(self._canonical(id_)):
                return
        finally:
            self.drop(id_)
            self.drop_arguments()
        raise PrivateValue(
            f"{type(error).__name__} is the mock's, which is made up: {error}. With other data of the same "
            "kind the step succeeds, so that whether it fails depends on the data. Let the owner name the "
            "values that it needs, Mock(categories={column: [value, …]}), or ask for its input with "
            ".get(reason=…)"
        ) from error

    def _returns_nothing(self, operation: str, mocks: Sequence[Any]) -> bool:
        """Return True if the operation returns None for any data, not for these mocks only."""
        if operation in SEEDS or operation in IN_PLACE_OPERATORS:
            return True
        if operation[0] == ".":
            effect = self.allowed.method(type(mocks[0]), operation[1:])
        else:
            effect = self.allowed.function(operation).effect
        return effect in (IN_PLACE, BACKWARD)

    def _draws(self, operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
        """Return False if these arguments (a seed, an integer `random_state`) fix all random numbers."""
        if any(type(keywords.get(name)) is int for name in _SEEDS):
            return False
        target = arguments[0] if arguments else None
        if operation == "numpy.random.default_rng":
            return type(target) is not int
        if operation[0] != ".":
            return True
        if not self.allowed.draws(type(target), operation[1:]):
            return False
        if target is None or not hasattr(target, "get_params"):
            return True
        # an estimator, or one that holds others
        states = [value for name, value in target.get_params().items() if name.endswith("random_state")]
        return any(type(state) is not int for state in states)

    def record_result(
        self,
        operation: str,
        arguments: Sequence[str],
        keywords: Mapping[str, str],
        mock: Any,
        hidden: int = EVERY,
        *,
        draws: bool = True,
        settings: Settings = (),
    ) -> Any:
        """Record a step with a result, and return pointers to it.

        `mock` is the result on the mocks. It may be None (the maximum of no rows): the real result may still
        be a number. `hidden` is the bit mask of the sizes that depend on the data; for the rest see `record`.
        """
        id_ = self.next_id()
        self.record(id_, operation, arguments, keywords, draws=draws, settings=settings)
        self.drop_arguments()
        return self.wrap(mock, id_, hidden)

    def record_no_result(
        self,
        operation: str,
        arguments: Sequence[str],
        keywords: Mapping[str, str],
        *,
        draws: bool = True,
        settings: Settings = (),
    ) -> None:
        """Record a step that returns None for any data; for the parameters see `record`."""
        self.record(0, operation, arguments, keywords, draws=draws, settings=settings)
        self.drop_arguments()

    def wrap(self, mock: Any, id_: int, hidden: int = EVERY) -> Any:
        """Return a pointer to the result `id_`.

        A tuple or list becomes a tuple or list of pointers, one for each item, unless the number of items
        depends on the data; then it is one pointer.
        """
        maker = self._makers.get(type(mock))
        if type(mock) is list and hidden != UNCOUNTED and not any(map(is_tensor, mock)):
            hidden |= self._difference_by_id(id_, mock).hidden
        if hidden == UNCOUNTED and isinstance(mock, (tuple, list)):
            maker = None
        elif isinstance(mock, tuple) and maker is None:  # a named one
            maker = self._take_apart
        if maker is None:
            pointer = self._result(self, mock, id_)
            pointer._hidden = hidden
            return pointer
        return maker(mock, id_, hidden)

    def pointer_to_list(self, parts: Sequence[Any]) -> Any:
        """Return one pointer to a list or tuple of pointers, so that one request fetches all of them."""
        encoded, id_ = self.encode(parts), self.next_id()
        kind = "list" if isinstance(parts, list) else "tuple"
        self.record(id_, f"builtins.{kind}", [encoded])
        self.drop_arguments()
        pointer = self._result(self, mock_of(list(parts) if kind == "list" else tuple(parts)), id_)
        pointer._hidden = UNCOUNTED if hidden_in(parts) else PUBLIC
        return pointer

    def register_pointer_type(self, kind: type, maker: Callable[[Any, int, int], Any]) -> None:
        """Let pointers to objects of this type be made by `maker(mock, id, hidden)`."""
        self._makers[kind] = maker

    def register_reader(self, kind: type, reader: Callable[[Any], Any]) -> None:
        """Let arguments of this type be read by `reader(argument)`, which makes pointers of them."""
        self._readers[kind] = reader

    def _take_apart(self, mock: Any, id_: int, hidden: int) -> Any:
        parts: list[Any] = []
        # torch returns None for a part that was not requested, whatever the data are
        has_tensors = any(map(is_tensor, mock))
        for index, part in enumerate(mock):
            if part is None and has_tensors:
                parts.append(None)
                continue
            part_id = self.next_id()
            self.record(part_id, "operator.getitem", [f"[{id_}]", str(index)])
            if isinstance(part, (str, bytes)):
                part_hidden = EVERY
            elif hidden & NESTED:
                part_hidden = UNCOUNTED if isinstance(part, (list, tuple, dict)) else trimmed(UNCOUNTED, part)
            else:
                part_hidden = trimmed(hidden, part)
            parts.append(self.wrap(part, part_id, part_hidden))
        self.drop(id_)
        if hasattr(mock, "_fields"):  # a new type: some of SciPy's named tuples take more than their fields
            return namedtuple(type(mock).__name__, mock._fields)(*parts)  # noqa: PYI024 - fields of any type
        return type(mock)(parts)

    # -- arguments -------------------------------------------------------------------------------------------

    def counterpart(self, argument: Any) -> Any:
        """Replace each object of a library that holds only parameters by a pointer to its equal at the owner.

        Such objects are estimators, dtypes and Polars expressions. Other arguments are returned as they are.
        Raises as `call`.
        """
        kind = type(argument)
        if kind in PLAIN or hasattr(kind, "_is_remote"):
            return argument
        if kind is tuple or kind is list:
            parts = [self.counterpart(part) for part in argument]
            same = all(part is before for part, before in zip(parts, argument, strict=True))
            return argument if same else kind(parts)
        if kind is dict:
            by_key = {key: self.counterpart(part) for key, part in argument.items()}
            return by_key if any(by_key[key] is not part for key, part in argument.items()) else argument
        if kind in self._readers:
            return self._readers[kind](argument)
        recipe = recipe_of(argument)
        if recipe is None:
            return argument
        if library := library_of(kind):
            self.allowed.load(library)  # it may have been imported after the first operation
        name = self.allowed.name_of(recipe.make)
        if name is None:
            raise OperationRefused(
                f"{kind.__name__} is in no list of what may be made at the owner; do to the pointer what it "
                "does, or have a function that uses it reviewed, @duet.remote"
            )
        return self.call(name, recipe.make, recipe.arguments, recipe.keywords)

    def encode(self, argument: Any) -> str:
        """Encode an argument as the JSON text of a step. Raises OperationRefused."""
        kind = type(argument)
        if kind is float:
            return FLOATS.get(argument) or write_float(argument)
        if kind in PLAIN:
            return write_plain(argument)
        if hasattr(kind, "_is_remote"):
            if argument._program is not self:
                raise OperationRefused(
                    f"{argument!r} belongs to another duet; results of two owners meet here, after get()"
                )
            return f"[{argument._id}]"
        if isinstance(argument, (tuple, list)) and kind.__module__ != "numpy":
            return self._tagged("l" if isinstance(argument, list) else "t", argument)
        if kind is slice:
            return self._tagged("s", (argument.start, argument.stop, argument.step))
        if kind is dict:
            return self._tagged("d", (part for pair in argument.items() for part in pair))
        if argument is Ellipsis:
            return self._tagged("e", ())
        if kind is complex:
            return self._tagged("z", (argument.real, argument.imag))
        if kind.__name__ == "device" and kind.__module__ == "torch":
            return write_plain(str(argument))  # the guards know texts of devices
        if (name := self.allowed.constant_name(argument)) is not None:
            return self._tagged("c", (name,))
        if (name := self.allowed.name_of(argument)) is not None:
            return self._tagged("f", (name,))
        if kind.__module__ == "numpy.dtypes" and argument.kind in _TEXT_DTYPES:
            return write_plain(argument.str)
        if callable(argument):
            raise OperationRefused(
                f"the function {getattr(argument, '__name__', argument)!r} cannot be part of an operation; "
                "have the owner review it as a whole: @duet.remote"
            )
        if getattr(argument, "requires_grad", False) is True and sys.modules["torch"].is_grad_enabled():
            raise OperationRefused(
                "a tensor of this side that gathers gradients was given together with data at the owner: its "
                "gradients would be those of the mock. Place it first: model = duet.remote(model), or "
                "w = duet.remote(w.detach()).requires_grad_()"
            )
        try:
            id_ = self.place(argument)
            self._arguments.ids.append(id_)
            return f"[{id_}]"
        except UnsupportedValue as error:
            if library := library_of(kind):
                self.allowed.load(library)
            raise refuse(argument, str(error), self.allowed.name_of(kind)) from error

    def drop_arguments(self) -> None:
        """Drop the values that were placed for the step just recorded: no pointer refers to them."""
        ids = self._arguments.ids
        while ids:
            id_ = ids.pop()
            self.drop(id_)
            self.echoes.own.discard(id_)

    def _tagged(self, tag: str, parts: Iterable[Any]) -> str:
        return ",".join((f'["{tag}"', *map(self.encode, parts))) + "]"

    def end(self, check_open: Callable[[], None]) -> None:
        """Stop recording because the duet is closed. `check_open` raises the reason."""
        self.ended = True
        self._check_open = check_open
        self.steps, self.drop, self.alarm = _Ended(self), _forget, 0

    def check_open(self) -> None:
        """Raise LinkClosed if the duet is closed."""
        self._check_open()


class _Ended(list[Step]):
    """Replaces the list of steps of a closed program: appending raises LinkClosed."""

    def __init__(self, ended: Program) -> None:
        super().__init__()
        self._program = ended

    def append(self, step: Step) -> None:
        self._program.check_open()


_heads: dict[str, str] = {}  # the constant part of a step's text, by operation
FLOATS: dict[float, str] = {}  # a cache: JSON texts of floats that were written before
_MOST_FLOATS = 1000


def write_float(number: float) -> str:
    """Encode a float like `write_plain`, and cache its text in FLOATS."""
    text = write_plain(number)
    if number and len(FLOATS) < _MOST_FLOATS:  # 0.0 and -0.0 are one key
        FLOATS[number] = text
    return text


def _forget(id_: int) -> None:
    """Ignore a dropped id: a closed program holds no results."""


def _seed_of(operation: str, mocks: Sequence[Any]) -> Callable[[], int | None]:
    """Return the function that reads the seed of the generator (NumPy's or torch's) that `operation` uses."""
    if not may_draw(operation):
        return _no_seed
    of_torch = operation.startswith("torch.") or any(map(is_tensor, mocks))
    return torch_seed if of_torch else numpy_seed


def _no_seed() -> None:
    return None


def is_remote(obj: Any) -> bool:
    """Return True for pointers that operations can use (`Remote` and its subclasses, tensor pointers)."""
    return hasattr(type(obj), "_is_remote")


def mock_of(argument: Any) -> Any:
    """Replace pointers by their mocks, also inside tuples, lists, dicts and slices."""
    kind = type(argument)
    if kind in PLAIN:
        return argument
    if hasattr(kind, "_is_remote"):
        return argument._mock
    if kind is tuple or kind is list:
        return kind(map(mock_of, argument))
    if kind is dict:
        return {mock_of(key): mock_of(item) for key, item in argument.items()}
    if kind is slice:
        return slice(mock_of(argument.start), mock_of(argument.stop), mock_of(argument.step))
    return argument
