"""The backward slice of a result: the steps that it may depend on, and as few others as possible.

Theory (Weiser 1984, with classes of results in place of variables). The search goes from the last step to the
first and keeps the set of needed results. A step is taken if its result is needed, or if it changes an object
that a needed result may share memory with *at that time*; then its arguments are needed as well. So a write
into a view before the whole is read is found, and a later write is not. The links of `sharing` are undone on
the way. `count` holds the number of needed results below a node, so a class is tested in log(n) steps.

Gradients are memory that many results share without being written to by name. A backward step is taken in two
cases. First, a needed result's gradient may be read: a step that was taken uses a result of the same graph
for more than making something fresh. Second, a needed result may itself be such a gradient, read earlier, to
which the backward step adds. A backward step reads the tensors that the graph has saved, and torch does not
notice every change of them. So all steps that change an object of the graph before it are taken, too, and all
that change the data that went in.

Each step is visited once, without recursion; 1,000,000 steps take about 1 s.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from duetlink.compute.operations.steps.body import StepSeeds
from duetlink.compute.operations.steps.kinds import (
    BACK,
    CHANGES_FIRST,
    EVERYWHERE,
    FRESH,
    NOTHING,
    READS_GRAPH,
)
from duetlink.compute.operations.steps.trace import LoggedValue, Shape, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Steps in order. Results are numbered from 1 in the order of their first use, so ids do not
    matter; 0 is none.
    """

    shapes: Sequence[Shape]  # each once, in the order of first use
    steps: array[int]  # index into `shapes`; this and the next two arrays have one item per step
    results: array[int]
    reference_ends: array[int]
    references: array[int]
    values: dict[int, LoggedValue]  # by the number that a step "value" names
    targets: tuple[int, ...]
    draws: dict[int, StepSeeds]  # by position, only of steps that may draw random numbers

    @property
    def target(self) -> int:
        """The requested result; the first one if there are several."""
        return self.targets[0]

    def __len__(self) -> int:
        return len(self.steps)


def slice_of(trace: Trace, *targets: int) -> Slice:
    """Return the slice of these nodes. Raise LookupError if no step makes one of them."""
    search = _Search(trace, len(trace))
    taken = search.run(targets)
    if search.undefined:
        raise LookupError("no step makes this result")
    return _renumbered(trace, taken, search.needed, targets)


class _Search:
    def __init__(self, trace: Trace, stop: int) -> None:
        self.trace = trace
        self.stop = stop
        nodes = len(trace.sharing)
        self.needed = bytearray(nodes)
        self.undefined: set[int] = set()
        self._watched = bytearray(nodes)
        # for each node, the needed or watched nodes at and below it
        self._count = array("i", bytes(4 * nodes))
        self._gradients_read: set[int] = set()  # graphs with a gradient that may be read
        self._graphs_read: set[int] = set()  # graphs that a backward step reads
        self._inputs: dict[int, list[tuple[int, int]]] | None = None

    def run(self, targets: Sequence[int]) -> list[int]:
        """Return the positions of the steps, in order."""
        trace, needed = self.trace, self.needed
        kinds, results, ends, references = trace.kinds, trace.results, trace.reference_ends, trace.references
        sharing = trace.sharing
        attached, when, parent, count = sharing.attached, sharing.when, sharing.parent, self._count
        link = len(attached) - 1
        while link >= 0 and when[attached[link]] >= self.stop:
            link -= 1
        taken = []
        self.undefined.update(targets)
        for target in self.undefined:
            self._need(target, self.stop)
        for position in range(self.stop - 1, -1, -1):
            while link >= 0 and when[attached[link]] >= position:
                child = attached[link]
                count[parent[child]] -= count[child]
                link -= 1
            kind, result = kinds[position], results[position]
            if kind == NOTHING:
                continue
            made = result >= 0 and needed[result]
            if not made and kind < CHANGES_FIRST:
                continue
            used = references[ends[position - 1] if position else 0 : ends[position]]
            if not made and not self._changes(kind, used, position):
                continue
            self.undefined.discard(result)
            taken.append(position)
            for node in used:
                if node >= 0:
                    if not needed[node]:
                        self._need(node, position)
                    if kind != FRESH:
                        self._gradients_read.add(trace.graph.find(node, self.stop))
            if kind in (BACK, READS_GRAPH):
                self._record(used, position)
        taken.reverse()
        return taken

    def _need(self, node: int, time: int) -> None:
        self.needed[node] = 1
        if not self._watched[node]:
            self._watch(node, time)

    def _watch(self, node: int, time: int) -> None:
        """Mark a node, so that the steps that change it before that time are taken."""
        trace = self.trace
        if trace.with_gradients[trace.sharing.find(node, self.stop)]:
            self._gradients_read.add(trace.graph.find(node, self.stop))
        self._watched[node] = 1
        count, parent, when = self._count, self.trace.sharing.parent, self.trace.sharing.when
        count[node] += 1
        while when[node] < time:
            node = parent[node]
            count[node] += 1

    def _changes(self, kind: int, used: Sequence[int], position: int) -> bool:
        """Return True if a step changes an object that is needed after it."""
        trace = self.trace
        if kind == EVERYWHERE:
            return True
        if kind == BACK:
            return any(
                trace.graph.find(node, self.stop) in self._gradients_read for node in used if node >= 0
            )
        changed = used[:1] if kind == CHANGES_FIRST else used
        return any(
            self._count[trace.sharing.find(node, position)] > 0
            or (self._graphs_read and trace.graph.find(node, self.stop) in self._graphs_read)
            for node in changed
            if node >= 0
        )

    def _record(self, used: Iterable[int], position: int) -> None:
        """Note that a step reads the graphs of its arguments, with the data that went into them."""
        if self._inputs is None:
            self._inputs = {}
            for step, member, data in zip(*self.trace.inputs, strict=True):
                if step < self.stop:
                    graph = self.trace.graph.find(member, self.stop)
                    self._inputs.setdefault(graph, []).append((step, data))
        for node in used:
            graph = self.trace.graph.find(node, self.stop) if node >= 0 else -1
            if graph >= 0 and graph not in self._graphs_read:
                self._graphs_read.add(graph)
                for step, data in self._inputs.pop(graph, ()):
                    if step < position and not self._watched[data]:
                        self._watch(data, position)


def _renumbered(trace: Trace, taken: Sequence[int], needed: Sequence[int], targets: Sequence[int]) -> Slice:
    numbers: dict[int, int] = {-1: 0}
    shapes: dict[int, int] = {}
    steps, results = array("q"), array("q")
    ends, references = array("q"), array("q")
    all_ends = trace.reference_ends
    values = {}
    for position in taken:
        for node in trace.references[all_ends[position - 1] if position else 0 : all_ends[position]]:
            number = numbers.get(node)
            if number is None:
                number = numbers[node] = len(numbers)
                if node in trace.values:
                    values[number] = trace.values[node]
            references.append(number)
        ends.append(len(references))
        result = trace.results[position]
        results.append(numbers.setdefault(result, len(numbers)) if result >= 0 and needed[result] else 0)
        shape = trace.shape_numbers[position]
        steps.append(shapes.setdefault(shape, len(shapes)))
    draws = {step: trace.draws[position] for step, position in enumerate(taken) if position in trace.draws}
    return Slice(
        [trace.shapes[shape] for shape in shapes],
        steps,
        results,
        ends,
        references,
        values,
        tuple(numbers[target] for target in targets),
        draws,
    )
