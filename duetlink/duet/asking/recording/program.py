"""What one side records of the work that the other is to do: steps, on the thread that makes them.

Theory. An operation on a pointer happens at once, on mocks, and leaves a step behind. Nothing of it leaves
this side before a result is asked for; then the steps that made it go along with the request. Recording must
cost little beside the operation itself, a microsecond or so: a step is written as the JSON that it will be,
and appended to a list by a single bytecode, so that threads need no lock. When there are many, the thread
that records the next one reads them into the trace (`compute/operations/steps/trace.py`), and lets go of
all that no pointer needs any more.

Ids only grow. A pointer that dies leaves its id behind among the steps: all that was recorded with it comes
before.
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
from duetlink.compute.operations.sizes.mask import EVERY, NESTED, PUBLIC, UNCOUNTED, hidden_in, trimmed
from duetlink.compute.operations.steps import program
from duetlink.compute.operations.steps.effects import may_draw, worst_effect
from duetlink.compute.operations.steps.finished import finished
from duetlink.compute.operations.steps.program import SEEDS
from duetlink.compute.operations.steps.trace import LoggedValue, Trace
from duetlink.data import values
from duetlink.duet.asking.mocks.absent import absent
from duetlink.duet.asking.mocks.agreement import ALIKE, Mates, Unlike
from duetlink.duet.asking.mocks.echoes import Echoes
from duetlink.duet.asking.mocks.mock_tensors import AsMocks, is_tensor
from duetlink.duet.asking.recording.iteration import is_counted
from duetlink.duet.asking.recording.modes import settings_here
from duetlink.duet.asking.recording.recipe import library_of, recipe_of, refuse
from duetlink.duet.asking.recording.seeds import numpy_seed, torch_seed
from duetlink.duet.asking.recording.targets import IN_PLACE_OPERATORS, SharedMemory, check_targets
from duetlink.duet.asking.recording.terms import in_terms_of_the_worker
from duetlink.errors import OperationRefused, PrivateValue, UnsupportedValue

if TYPE_CHECKING:
    from duetlink.duet.asking.requests.asking import What
    from duetlink.duet.asking.requests.pending_request import PendingRequest

_OF_DATA = (IndexError, ValueError, ArithmeticError)  # what a library raises where values are not as it needs
MOST_STEPS = 4096  # that are not in the trace yet
_MOST_UNLIKE = 100_000  # results whose mates were asked that are remembered
_COMPACT_STEPS = 200_000  # beyond twice as many as were needed the last time
_COMPACT_BYTES = 256 * 1024 * 1024  # the same, of values
write_plain = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
PLAIN = frozenset((int, float, bool, str, type(None)))  # which JSON has as well
_SEEDS = ("random_state", "seed")
_TEXT_DTYPES = frozenset("biufcSUmM")  # kinds of items whose dtype is as good by its text, such as <M8[s]
# of one argument; larger objects are placed by duet.remote, and share memory
_MOST_VALUE_BYTES = 64 * 1024 * 1024


class Placed(NamedTuple):
    """The step that places a value of this side's."""

    id: int
    value: Value


class Taken(NamedTuple):
    """The arguments of an operation, once they are checked: with pointers, with mocks in place of these, and
    as they are written in a step.
    """

    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    mocks: tuple[Any, ...]
    mocks_by_name: dict[str, Any]
    encoded: list[str]
    encoded_by_name: dict[str, str]
    settings: Settings


Step = str | Placed | int  # an id: this result is not needed any more
Ask = Callable[[Any, str, "float | None", "What"], "PendingRequest"]
MakeResult = Callable[["Program", Any, int], Any]


class _Arguments(threading.local):
    """Values that a thread has placed as arguments of the step that it is about to record."""

    def __init__(self) -> None:
        self.ids: list[int] = []


