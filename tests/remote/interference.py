"""Non-interference, tried by machine: two owners with data of the same schema and other values are asked for
results of the same hostile program, and whatever comes of one must be the same at both, bit for bit, but for
the objects that it names.

Theory (Goguen and Meseguer 1982): the outcome of a request may depend on the private data only by way of the
assets that its program names, and a failure, with its place and its words, is part of the outcome. Programs
are drawn at random from the real lists, and steered to where leaks were found: private data written through
views, objects of many classes chosen by a private number, refused operations, wrong arguments, generators
drawn from as often as a private number says. For each result that is asked for, its program is cut out by the
real lists and run in a fresh desk. In between all steps are run, on the data of one owner and then of the
other: what stays of that in the process must reach no other desk. So this is harder than what rooms do, of
which each is a process of its own.

Run as a module it tries seeds in a process of its own, which has limits of memory and time:

    python -m tests.remote.interference rooms FIRST_SEED NUMBER
    python -m tests.remote.interference lists FIRST NUMBER

The second form has each listed operation that may write, or may give back what it got, listed as if it did
neither: see `WrongLists`.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import random
import re
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LinearRegression

from duetlink.compute.operations.allow_lists.allowed import (
    AGGREGATE,
    EFFECTS,
    ELEMENTWISE,
    LIBRARIES,
    read_list,
)
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.data import values
from tests.remote.hostile import Room, Sliced, Step, allowed, numbered, slice_of

ASSETS = ("x", "ints", "frame", "name", "tensor", "number", "texts")
OPENED = range(1, len(ASSETS) + 1)  # their numbers, as the tables below have them
_MEMORY_BYTES = 6 * 1024**3
_RUN_S = 2.0  # after which a room is ended
_HUNG_S = 120.0  # after which this process ends, as its programs hang

Arg = Any


def data(number: int) -> dict[str, Any]:
    """What owner 0 or 1 shares: the same names, types, shapes and sizes."""
    draw = np.random.default_rng(number)
    x = draw.uniform(1, 50, 8)
    names = [["Ada Lovelace", "Bob", "Cyd", "Dot"], ["Eva Hamilton", "Fay", "Gus", "Hal"]][number]
    frame = pd.DataFrame(
        {
            "who": draw.permutation(names * 2),
            "age": x,
            "group": draw.permutation(["u", "v"] * 4),
            "flag": draw.permutation([True, False] * 4),
            "n": draw.integers(0, 8, 8),
        }
    )
    return {
        "x": x,
        "ints": draw.integers(0, 8, 8),
        "frame": frame,
        "name": names[0],
        "tensor": torch.tensor(draw.uniform(-3, 3, 6)),
        "number": int(draw.integers(0, 8)),
        "texts": draw.permutation(names * 2).tolist(),
    }


@functools.cache
def encoded(number: int) -> dict[str, values.Encoded]:
    """The same as values that travel."""
    return {name: values.encode(value) for name, value in data(number).items()}


# -- programs ------------------------------------------------------------------------------------------------


@functools.cache
def functions() -> dict[str, list[str]]:
    """All listed functions, by library."""
    found = {}
    for library in LIBRARIES:
        listed = read_list(library)
        prefix = f"{listed['module']}." if listed["module"] else ""
        found[library] = [f"{prefix}{name}" for names in listed["functions"].values() for name in names]
    return found


@functools.cache
def members() -> tuple[list[str], list[str]]:
    """All listed methods and attributes, as operations."""
    methods: set[str] = set()
    attributes: set[str] = set()
    for library in LIBRARIES:
        for lists in read_list(library).get("classes", {}).values():
            for name, names in lists.items():
                if name in ("attributes", "metadata"):
                    attributes.update(f"@{each}" for each in names)
                elif name == "settable":
                    attributes.update(f"@={each}" for each in names)
                elif name != "random":
                    methods.update(f".{each}" for each in names)
    return sorted(methods), sorted(attributes)


@functools.cache
def guarded() -> tuple[str, ...]:
    """The keywords that the guards refuse with some arguments."""
    return tuple(sorted({name for table in read_list("guards")["refused"] for name in table["keywords"]}))


@functools.cache
def methods_of(kind: str) -> list[str]:
    """The listed methods of one class, such as `numpy.ndarray`, as operations."""
    library, _, name = kind.rpartition(".")
    lists = read_list(library or "python")["classes"]["builtins." + name if not library else name]
    return sorted(f".{each}" for effect in EFFECTS for each in lists.get(effect, ()))


_WEIGHTS = {
    "python": 30,
    "numpy": 24,
    "pandas": 12,
    "torch": 12,
    "polars": 8,
    "scipy": 5,
    "sklearn": 3,
    "statsmodels": 2,
}
_FITTING = {  # assets that a library's functions are made for, and the classes of those
    "python": (1, 2, 4, 6, 7),
    "numpy": (1, 2),
    "pandas": (3, 7),
    "torch": (5,),
    "polars": (7, 4),
    "scipy": (1, 2),
    "sklearn": (1, 2),
    "statsmodels": (1, 2),
}
_KINDS = {1: "numpy.ndarray", 2: "numpy.ndarray", 3: "pandas.DataFrame", 4: "str", 5: "torch.Tensor"}
_NUMBERS: list[Any] = [-1, 0, 1, 2, 3, 5, 8, 64, 0.5, -1.0, 1e308, True, False, None]
_TEXTS = [
    "age",
    "who",
    "group",
    "n",
    "mean",
    "sum",
    "O",
    "float64",
    "dateutil/x",
    "cpu",
    "cuda",
    "a",
    "",
    "u",
]
_KEYWORDS = ("axis", "key", "by", "ascending", "ord", "weights", "keepdims", "where", "tz", "columns", "bins")
_CLASSES = (  # whose objects differ, to be chosen from by a private number
    *("sklearn.svm.SVC", "sklearn.linear_model.Ridge", "sklearn.linear_model.Lasso", "torch.nn.Tanh"),
    *("torch.nn.ReLU", "sklearn.cluster.KMeans", "sklearn.preprocessing.StandardScaler", "torch.nn.Sigmoid"),
)
_ALL: Arg = ["s", None, None, None]


@dataclass
class Program:
    """Steps, and the results that are asked for after them."""

    steps: list[Step]
    asked: list[int]


class Writer:
    """Draws one program. Its results have numbers above `first_id`; `opened` are those of the assets."""

    def __init__(self, seed: int, first_id: int, opened: Sequence[int] = OPENED) -> None:
        self.rng = random.Random(seed)
        self._next = first_id
        self._opened = dict(zip(OPENED, opened, strict=True))
        self.pool = list(opened)

    def program(self) -> Program:
        steps: list[Step] = []
        while len(steps) < 6:
            steps += self.rng.choices(
                (self._any, self._view, self._zoo, self._scalar, self._write, self._bit, self._draw),
                (24, 4, 2, 4, 4, 1, 2),
            )[0]()
        made = self.pool[len(ASSETS) :] or self.pool
        return Program(steps, [self.rng.choice(made), self.rng.choice(self.pool)])

    def _id(self) -> int:
        self._next += 1
        self.pool.append(self._next)
        return self._next

    def _any(self) -> list[Step]:
        """One operation of the lists, or one that is in none."""
        rng = self.rng
        methods, attributes = members()
        kind = rng.random()
        target = rng.choice(self.pool[-3:] if rng.random() < 0.5 else self.pool)
        if kind < 0.5:
            library = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            operation = rng.choice(functions()[library])
            target = rng.choice((*(self._opened[asset] for asset in _FITTING[library]), target))
        elif kind < 0.7:
            asset = rng.choice(list(_KINDS))
            target = self._opened[asset]
            operation = rng.choice(methods_of(_KINDS[asset]))
        elif kind < 0.8:
            operation = rng.choice(methods)
        elif kind < 0.93:
            operation = rng.choice(attributes)
        else:
            operation = rng.choice([".nope", "@nope", "@=nope", "nope", "numpy.save", ".__class__", "@dtype"])
        count = 2 if operation.startswith("@=") else 1 if operation[0] == "@" else rng.choice((1, 1, 1, 2, 3))
        arguments = [self._argument(0) for _ in range(count)]
        if operation[0] in ".@" or rng.random() < 0.7:
            arguments[0] = [target]
        result = 0 if rng.random() < 0.1 else self._id()
        step: Step = [result, operation, arguments]
        if rng.random() < 0.3:
            step.append({rng.choice(rng.choice((_KEYWORDS, guarded()))): self._argument(0)})
        return [step]

    def _view(self) -> list[Step]:
        """Private data in the peer's own array, looked at through a view that was made before."""
        own, view, out = self._id(), self._id(), self._id()
        made: Step = self.rng.choice(
            [
                [own, "numpy.zeros", [8]],
                [own, "torch.zeros", [6]],
                [own, "numpy.array", [["l", *["x" * 12] * 8]]],
            ]
        )
        write = ".copy_" if made[1] == "torch.zeros" else "numpy.copyto"
        seen: Step = self.rng.choice(
            [
                [view, "operator.getitem", [[own], _ALL]],
                [view, ".reshape", [[own], -1]],
                [view, ".view", [[own], -1]],
            ]
        )
        part: Step = [out, "operator.getitem", [[view], self.rng.randrange(6)]]
        steps = [made, seen, [0, write, [[own], [self.rng.choice(self.pool[: len(ASSETS)])]]], part]
        return steps if self.rng.random() < 0.5 else [*steps, [self._id(), ".item", [[out]]]]

    def _zoo(self) -> list[Step]:
        """An object whose class a private number chooses."""
        steps: list[Step] = []
        kept = []
        for name in self.rng.sample(_CLASSES, 3):
            kept.append(self._id())
            steps.append([kept[-1], name, []])
        zoo, number, chosen = self._id(), self._id(), self._id()
        return [
            *steps,
            [zoo, "builtins.list", [["l", *([one] for one in kept)]]],
            [number, "operator.mod", [[self._opened[6]], len(kept)]],
            [chosen, "operator.getitem", [[zoo], [number]]],
        ]

    def _scalar(self) -> list[Step]:
        """A private number or text as a plain value, to be an argument of what comes next."""
        part, value = self._id(), self._id()
        source = [self._opened[self.rng.choice((1, 2, 5, 7))]]
        return [[part, "operator.getitem", [source, self.rng.randrange(6)]], [value, ".item", [[part]]]]

    def _bit(self) -> list[Step]:
        """A step that fails where a bit of a private number is set, as SECURITY.md says that one may."""
        bit, out = self._id(), self._id()
        return [[bit, "operator.and_", [[self._opened[6]], 1]], [out, "operator.getitem", [["l", 0], [bit]]]]

    def _draw(self) -> list[Step]:
        """Random numbers, drawn as often as a private number says, by what says so and by what does not."""
        first, number, last = self._id(), self._opened[6], self._id()
        hidden: list[Step] = self.rng.choice(
            [
                [[first, "torch.rand", [[number]]]],
                [[first, "sklearn.utils.shuffle", [[self._opened[2]]]]],
                [
                    [first, "numpy.random.default_rng", [1]],
                    [0, ".sample", [[self._opened[3]]], {"n": [number], "random_state": [first]}],
                ],
                [[first, "numpy.random.default_rng", []], [0, ".normal", [[first]], {"size": [number]}]],
                [
                    [first, "sklearn.dummy.DummyClassifier", [], {"strategy": "uniform"}],
                    [0, ".fit", [[first], [self._opened[2]], [self._opened[2]]]],
                    [0, ".predict", [[first], [self._opened[2]]]],
                ],
            ]
        )
        drawn: Step = self.rng.choice(
            [
                [last, "sklearn.utils.shuffle", [["l", *range(12)]]],
                [last, "torch.rand", [3]],
                [last, ".random", [[first]]],
                [last, "torch.nn.Linear", [2, 2]],
            ]
        )
        return [*hidden, drawn]

    def _write(self) -> list[Step]:
        """Private data put into something, in place."""
        target = [self.rng.choice(self.pool)]
        return [[0, "operator.setitem", [target, self._argument(0), [self.rng.choice(self.pool)]]]]

    def _argument(self, depth: int) -> Arg:
        rng = self.rng
        kind = rng.random()
        if kind < 0.6:
            # what was made last is used most
            return [rng.choice(self.pool[-4:] if rng.random() < 0.6 else self.pool)]
        if kind < 0.75:
            return rng.choice(_NUMBERS)
        if kind < 0.85:
            return rng.choice(_TEXTS)
        if kind < 0.87:
            return ["s", rng.choice((None, 0, 1)), rng.choice((None, 3, -1)), rng.choice((None, 1, 2))]
        if kind < 0.89:
            return ["f", rng.choice(functions()["numpy"])]
        if kind < 0.91:
            return ["c", rng.choice(("numpy.float32", "numpy.int64", "torch.float32", "numpy.nan"))]
        if depth > 1:
            return 1
        parts = [self._argument(depth + 1) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        if rng.random() < 0.2:
            return ["d", *(part for value in parts for part in (rng.choice(_TEXTS), value))]
        return [rng.choice("tl"), *parts]


# -- two owners ----------------------------------------------------------------------------------------------

Run = Callable[[Mapping[str, Any], Sliced], bytes]
_OPENED: list[Step] = [[id_, "asset", [name, 1]] for id_, name in enumerate(ASSETS, 1)]
_ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")  # of an object, in words


class Late(BaseException):
    """A program takes too long: no outcome of it is compared. No Exception, so that no step has it."""


class Interference(AssertionError):
    """One request has had two outcomes."""


def outcome(assets: Mapping[str, Any], sliced: Sliced) -> bytes:
    """All that comes out of a room. Raises Late."""
    with _Alarm():
        return _ADDRESS.sub(b"0x", Room(assets, sliced).told())


def names_of(sliced: Sliced) -> set[str]:
    """The assets that whoever decides is shown."""
    return {name for name, _ in sliced.assets}


@dataclass
class Trial:
    """Programs that were asked for at two owners, and what came of them."""

    run_one: Run = outcome
    cut: Callable[[Sequence[Step], int], Sliced] = slice_of
    named: Callable[[Sliced], set[str]] = lambda sliced: {name for name, _ in sliced.assets}
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, first_seed: int, number: int) -> None:
        """Raises Interference, with the seed."""
        for seed in range(first_seed, first_seed + number):
            faulthandler.dump_traceback_later(_HUNG_S, exit=True)  # in place of the one before
            self.try_program(seed)
        faulthandler.cancel_dump_traceback_later()

    def try_program(self, seed: int) -> None:
        program = Writer(seed, 1_000).program()
        steps = [*_OPENED, *program.steps]
        self.counts["programs"] += 1
        self.counts["steps"] += len(program.steps)
        for result in program.asked:
            try:
                sliced = self.cut(steps, result)
                told = [self._told(steps, sliced, result, number) for number in (0, 1)]
            except LookupError:  # what makes it is malformed
                self.counts["no program"] += 1
            except Late:
                self.counts["late"] += 1
            else:
                self._compare(seed, sliced, told)

    def _told(self, steps: Sequence[Step], sliced: Sliced, result: int, number: int) -> bytes:
        """What an owner tells of a result, who has run all steps before."""
        self.run_one(encoded(number), numbered(steps, result))
        named = self.named(sliced)
        return self.run_one({name: encoded(0 if name in named else number)[name] for name in ASSETS}, sliced)

    def _compare(self, seed: int, sliced: Sliced, told: list[bytes]) -> None:
        self.counts["asked"] += 1
        self.counts["with no asset"] += not sliced.assets
        self.counts["failed"] += told[0].startswith(b'{"fault"')
        if told[0] != told[1]:
            raise Interference(f"seed {seed}: {json.dumps(sliced.steps)}\n{told[0]!r}\n{told[1]!r}")


