"""Non-interference, tried by machine: two owners with data of the same schema and other values do the same
hostile program, and the peer must not be able to tell them apart.

Theory (Goguen and Meseguer 1982): what a peer receives may depend on the private data only through what is
documented, one bit for each step, whether it failed. Programs are drawn at random from the real lists, and
steered to where leaks were found: private data written through views, objects of many classes chosen by a
private number, refused operations, wrong arguments. Where the two owners fail at different steps, these steps
are taken out of the program and it is run again: what is left must read the same at both.

Run as a module it tries seeds in a process of its own, which has limits of memory and time:

    python -m tests.remote.interference silent FIRST_SEED NUMBER
    python -m tests.remote.interference sweep FIRST NUMBER

The second form does each listed operation once, with hostile arguments, instead of programs drawn at random.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch

from duetlink.compute.operations.allowed import EFFECTS, LIBRARIES, read_list
from duetlink.compute.worker.faults import SILENT, TYPE, Fault
from duetlink.data import values
from tests.remote.hostile import HostileDesk, Step

ASSETS = ("x", "ints", "frame", "name", "tensor", "number", "texts")
OPENED = range(1, len(ASSETS) + 1)  # their numbers, as the tables below have them
PER_DESK = 800  # programs that one desk does before it is thrown away
_MEMORY_BYTES = 6 * 1024**3
_STEP_S = 2.0  # after which a batch's running step is failed
_HUNG_S = 120.0  # after which this process ends, as its programs hang
_MOST_TRIES = 8  # of one program, each without the steps that failed at one owner only

Arg = Any
Told = Callable[[int, Fault], bytes]


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


def silent(result: int, fault: Fault) -> bytes:
    """What the peer is told of a step that failed, with `failure_detail="silent"`."""
    return fault.told(SILENT).to_wire(result).SerializeToString(deterministic=True)


def typed(result: int, fault: Fault) -> bytes:
    """The same with `failure_detail="type"`, but for the two enumerations, which are documented."""
    told = fault.told(TYPE).to_wire(result)
    assert not fault.words
    told.ClearField("code")
    told.ClearField("error")
    return told.SerializeToString(deterministic=True)


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
    """Steps in two batches, and the results that are asked for after them."""

    batches: list[list[Step]]
    asked: list[int]

    def without(self, places: set[tuple[int, int]]) -> Program:
        """The same without the steps at these places."""
        return Program(
            [
                [step for at, step in enumerate(batch) if (number, at) not in places]
                for number, batch in enumerate(self.batches)
            ],
            self.asked,
        )


class Writer:
    """Draws one program. Its results have numbers above `first_id`; `opened` are those of the assets."""

    def __init__(self, seed: int, first_id: int, opened: Sequence[int] = OPENED) -> None:
        self.rng = random.Random(seed)
        self._next = first_id
        self._opened = dict(zip(OPENED, opened, strict=True))
        self.pool = list(opened)

    def program(self) -> Program:
        batches = []
        for _ in range(2):
            steps: list[Step] = []
            while len(steps) < 3:
                steps += self.rng.choices(
                    (self._any, self._view, self._zoo, self._scalar, self._write, self._bit),
                    (24, 4, 2, 4, 4, 1),
                )[0]()
            batches.append(steps)
        return Program(batches, self.rng.sample(self.pool, 2))

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


def every_operation() -> list[str]:
    """All listed functions, methods and attributes."""
    methods, attributes = members()
    return [*(name for names in functions().values() for name in names), *methods, *attributes]


def hostile_calls(operation: str, first_id: int) -> Program:
    """One operation with arguments that it is not made for, among them private ones."""
    calls: list[list[Arg]] = [[[1]], [[3]], [[4]], [[5]], [[6], [4]], [["l", [6], [1], [4]]], [[7], [6]], []]
    keywords: list[dict[str, Arg]] = [{"out": [6]}, {"dtype": [4]}, {"axis": [6]}, {"nope": [4]}]
    plain: list[Step] = [[0, operation, arguments] for arguments in calls]
    named: list[Step] = [[0, operation, [[1]], keyword] for keyword in keywords]
    steps = [[first_id + at, *step[1:]] for at, step in enumerate([*plain, *named], 1)]
    return Program([steps], [first_id + 1])


# -- two owners ----------------------------------------------------------------------------------------------


@dataclass
class Owner:
    """One owner's desk, and all that its peer has been told."""

    number: int
    detail: str = SILENT
    desk: HostileDesk = field(init=False)

    def __post_init__(self) -> None:
        self.desk = HostileDesk(encoded(self.number), detail=self.detail)
        opened = [[id_, "asset", [name, 1]] for id_, name in enumerate(ASSETS, 1)]
        assert self.desk.run(*opened) == {}

    def do(self, program: Program, told: Told) -> tuple[set[tuple[int, int]], list[bytes]]:
        """The places of the steps that failed, and what the peer was told, in order."""
        np.random.seed(1)
        torch.default_generator.manual_seed(1)
        torch.set_grad_enabled(True)
        failed: set[tuple[int, int]] = set()
        heard: list[bytes] = []
        for number, steps in enumerate(program.batches):
            with _Alarm():
                faults, places = self.desk.batch(self.desk.work(steps))
            failed |= {(number, place) for place in places}
            heard += [told(result, fault) for result, fault in faults]
        for result in program.asked:
            fault = self.desk.asked(result)
            heard.append(b"pending" if fault is None else told(result, fault))
        return failed, heard

    @property
    def is_spoiled(self) -> bool:
        """Whether a failed write to a view of an asset has spoiled that: it cannot be dropped."""
        return not all(self.desk.is_there(asset) for asset in OPENED)


