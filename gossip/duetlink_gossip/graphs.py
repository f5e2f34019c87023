"""Graphs of neighbours and their weights, which all members compute alike from one seed.

Theory. In D-PSGD (Lian et al. 2017) each member averages only with its neighbours. The mean over all members
is unchanged if the matrix of weights is doubly stochastic. Metropolis-Hastings weights are, on every
undirected graph: w_ij = 1 / (1 + max(d_i, d_j)), with the remainder for the member itself (Xiao, Boyd and
Lall 2005).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from duetlink.errors import SettingError

GRAPHS = ("ring", "full", "regular", "small-world", "random")
MOST_MEMBERS = 1024

Neighbours = tuple[tuple[int, ...], ...]
Edges = set[tuple[int, int]]

# ten swaps for each edge remove all of the initial order (Milo et al. 2003 call a hundred ample)
_SWAPS = 10
_REWIRED = 0.2  # of the lattice's edges; Watts and Strogatz 1998, figure 2: small worlds from 0.01 to 0.3


@dataclass(frozen=True, slots=True)
class Graph:
    """An undirected, connected graph of `size` members; `kind` "random" is another one in each round.

    - "ring": each member has two neighbours;
    - "full": all are neighbours;
    - "regular": each has `degree`, drawn by `seed`;
    - "small-world": a ring of `degree` neighbours (even), a fifth of them redirected, drawn by `seed`;
    - "random": regular, drawn for each round by `seed` and the round.
    """

    kind: str
    size: int
    degree: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in GRAPHS:
            raise SettingError(f"graph is {self.kind!r}: there are {', '.join(GRAPHS)}")
        if not 2 <= self.size <= MOST_MEMBERS:
            raise SettingError(f"a graph of {self.size} members: gossip takes 2 to {MOST_MEMBERS}")
        if self.kind in ("ring", "full"):
            return
        if not 1 <= self.degree < self.size:
            raise SettingError(f"degree is {self.degree}: {self.size} members have 1 to {self.size - 1}")
        if self.kind == "small-world" and self.degree % 2:
            raise SettingError(f"degree is {self.degree}: in a small world it is even")
        if self.degree * self.size % 2:
            raise SettingError(
                f"no graph of {self.size} members gives each {self.degree} neighbours: one of the two must "
                "be even"
            )
        if self.degree == 1 and self.size > 2:
            raise SettingError("with one neighbour each, the members are not connected: take a degree of 2")

    def at(self, round_: int) -> Neighbours:
        """Return the neighbours of every member in that round, by rank, each in ascending order."""
        return _graph(self, round_ if self.kind == "random" else 0)


def metropolis_hastings(neighbours: Neighbours, rank: int) -> dict[int, float]:
    """Return the weight of each neighbour of `rank`; the rest to 1 is the member's own weight."""
    mine = len(neighbours[rank])
    return {other: 1 / (1 + max(mine, len(neighbours[other]))) for other in neighbours[rank]}


@functools.lru_cache(maxsize=64)
def _graph(graph: Graph, round_: int) -> Neighbours:
    size, degree = graph.size, graph.degree
    draw = _draws(f"{graph.kind} {size} {degree} {graph.seed} {round_}")
    if graph.kind == "full" or (graph.kind != "ring" and degree == size - 1):
        edges = {(one, other) for other in range(size) for one in range(other)}
    elif graph.kind == "ring":
        edges = _lattice(size, 2)
    elif graph.kind == "small-world":
        edges = _rewired(size, degree, draw)
    else:
        edges = _swapped(_lattice(size, degree), size, draw)
    found: list[list[int]] = [[] for _ in range(size)]
    for one, other in sorted(edges):
        found[one].append(other)
        found[other].append(one)
    return tuple(tuple(sorted(each)) for each in found)


def _draws(name: str) -> Iterator[int]:
    """Yield 64-bit numbers that depend only on the name, the same in every version of Python."""
    counter = 0
    while True:
        block = hashlib.blake2b(f"{name} {counter}".encode()).digest()
        yield from (int.from_bytes(block[at : at + 8], "little") for at in range(0, 64, 8))
        counter += 1


def _edge(one: int, other: int) -> tuple[int, int]:
    return (min(one, other), max(one, other))


def _lattice(size: int, degree: int) -> Edges:
    """Connect each member on a circle with the nearest on both sides; if `degree` is odd, also the opposite
    one.
    """
    edges = {_edge(at, (at + step) % size) for at in range(size) for step in range(1, degree // 2 + 1)}
    if degree % 2:
        edges |= {_edge(at, (at + size // 2) % size) for at in range(size)}
    return edges


def _rewired(size: int, degree: int, draw: Iterator[int]) -> Edges:
    """Redirect edges as Watts and Strogatz 1998; the inner circle stays, so the graph stays connected."""
    edges = _lattice(size, degree)
    ring = _lattice(size, 2)
    for one, other in sorted(edges - ring if degree > 2 else edges):
        elsewhere = _edge(one, next(draw) % size)
        if next(draw) % 1000 < _REWIRED * 1000 and elsewhere not in edges and len(set(elsewhere)) == 2:
            rest = edges - {(one, other)} | {elsewhere}
            if _is_connected(rest, size):
                edges = rest
    return edges


def _swapped(edges: Edges, size: int, draw: Iterator[int]) -> Edges:
    """Swap the ends of random pairs of edges: degrees stay the same, everything else becomes random."""
    listed, swapped = sorted(edges), 0
    while True:
        for _ in range(_SWAPS * len(listed)):
            at, also = next(draw) % len(listed), next(draw) % len(listed)
            (a, b), (c, d) = listed[at], listed[also]
            if next(draw) % 2:
                c, d = d, c
            one, other = _edge(a, d), _edge(c, b)
            if len({a, b, c, d}) == 4 and one not in edges and other not in edges:
                edges = edges - {listed[at], listed[also]} | {one, other}
                listed[at], listed[also] = one, other
                swapped += 1
        if _is_connected(edges, size):
            return edges


def _is_connected(edges: Edges, size: int) -> bool:
    reached, border = {0}, {0}
    while border:
        border = {
            end
            for one, other in edges
            for start, end in ((one, other), (other, one))
            if start in border and end not in reached
        }
        reached |= border
    return len(reached) == size