# -- lists that are wrong ------------------------------------------------------------------------------------

# the peer's own objects, as the step that makes result 20, and their classes
_OWN: tuple[tuple[Step, type], ...] = (
    ([20, "numpy.zeros", [8]], np.ndarray),
    ([20, "torch.zeros", [6], {"dtype": ["c", "torch.float64"]}], torch.Tensor),
    ([20, "builtins.list", [["l", 0.5, 1.5, 2.5]]], list),
    ([20, "pandas.DataFrame", [["d", "age", ["l", *[0.5] * 8]]]], pd.DataFrame),
    ([20, "pandas.Series", [["l", *[0.5] * 8]]], pd.Series),
    ([20, "builtins.dict", [["d", "a", 1]]], dict),
    ([20, "numpy.random.default_rng", [3]], np.random.Generator),
    ([20, "sklearn.linear_model.LinearRegression", []], LinearRegression),
    ([20, "torch.nn.Linear", [6, 1]], torch.nn.Linear),
)
_READ: dict[type, Step] = {
    np.random.Generator: [40, ".random", [[20]]],
    torch.nn.Linear: [40, "@weight", [[20]]],
    LinearRegression: [40, ".get_params", [[20]]],
}
_PRIVATE: list[Step] = [[2, "asset", ["x", 1]], [3, "asset", ["tensor", 1]], [4, "asset", ["number", 1]]]


