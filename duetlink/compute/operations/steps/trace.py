"""The trace: all recorded steps, with the relations between their results that slicing needs.

Theory. No object is known here, only ids, and a hostile peer may compute a result by writing into memory that
other results share. So two relations between results are kept, both supersets of the truth, both as a
`Partition` whose time is the number of the step:

    sharing   they may share memory: one is a view of the other, holds it, or has been written into it
    graph     they may be parts of one graph of torch's autograd, in which `backward` reads and writes

A step whose operation makes something fresh relates its result to nothing. A step that changes an argument,
or may return a part of it, relates its result and its arguments with each other. `effects` gives the effect
of an operation for all classes at once, since only a room knows the class of an object.

A result has a number here, its *node*. An id that is defined twice is one node, which stands for both
results. Two steps that open the same asset, or the same value, make the same object, whatever their ids are.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from duetlink.compute.operations.allow_lists.settings import Settings, settings_of
from duetlink.compute.operations.steps import body
from duetlink.compute.operations.steps.body import StepSeeds
from duetlink.compute.operations.steps.effects import may_draw
from duetlink.compute.operations.steps.kinds import (
    BACK,
    CHANGES_ALL,
    CHANGES_FIRST,
    EVERYWHERE,
    FRESH,
    GRADIENTS,
    NOTHING,
    PART,
    SHARES,
    kind_by_name,
    teaches,
    writes,
)
from duetlink.compute.operations.steps.partition import Partition
from duetlink.compute.operations.steps.program import ASSET, DROP, GRAD, MAX_DEPTH, SEEDS, VALUE
from duetlink.errors import LimitExceeded, RemoteProtocolError

# The memory of one trace, enough for some 3,000,000 steps. A step takes about 170 bytes; one that differs
# from all others in more than its ids takes several hundred more.
MAX_HELD_BYTES = 512 * 1024 * 1024
_INTEGER_BYTES = sys.getsizeof(1 << 30)
_PAIR_BYTES = sys.getsizeof((0, 0))

_NO_KEYWORDS: dict[str, Any] = {}
_ATTRIBUTES = frozenset((DROP, GRAD, *SEEDS))


class LoggedValue(NamedTuple):
    """One of the scientist's values: its description in the peer's words, and a digest of its content."""

    description: str
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A step without its ids: each argument `[id]` is `[0]`. Steps that differ only in ids have one shape."""

    operation: str
    arguments: Sequence[Any]
    keywords: dict[str, Any]  # in the order of the call, which can have a meaning
    gradients: bool  # torch recorded gradients
    kind: int
    settings: Settings = ()