class Interference(AssertionError):
    """The peer was told different things by the two owners."""


@dataclass
class Trial:
    """Programs done by two owners, and what came of them."""

    told: Told = silent
    detail: str = SILENT
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, first_seed: int, number: int) -> None:
        """Raises Interference, with the seed."""
        for seed in range(first_seed, first_seed + number):
            at = seed % PER_DESK
            if at == 0 or seed == first_seed:
                self._begin()
            program = Writer(seed, 1_000).program()
            self._try(seed, program)
            self._forget(program)
        faulthandler.cancel_dump_traceback_later()

    def sweep(self, first: int, number: int) -> None:
        """Each listed operation once, with hostile arguments. Raises Interference, with its place."""
        for place, operation in enumerate(every_operation()[first : first + number], first):
            at = place % PER_DESK
            if at == 0 or place == first:
                self._begin()
            program = hostile_calls(operation, 1_000)
            self._try(place, program)
            self._forget(program)
        faulthandler.cancel_dump_traceback_later()

    def _begin(self) -> None:
        faulthandler.dump_traceback_later(_HUNG_S, exit=True)  # in place of the one before
        self._owners = (Owner(0, self.detail), Owner(1, self.detail))

    def _forget(self, program: Program) -> None:
        """Drop what a program has made, so that its numbers can be used again."""
        made: Step = [0, "drop", [step[0] for steps in program.batches for step in steps if step[0]]]
        for owner in self._owners:
            owner.desk.batch(owner.desk.work([made]))
        if any(owner.is_spoiled for owner in self._owners):
            self._begin()

    def _try(self, seed: int, program: Program) -> None:
        self.counts["programs"] += 1
        for _ in range(_MOST_TRIES):
            (failed, heard), (other_failed, other_heard) = (
                owner.do(program, self.told) for owner in self._owners
            )
            self.counts["steps"] += sum(map(len, program.batches))
            self.counts["failed"] += len(failed)
            differ = failed ^ other_failed
            if not differ:
                break
            self.counts["differed"] += 1
            self._forget(program)
            program = program.without(differ)
        else:
            self.counts["undecided"] += 1
            return
        told = [
            (one == b"pending", other == b"pending") for one, other in zip(heard, other_heard, strict=True)
        ]
        if any(one != other for one, other in told):  # that a result cannot travel is a failure, too
            self.counts["asked differed"] += 1
            return
        if heard != other_heard:
            raise Interference(f"seed {seed}: {json.dumps(program.batches)}\n{heard}\n{other_heard}")
        self.counts["told"] += len(heard)


class _Alarm:
    """Fails the step that runs for too long."""

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, _STEP_S, _STEP_S)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_long(*_: object) -> None:
    raise TimeoutError("the step takes too long")


def limit() -> None:
    """Limits of this process, which is there for nothing else."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _too_long)
    torch.set_num_threads(1)


def main(arguments: Sequence[str]) -> None:
    what, first, number = arguments[0], *map(int, arguments[1:])
    limit()
    trial = Trial(typed, TYPE) if what == "type" else Trial()
    (trial.sweep if what == "sweep" else trial.run)(first, number)
    print(json.dumps(trial.counts))


if __name__ == "__main__":
    main(sys.argv[1:])