def wrong(operation: str, effect: str) -> bool:
    """Whether an entry of the lists can be wrong in the way that matters: by saying that it makes new."""
    return effect not in (ELEMENTWISE, AGGREGATE)


@functools.cache
def entries() -> list[str]:
    """All operations that may write, or give back a part of what they got."""
    methods, attributes = members()
    names = [*(name for names in functions().values() for name in names), *methods]
    return [*(name for name in names if wrong(name, worst_effect(name))), *attributes]


def is_for(operation: str, kind: type) -> bool:
    """Whether an operation may have something to do with objects of a class."""
    if operation.startswith("@="):
        return allowed().settable(kind, operation[2:])
    if operation[0] == "@":
        return allowed().attribute(kind, operation[1:]) is not None
    if operation[0] == ".":
        return allowed().method(kind, operation[1:]) is not None
    # of objects of other libraries some functions read memory that is not theirs, and crash
    library = operation.partition(".")[0]
    return kind in (np.ndarray, list, dict) or kind.__module__.partition(".")[0] == library


def programs_with(operation: str) -> Iterator[tuple[Step, list[Step], Step]]:
    """Programs that hide private data by an operation: what makes an object of the peer's, the hidden steps,
    and the one whose result is asked for.
    """
    for own, kind in _OWN:
        if not is_for(operation, kind):
            continue
        is_array = kind in (np.ndarray, torch.Tensor)
        data = [3] if kind in (torch.Tensor, torch.nn.Linear) else [2]
        calls: list[list[Arg]] = [[[20], data]]
        if operation[0] == "@" and operation[1] != "=":
            calls = [[[20]]]
        elif is_array or kind is list:
            calls += [[[20], 0, data], [data, [20]], [[20], ["e"], data], [[20], [4]]]
        elif kind is LinearRegression:
            calls = [[[20], ["l", ["l", 1.0], ["l", 2.0]], ["l", [4], [4]]]]
        elif kind is np.random.Generator:
            calls = [[[20], [4]], [[20]]]
        read = _READ.get(kind, [40, "builtins.list", [["l", [20]]]])
        for arguments in calls:
            yield own, [[0, operation, arguments]], read
        if is_array:  # what it gives back is written to
            write = ".copy_" if kind is torch.Tensor else "numpy.copyto"
            for given in ([[20]], [[20], -1]):
                yield own, [[30, operation, given], [0, write, [[30], data]]], read