class Trace:
    """Steps in the order of recording. Not thread-safe."""

    def __init__(self, effects: Callable[[str], str], *, may_learn: bool = True) -> None:
        """`effects` returns the effect of an operation by its name.

        `may_learn` false promises that no tensor among assets and values has `requires_grad`. Slices are then
        smaller.
        """
        self.kinds = bytearray()  # this and the next arrays have one item per step
        self.results = array("i")  # the node of the result; -1: the step has none
        self.shape_numbers = array("i")
        self.reference_ends = array("q")
        self.references = array("i")  # the nodes that steps name; -1: an id of no known result
        self.shapes: list[Shape] = []
        self.sharing = Partition()
        self.graph = Partition()  # whatever is merged in `sharing` is merged here as well
        self.values: dict[int, LoggedValue] = {}
        self.draws: dict[int, StepSeeds] = {}  # only of steps that may draw random numbers
        # Inputs of a graph that are not part of it: the step, a node of the graph, the node of the input.
        self.inputs: tuple[array[int], array[int], array[int]] = (array("q"), array("i"), array("i"))
        # 1 for a root whose class may contain gradients, to which backward steps add
        self.with_gradients = bytearray()
        self.effects = effects
        self._may_learn = may_learn
        self._nodes = 0
        self._node_of: dict[int, int] = {}
        self._trainable = bytearray()  # 1 for a root whose class may have gradients
        self._any_trainable = False  # True if any class may have gradients
        self._assets: dict[str, int] = {}
        self._number_of: dict[str, int] = {}
        # operation -> kind, `teaches`, `may_draw`
        self._known: dict[str, tuple[int, bool, bool]] = {}
        self._gradients = True
        self._settings: Settings = ()  # of the current step
        self._draw = StepSeeds(None, 0)  # of the next step that draws
        self._last = 0  # the number of references before the current step
        # the modes with which the next recorded step starts
        self._next_modes: tuple[bool, StepSeeds] | None = None
        self._texts_bytes = 0  # the memory of texts, shapes and values
        self._is_full = False

    def node(self, id_: int) -> int:
        """Return the node of an id. Raise LookupError if no step makes a result of this id."""
        return self._node_of[id_]

    @property
    def held_bytes(self) -> int:
        """The memory of the trace, in bytes."""
        lists: tuple[Any, ...] = (
            *(self.kinds, self.results, self.shape_numbers, self.references, self.reference_ends),
            *(self.shapes, self.with_gradients, self._trainable, *self.inputs),
            *(self.values, self.draws, self._node_of, self._assets, self._number_of, self._known),
        )
        numbers = 2 * len(self._node_of) + 4 * len(self.draws) + len(self.values)
        return (
            sum(map(sys.getsizeof, lists))
            + self.sharing.held_bytes
            + self.graph.held_bytes
            + numbers * _INTEGER_BYTES
            + self._texts_bytes
        )

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def done(self) -> int:
        """The number of steps that do something at the owner when they run."""
        return len(self.kinds) - self.kinds.count(NOTHING)

    def add(self, steps: Sequence[Any], values: Sequence[LoggedValue] = ()) -> None:
        """Append recorded steps, in the format of `program.py`. A step `value` has the index of one of
        `values`.

        A malformed step is kept as one that does nothing, since the room refuses it.

        Raises:
            LimitExceeded: the trace takes more memory than MAX_HELD_BYTES; it accepts no further steps.
        """
        self._reserve(len(steps))
        if self._next_modes is not None:
            (self._gradients, self._draw), self._next_modes = self._next_modes, None
        opened: dict[int, int] = {}  # index of a value -> its node
        for raw in steps:
            # checked less strictly than in a room: a step that a room refuses does no harm here
            if type(raw) is not list or not 3 <= len(raw) <= 6:
                self._append(NOTHING, -1, -1, ())
                continue
            id_, operation, arguments = raw[:3]
            keywords = raw[3] if len(raw) > 3 else _NO_KEYWORDS
            settings = settings_of(raw[5]) if len(raw) > 5 else ()
            if settings is None or not _is_step(operation, arguments, keywords) or type(id_) is not int:
                self._append(NOTHING, -1, -1, ())
            elif operation in _ATTRIBUTES:
                if operation == GRAD and arguments:
                    self._gradients = arguments[0] is True
                elif operation in SEEDS and len(arguments) == 1 and type(arguments[0]) is int:
                    self._draw = StepSeeds(arguments[0], 0)
                elif operation == DROP:
                    for dropped in arguments:
                        if type(dropped) is int:
                            self.forget(dropped)
                self._append(NOTHING, -1, -1, ())
            else:
                self._settings = settings
                draws = len(raw) < 5 or raw[4] == 1
                self._add(id_, operation, arguments, keywords, values, opened, draws=draws)

    def add_canonical(self, steps: Sequence[Any], values: Sequence[LoggedValue]) -> None:
        """Append a whole program in the format of `body.py`, in which a result's id is the position of its
        step, from 1.

        Raises:
            RemoteProtocolError: the steps are malformed.
            LimitExceeded: as `add`.
        """
        self._reserve(len(steps))
        opened: dict[int, int] = {}
        for position, raw in enumerate(steps, 1):
            step = body.step_of(raw)
            if step.operation in _ATTRIBUTES:
                raise RemoteProtocolError(
                    f"step {position}, {step.operation}, belongs into the modes of other steps"
                )
            self._gradients, self._settings = step.records, step.settings
            self._add(position, step.operation, step.arguments, step.keywords, values, opened, step.draw)
            if self.kinds[-1] == NOTHING or -1 in self.references[self._last :]:
                raise RemoteProtocolError(
                    f"step {position}, {step.operation}, uses a result that does not exist"
                )
            self._last = len(self.references)

    def forget(self, id_: int) -> None:
        """Release an id that no pointer has any more. Results that were made with it stay as they are."""
        self._node_of.pop(id_, None)

    @property
    def alive(self) -> list[int]:
        """The ids of results that a pointer still has."""
        return list(self._node_of)

    def successor(self) -> Trace:
        """Return an empty trace in which steps recorded next have the same meaning as here."""
        made = Trace(self.effects, may_learn=self._may_learn)
        made._next_modes = self._gradients, self._draw
        return made

    def rename(self, positions: Sequence[int], ids: Sequence[int]) -> None:
        """Give the results of these steps of a whole program new ids; all other results lose theirs."""
        node_of = {id_: self._node_of[position] for position, id_ in zip(positions, ids, strict=True)}
        self._node_of = node_of

    def _reserve(self, steps: int) -> None:
        if self._is_full or self.held_bytes > MAX_HELD_BYTES:
            self._refuse_more()
        self._grow(2 * steps)  # each step has a result, and may open an asset or value

    def _add(
        self,
        id_: int,
        operation: str,
        arguments: list[Any],
        keywords: dict[str, Any],
        values: Sequence[LoggedValue],
        opened: dict[int, int],
        draw: StepSeeds | None = None,
        *,
        draws: bool = False,
    ) -> None:
        if operation == VALUE:
            self._add_value(id_, arguments, values, opened)
        elif operation == ASSET:
            self._add_asset(id_, arguments)
        else:
            self._add_operation(id_, operation, arguments, keywords, draw, draws=draws)

    def _refuse_more(self) -> NoReturn:
        self._is_full = True
        raise LimitExceeded(
            f"the recorded steps of this session take over {MAX_HELD_BYTES:,} bytes: delete pointers that "
            "you do not need, and start again from duet.store[…]"
        )

    # -- one step --------------------------------------------------------------------------------------------

    def _add_operation(
        self,
        id_: int,
        operation: str,
        arguments: list[Any],
        keywords: dict[str, Any],
        draw: StepSeeds | None,
        *,
        draws: bool,
    ) -> None:
        known = self._known.get(operation)
        if known is None:
            known = (
                kind_by_name(operation, self.effects),
                teaches(operation, _NO_KEYWORDS),
                may_draw(operation),
            )
            self._known[operation] = known
            self._account(sys.getsizeof(operation) + _PAIR_BYTES)
        kind, makes_trainable, may_draw_numbers = known
        nodes: list[int] = []
        first = 0  # the number of nodes that the first argument names
        node_of = self._node_of.get
        for index, argument in enumerate(arguments):
            if type(argument) is list:
                if len(argument) == 1 and type(argument[0]) is int:
                    nodes.append(node_of(argument[0], -1))
                    argument[0] = 0
                elif not self._collect_nodes(argument, nodes, 0):
                    return self._append(NOTHING, -1, -1, ())
            if index == 0:
                first = len(nodes)
        if keywords and not self._collect_nodes(["d", *keywords.values()], nodes, -1):
            return self._append(NOTHING, -1, -1, ())
        if kind >= CHANGES_FIRST or keywords:
            kind = self._exact_kind(kind, keywords, first, nodes)
        text = repr((operation, arguments, keywords, self._gradients, kind, self._settings))
        number = self._number_of.get(text)
        if number is None:
            number = self._number(
                text, Shape(operation, arguments, keywords, self._gradients, kind, self._settings)
            )
        node = self._define(id_) if id_ else -1
        time = len(self.kinds)
        if draw is not None:
            self.draws[time] = draw
        elif draws and may_draw_numbers:
            self.draws[time] = self._draw
            self._draw = StepSeeds(self._draw.seed, self._draw.number + 1)
        self.kinds.append(kind)
        self.results.append(node)
        self.shape_numbers.append(number)
        self.references.extend(nodes)
        self.reference_ends.append(len(self.references))
        if -1 in nodes:
            first -= nodes[:first].count(-1)
            nodes = [reference for reference in nodes if reference >= 0]
        if kind != FRESH:
            together = nodes[:first] if kind == PART else [] if kind == BACK else nodes
            self._merge(together if node < 0 else [*together, node], time)
        if (makes_trainable or (keywords and teaches(operation, keywords))) and (node >= 0 or nodes):
            self._trainable[self.sharing.find(node if node >= 0 else nodes[0])] = self._any_trainable = True
        if operation in GRADIENTS and nodes:
            self.with_gradients[self.sharing.find(nodes[0])] = True
        if self._any_trainable and nodes:
            self._connect(nodes, node, time)
        return None

    def _collect_nodes(self, argument: list[Any], nodes: list[int], depth: int) -> bool:
        """Collect the nodes that an argument names, and replace the ids in it by 0; False if the room refuses
        it.

        A list within a JSON object names no result.
        """
        if not argument or depth > MAX_DEPTH or type(argument[0]) in (list, dict):
            return False
        if isinstance(argument[0], (int, float)):  # in a dict, 1.0 and True are the same key as 1
            nodes.append(self._node_of.get(argument[0], -1))  # type: ignore[arg-type]
            argument[:] = [0]
            return True
        return all(self._collect_nodes(part, nodes, depth + 1) for part in argument if type(part) is list)

    def _add_asset(self, id_: int, arguments: list[Any]) -> None:
        name, revision = arguments if len(arguments) == 2 else (None, None)
        if type(name) is not str or not isinstance(revision, (int, float)) or revision != revision // 1:
            return self._append(NOTHING, -1, -1, ())
        if name not in self._assets:
            self._assets[name] = self._new_node()
            self._account(sys.getsizeof(name) + _INTEGER_BYTES)
        time, node = len(self.kinds), self._define(id_)
        shape = Shape(ASSET, [name, int(revision)], {}, True, SHARES)
        self._append(
            SHARES, node, self._number(repr((ASSET, name, int(revision))), shape), (self._assets[name],)
        )
        return self._merge((node, self._assets[name]), time)

    def _add_value(
        self, id_: int, arguments: list[Any], values: Sequence[LoggedValue], opened: dict[int, int]
    ) -> None:
        index = arguments[0] if len(arguments) == 1 else None
        if not isinstance(index, int) or not -len(values) <= index < len(values):
            return self._append(NOTHING, -1, -1, ())
        index = range(len(values))[index]
        if index not in opened:
            opened[index] = self._new_node()
            self.values[opened[index]] = values[index]
            self._account(_size_of(values[index]))
        time, node = len(self.kinds), self._define(id_)
        self._append(
            SHARES, node, self._number(VALUE, Shape(VALUE, [[0]], {}, True, SHARES)), (opened[index],)
        )
        return self._merge((node, opened[index]), time)

    def _append(self, kind: int, node: int, number: int, nodes: Sequence[int]) -> None:
        self.kinds.append(kind)
        self.results.append(node)
        self.shape_numbers.append(number)
        self.references.extend(nodes)
        self.reference_ends.append(len(self.references))

    def _number(self, text: str, shape: Shape) -> int:
        number = self._number_of.get(text)
        if number is None:
            number = self._number_of[text] = len(self.shapes)
            self.shapes.append(shape)
            self._account(
                sys.getsizeof(text)
                + sys.getsizeof(shape)
                + _size_of(shape.arguments)
                + _size_of(shape.keywords)
                + _INTEGER_BYTES
            )
        return number

    def _account(self, size_bytes: int) -> None:
        # checked here as well: the objects of one batch may be many times as large as its text
        self._texts_bytes += size_bytes
        if self._texts_bytes > MAX_HELD_BYTES:
            self._refuse_more()

    def _define(self, id_: int) -> int:
        node = self._node_of.get(id_)
        if node is None:
            node = self._node_of[id_] = self._nodes
            self._nodes += 1
        return node

    def _new_node(self) -> int:
        """Return the node of a new asset or value."""
        node = self._nodes
        self._nodes += 1
        self._trainable[node] = self._may_learn
        self._any_trainable |= self._may_learn
        return node

    def _grow(self, count: int) -> None:
        """Make room for `count` more nodes."""
        missing = self._nodes + count - len(self._trainable)
        if missing > 0:
            self.sharing.extend(missing)
            self.graph.extend(missing)
            self._trainable.extend(bytes(missing))
            self.with_gradients.extend(bytes(missing))

    def _exact_kind(self, kind: int, keywords: dict[str, Any], first: int, nodes: Sequence[int]) -> int:
        """Return the kind of a step, from that of its operation and its arguments."""
        if writes(keywords):
            kind = max(kind, CHANGES_ALL)
        if kind == CHANGES_FIRST and first != 1:
            kind = CHANGES_ALL
        if kind in (CHANGES_FIRST, CHANGES_ALL) and not nodes:
            return EVERYWHERE  # it is unknown which object it changes
        if kind == BACK and not any(node >= 0 and self._is_trainable(node) for node in nodes):
            return EVERYWHERE  # torch refuses such a step
        return kind

    # -- what hangs together ---------------------------------------------------------------------------------

    def _merge(self, nodes: Sequence[int], time: int) -> None:
        """Note that the nodes may share memory from now on."""
        find, trainable, with_gradients = self.sharing.find, self._trainable, self.with_gradients
        for other in nodes[1:]:
            one, other = find(nodes[0]), find(other)
            if one != other:
                either_trainable = trainable[one] or trainable[other]
                either_with_gradients = with_gradients[one] or with_gradients[other]
                both = self.sharing.merge(one, other, time)
                trainable[both], with_gradients[both] = either_trainable, either_with_gradients
                self.graph.merge(one, other, time)

    def _connect(self, nodes: Sequence[int], node: int, time: int) -> None:
        """Add a step to the autograd graph of the nodes that it uses."""
        find, trainable = self.sharing.find, self._trainable
        inside = [reference for reference in nodes if trainable[find(reference)]]
        if not inside:
            return
        if node >= 0:
            trainable[find(node)] = True
            self.graph.merge(inside[0], node, time)
        for other in inside[1:]:
            self.graph.merge(inside[0], other, time)
        if len(inside) < len(nodes):
            steps, members, data = self.inputs
            for reference in nodes:
                if not trainable[find(reference)]:
                    steps.append(time)
                    members.append(inside[0])
                    data.append(reference)

    def _is_trainable(self, node: int) -> bool:
        return bool(self._trainable[self.sharing.find(node)])


def _is_step(operation: Any, arguments: Any, keywords: Any) -> bool:
    return type(operation) is str and bool(operation) and type(arguments) is list and type(keywords) is dict


def _size_of(held: Any) -> int:
    """Return the memory of a JSON value, in bytes. Its depth is bounded. Objects that occur twice
    count twice.
    """
    size_bytes = sys.getsizeof(held)
    if isinstance(held, dict):
        size_bytes += sum(map(_size_of, held)) + sum(map(_size_of, held.values()))
    elif isinstance(held, (list, tuple)):
        size_bytes += sum(map(_size_of, held))
    return size_bytes