class Program:
    """All that is recorded in one duet, from its first step until the link ends."""

    def __init__(self, allowed: Allowed, ask: Ask, result: MakeResult) -> None:
        """`ask` makes a request for a result, from a pointer, a reason, after how many seconds it expires,
        and what of it is asked for. `result` makes a pointer to a result, from this program, a mock and an
        id.
        """
        self.allowed = allowed
        self.ask = ask
        self._result = result
        self.steps: list[Step] = []
        self.drop: Callable[[int], None] = self.steps.append
        self.alarm = MOST_STEPS  # the result with which `notice` is to be called
        self.next_id = itertools.count(1).__next__
        self._reading = threading.Lock()
        self._trace = Trace(worst_effect, may_learn=False)
        self._values: dict[str, Value] = {}  # by their digests
        self._values_bytes = 0
        self._has_let_go = False  # of steps
        self._needed = (0, 0)  # steps and bytes of values, when they were last looked through
        self._assets: dict[tuple[str, int], int] = {}
        self._makers: dict[type, Callable[[Any, int, int], Any]] = {
            tuple: self._take_apart,
            list: self._take_apart,
        }
        self._readers: dict[type, Callable[[Any], Any]] = {}
        self._gradients = True  # whether torch records them, in the step that was recorded last
        self._recording = threading.Lock()
        self.echoes = Echoes()
        self.shared = SharedMemory()
        self.agreement: Mates | None = None  # None: the rules alone tell which sizes are private
        self._unlike: dict[int, Unlike] = {}  # of results whose mates were asked
        self._arguments = _Arguments()
        self.ended = False
        self.has_stand_ins = False  # the mock of some result is not what its steps make of mocks
        self._check_open: Callable[[], None] = lambda: None

    # -- recording -------------------------------------------------------------------------------------------

    def append(self, step: Step) -> None:
        """Record a step."""
        self.steps.append(step)
        if len(self.steps) >= MOST_STEPS:
            self.notice()

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
        """Record a step whose arguments are written already. With `draws` false it draws no random numbers,
        though others of its name may. `settings` are those of libraries that it depends on.
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

    def notice(self) -> None:
        """Many steps may be there that are not in the trace."""
        self.alarm = self.next_id() + MOST_STEPS  # no result has that id
        if len(self.steps) >= MOST_STEPS and not self.ended:
            with self._reading:
                self._read()

    def asked(self, id_: int) -> Canonical:
        """The program that makes a result, by all that is recorded by now.

        Raises:
            OperationRefused: labels that this side has of a mock were given a name.
            LimitExceeded: what this session's results are made by takes too much memory.
            LookupError: no step makes it.
            LinkClosed: the duet is closed.
        """
        self.echoes.check_lent()
        return self._made_by(id_)

    def unlike(self, remote: Any) -> Unlike:
        """How a result differs between its mock and the mates. What is said once is said again, whatever is
        written into it later.
        """
        if is_tensor(
            remote._mock
        ):  # torch's sizes follow from sizes, and it was asked about when it was made
            return self._unlike.get(remote._id, ALIKE)
        return self._unlike_by_id(remote._id, remote._mock)

    def _unlike_by_id(self, id_: int, mock: Any) -> Unlike:
        found = self._unlike.get(id_)
        if found is None:
            found = ALIKE
            if self.agreement is not None and id_ not in self.echoes.own and not self.ended:
                found = self.agreement.unlike(self._made_by(id_), mock)
            if len(self._unlike) >= _MOST_UNLIKE:
                self._unlike.clear()  # they are asked about once more
            self._unlike[id_] = found
        return found

    def _made_by(self, id_: int) -> Canonical:
        """What makes a result, by all that is recorded by now. Raises as `asked`."""
        with self._reading:
            self.check_open()
            self._read()
            return Canonical.recorded(self._trace, id_, self._values)

    def holds_more_than(self, program: Canonical) -> bool:
        """Whether anything else was recorded than what this one does."""
        with self._reading:
            self._read()
            return self._has_let_go or self._trace.done > len(program.slice)

    def _read(self) -> None:
        """Put all that is recorded by now into the trace."""
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

    def _put_value(self, placed: Placed) -> None:
        value = placed.value
        digest = hashlib.sha256(value.content).hexdigest()
        self._values[digest] = value
        self._values_bytes += len(value.content)
        words = f"{value.kind} {value.detail}".strip()
        self._trace.add([[placed.id, program.VALUE, [0]]], [LoggedValue(words, digest)])

    def _compact(self) -> None:
        """Let go of the steps and values that no pointer needs any more."""
        before = self._trace.done
        self._trace = compacted(self._trace)
        self._has_let_go |= self._trace.done < before
        self._values = {value.digest: self._values[value.digest] for value in self._trace.values.values()}
        self._values_bytes = sum(len(value.content) for value in self._values.values())
        self._needed = len(self._trace), self._values_bytes

    def asset(self, name: str, revision: int, mock: Any) -> int:
        """The id of an asset; it is opened by a step when it is used for the first time."""
        key = name, revision
        known = self._assets.get(key)
        if known is None:
            known = self.next_id()
            self.record(known, program.ASSET, [write_plain(name), str(revision)])
            self.shared.add(known, mock)
            self._unlike[known] = ALIKE
            self._assets[key] = known  # after that: another thread may use it at once
        return known

    def forget_asset(self, name: str, revision: int) -> None:
        """No pointer to it is left, and it is not shared any more."""
        id_ = self._assets.pop((name, revision), None)
        if id_ is not None:
            self.shared.forget(id_)
            self._unlike.pop(id_, None)
            self.drop(id_)

    def place(self, obj: object) -> int:
        """Record a value of this side's, as it is now; returns its id. Raises UnsupportedValue."""
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
        self.append(Placed(id_, Value(content, summary.kind, summary.detail)))
        if getattr(obj, "requires_grad", False):  # which values lose at the owner
            self.record(0, ".requires_grad_", [f"[{id_}]"])
        return id_

    def call(
        self,
        operation: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Any:
        """Do `function` with the mocks of what is given, and record it. Returns pointers for its result.

        Raises:
            OperationRefused: an argument cannot be sent.
            Exception: whatever `function` raises for the mocks; nothing is recorded then.
        """
        if operation == "numpy.where" and len(arguments) == 1 and not keywords:
            operation, function = "numpy.nonzero", self.allowed.function("numpy.nonzero").call
        taken = self.take(operation, arguments, keywords)
        arguments, keywords, theirs, theirs_by_name, encoded, encoded_by_name, settings = taken
        # what is done to a tensor's pointer within is done to its mock, and is no step of its own
        with AsMocks():
            mock = self.done_to_mocks(operation, function, taken)
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
            return self.done(operation, encoded, encoded_by_name, draws=draws, settings=settings)
        made = self.made(operation, encoded, encoded_by_name, mock, hidden, draws=draws, settings=settings)
        if is_tensor(mock) and not all(map(is_tensor, theirs)):
            made._hidden |= self._unlike_by_id(made._id, mock).hidden
        return made

    def take(self, operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Taken:
        """Take apart what an operation is given. The one place where it is checked: what may be written into,
        what is allowed, and under which settings. Raises OperationRefused.
        """
        arguments = [self.counterpart(argument) for argument in arguments]
        check_targets(operation, arguments, keywords, self.allowed, self.shared)
        mocks = tuple(map(mock_of, arguments))
        if keywords:
            keywords = in_terms_of_the_worker(operation, mocks[0] if mocks else None, keywords)
            keywords = {name: self.counterpart(argument) for name, argument in keywords.items()}
        mocks_by_name = {name: mock_of(argument) for name, argument in keywords.items()}
        check(operation, mocks, mocks_by_name)
        settings = settings_here(operation, (*mocks, *mocks_by_name.values()))
        encoded = [self.encode(argument) for argument in arguments]
        encoded_by_name = {name: self.encode(argument) for name, argument in keywords.items()}
        return Taken(arguments, keywords, mocks, mocks_by_name, encoded, encoded_by_name, settings)

    def done_to_mocks(self, operation: str, function: Callable[..., Any], taken: Taken) -> Any:
        """What `function` makes of mocks, to be called within AsMocks. Where it takes the first random number
        since the notebook has set a seed, that seed is recorded.
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

    def _check_failure(self, operation: str, taken: Taken, error: Exception) -> None:
        """Raise PrivateValue where what has failed on the mocks can be done on their mates."""
        if self.agreement is None or self._returns_nothing(operation, taken.mocks):
            return
        id_ = self.next_id()
        self.record(id_, operation, taken.encoded, taken.encoded_by_name, settings=taken.settings)
        try:
            if not self.agreement.fails_alone(self._made_by(id_)):
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
        """Whether an operation, which has returned None for mocks, does so for any data."""
        if operation in SEEDS or operation in IN_PLACE_OPERATORS:
            return True
        if operation[0] == ".":
            effect = self.allowed.method(type(mocks[0]), operation[1:])
        else:
            effect = self.allowed.function(operation).effect
        return effect in (IN_PLACE, BACKWARD)

    def _draws(self, operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
        """Whether an operation that may draw random numbers may draw any of these."""
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

    def made(
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
        """Record a step that made `mock` here; returns pointers for its result, also where `mock` is None, as
        the maximum of no rows is: the real result may be a number. `hidden` is the mask of its sizes; for
        the rest see `record`.
        """
        id_ = self.next_id()
        self.record(id_, operation, arguments, keywords, draws=draws, settings=settings)
        self.drop_arguments()
        return self.wrap(mock, id_, hidden)

    def done(
        self,
        operation: str,
        arguments: Sequence[str],
        keywords: Mapping[str, str],
        *,
        draws: bool = True,
        settings: Settings = (),
    ) -> None:
        """Record a step that returns nothing, whatever the data are; for the rest see `record`."""
        self.record(0, operation, arguments, keywords, draws=draws, settings=settings)
        self.drop_arguments()

    def wrap(self, mock: Any, id_: int, hidden: int = EVERY) -> Any:
        """A pointer to the result `id_`, whose mock is `mock`; of a tuple or list, one for each item, unless
        how many there are depends on the data.
        """
        maker = self._makers.get(type(mock))
        if type(mock) is list and hidden != UNCOUNTED and not any(map(is_tensor, mock)):
            hidden |= self._unlike_by_id(id_, mock).hidden
        if hidden == UNCOUNTED and isinstance(mock, (tuple, list)):
            maker = None
        elif isinstance(mock, tuple) and maker is None:  # a named one
            maker = self._take_apart
        if maker is None:
            pointer = self._result(self, mock, id_)
            pointer._hidden = hidden
            return pointer
        return maker(mock, id_, hidden)

    def held(self, parts: Sequence[Any]) -> Any:
        """One pointer to a list or tuple of pointers, to be asked for as a whole."""
        encoded, id_ = self.encode(parts), self.next_id()
        kind = "list" if isinstance(parts, list) else "tuple"
        self.record(id_, f"builtins.{kind}", [encoded])
        self.drop_arguments()
        pointer = self._result(self, mock_of(list(parts) if kind == "list" else tuple(parts)), id_)
        pointer._hidden = UNCOUNTED if hidden_in(parts) else PUBLIC
        return pointer

    def makes(self, kind: type, maker: Callable[[Any, int, int], Any]) -> None:
        """Let pointers to objects of this type be made by `maker(mock, id, hidden)`."""
        self._makers[kind] = maker

    def reads(self, kind: type, reader: Callable[[Any], Any]) -> None:
        """Let arguments of this type be read by `reader(argument)`, which makes pointers of them."""
        self._readers[kind] = reader

    def _take_apart(self, mock: Any, id_: int, hidden: int) -> Any:
        parts: list[Any] = []
        # torch leaves out a part by what it is asked for, not by the data
        has_tensors = any(map(is_tensor, mock))
        for index, part in enumerate(mock):
            if part is None and has_tensors:
                parts.append(None)
                continue
            part_id = self.next_id()
            self.record(part_id, "operator.getitem", [f"[{id_}]", str(index)])
            if isinstance(part, (str, bytes)):
                of_part = EVERY
            elif hidden & NESTED:
                of_part = UNCOUNTED if isinstance(part, (list, tuple, dict)) else trimmed(UNCOUNTED, part)
            else:
                of_part = trimmed(hidden, part)
            parts.append(self.wrap(part, part_id, of_part))
        self.drop(id_)
        if hasattr(mock, "_fields"):  # of its own type are not all: SciPy's take more than their fields
            return namedtuple(type(mock).__name__, mock._fields)(*parts)  # noqa: PYI024 - fields of any type
        return type(mock)(parts)

    # -- arguments -------------------------------------------------------------------------------------------

    def counterpart(self, argument: Any) -> Any:
        """An argument, with a pointer in place of each object of a library that holds parameters alone, such
        as an estimator or a Polars expression. Raises as `call`.
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
        """An argument as it is written in a step. Raises OperationRefused."""
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
        """The step is recorded for which values of this side's were placed: no pointer leads to them."""
        ids = self._arguments.ids
        while ids:
            id_ = ids.pop()
            self.drop(id_)
            self.echoes.own.discard(id_)

    def _tagged(self, tag: str, parts: Iterable[Any]) -> str:
        return ",".join((f'["{tag}"', *map(self.encode, parts))) + "]"

    def end(self, check_open: Callable[[], None]) -> None:
        """Record nothing any more: the duet is closed, as `check_open` says by what it raises."""
        self.ended = True
        self._check_open = check_open
        self.steps, self.drop, self.alarm = _Ended(self), _forget, 0

    def check_open(self) -> None:
        """Raise LinkClosed where the duet is closed."""
        self._check_open()


class _Ended(list[Step]):
    """Takes the place of a program's steps: the next operation says why."""

    def __init__(self, ended: Program) -> None:
        super().__init__()
        self._program = ended

    def append(self, step: Step) -> None:
        self._program.check_open()


_heads: dict[str, str] = {}  # of steps, by their operation
FLOATS: dict[float, str] = {}  # as they are written, of those that come again and again
_MOST_FLOATS = 1000


def write_float(number: float) -> str:
    """As `write_plain` does; from then on it is among FLOATS."""
    text = write_plain(number)
    if number and len(FLOATS) < _MOST_FLOATS:  # 0.0 and -0.0 are one key
        FLOATS[number] = text
    return text


def _forget(id_: int) -> None:
    """What has ended holds no results."""


def _seed_of(operation: str, mocks: Sequence[Any]) -> Callable[[], int | None]:
    """What tells the seed of the generator of this process from which an operation may draw."""
    if not may_draw(operation):
        return _no_seed
    of_torch = operation.startswith("torch.") or any(map(is_tensor, mocks))
    return torch_seed if of_torch else numpy_seed


def _no_seed() -> None:
    return None


def is_remote(obj: Any) -> bool:
    """Whether it is a pointer that operations can be done with."""
    return hasattr(type(obj), "_is_remote")


def mock_of(argument: Any) -> Any:
    """What stands for an argument here: a pointer's mock, also within containers."""
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