@dataclass
class WrongLists:
    """Each entry, one by one, taken for one that makes something new, so that slices lack what it does."""

    counts: Counter[str] = field(default_factory=Counter)
    _honest: dict[str, bytes] = field(default_factory=dict)

    def run(self, first: int, apart: int) -> None:
        """Try every `apart`-th entry from the `first` on. Raises Interference, with the operation."""
        for operation in entries()[first::apart]:
            faulthandler.dump_traceback_later(_HUNG_S, exit=True)
            self.counts["entries"] += 1
            reached = False
            for own, hidden, read in programs_with(operation):
                reached |= self._try(operation, own, hidden, read)
            self.counts["that write or give back"] += reached
        faulthandler.cancel_dump_traceback_later()

    def _try(self, operation: str, own: Step, hidden: list[Step], read: Step) -> bool:
        """Whether private data got into the result where all steps were run."""

        def effects(asked: str) -> str:
            return ELEMENTWISE if asked == operation else worst_effect(asked)

        steps = [*_PRIVATE, own, *hidden, read]
        sliced = slice_of(steps, read[0], effects)
        self.counts["programs"] += 1
        if sliced.assets:  # whoever decides sees it
            self.counts["shown"] += 1
            return False
        honest = json.dumps([own, read])
        if honest not in self._honest:
            self._honest[honest] = outcome({}, numbered([own, read], read[0]))
        try:
            whole = outcome(encoded(0), numbered(steps, read[0]))
            alone = outcome({}, sliced)
        except Late:
            return False
        if alone != self._honest[honest]:
            raise Interference(f"{operation}: {json.dumps(sliced.steps)}\n{alone!r}")
        return whole != alone and not whole.startswith(b'{"fault"')


class _Alarm:
    """Ends what runs for too long."""

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, _RUN_S)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_long(*_: object) -> None:
    raise Late


def limit() -> None:
    """Limits of this process, which is there for nothing else."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _too_long)
    torch.set_num_threads(1)


def main(arguments: Sequence[str]) -> None:
    what, first, number = arguments[0], *map(int, arguments[1:])
    limit()
    faulthandler.enable()
    allowed()  # the libraries are loaded in nobody's time
    trial: Trial | WrongLists = WrongLists() if what == "lists" else Trial()
    trial.run(first, number)
    print(json.dumps(trial.counts))


if __name__ == "__main__":
    main(sys.argv[1:])
