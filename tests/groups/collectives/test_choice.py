"""What is chosen: by figures of links, the quickest algorithm and the best ring, the same at all members."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from duetlink.errors import RemoteProtocolError
from duetlink.groups.collectives.execution.frame import Piece, parse
from duetlink.groups.collectives.planning.choice import Choice
from duetlink.groups.collectives.planning.costs import Costs, LinkFigures, row_from_wire, row_to_wire
from duetlink.groups.collectives.planning.order import EXACT_SIZE, STEP_BYTES, ring_order
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.links.transport import Message
from tests.groups.collectives.conftest import MakeGroup

FAST = LinkFigures(0.001, 12.5e6)  # 100 Mbit/s
SLOW = LinkFigures(0.001, 2.5e6)  # 20 Mbit/s
RELAYED = LinkFigures(0.001, 50e6, relayed=True)


def costs(size: int, special: dict[tuple[int, int], LinkFigures]) -> Costs:
    """Links that are all FAST but for those, both ways."""
    both = special | {(b, a): link for (a, b), link in special.items()}
    return Costs(tuple(tuple(both.get((a, b), FAST) for b in range(size)) for a in range(size)))


def edges(order: tuple[int, ...]) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in zip(order, [*order[1:], order[0]], strict=True)}


def test_a_ring_goes_around_a_slow_link() -> None:
    order = ring_order(costs(4, {(0, 1): SLOW}))
    assert frozenset({0, 1}) not in edges(order)
    assert sorted(order) == [0, 1, 2, 3]


def test_a_ring_goes_around_relays_even_if_they_are_quick() -> None:
    assert frozenset({2, 3}) not in edges(ring_order(costs(5, {(2, 3): RELAYED})))


def test_where_all_links_are_equal_the_ranks_stand_in_their_order() -> None:
    for size in range(1, 13):
        assert ring_order(costs(size, {})) == tuple(range(size))


def slowest_s(order: tuple[int, ...], of: Costs) -> float:
    return max(of.link(a, b).seconds(STEP_BYTES) for a, b in zip(order, [*order[1:], order[0]], strict=True))


@pytest.mark.parametrize("size", [3, 5, 7])
def test_no_ring_is_better_than_the_one_that_is_found(size: int) -> None:
    dice = random.Random(size)
    links = Costs(
        tuple(
            tuple(LinkFigures(0.001, dice.choice((1e6, 5e6, 2e7))) for _ in range(size)) for _ in range(size)
        )
    )
    best_s = min(slowest_s((0, *rest), links) for rest in itertools.permutations(range(1, size)))
    assert slowest_s(ring_order(links), links) == best_s


def test_a_large_ring_goes_around_slow_links_too() -> None:
    size = EXACT_SIZE + 3
    slow = {(rank, rank + 1): SLOW for rank in range(size - 1)}
    order = ring_order(costs(size, slow))
    assert sorted(order) == list(range(size))
    assert not edges(order) & {frozenset(pair) for pair in slow}


def test_small_arrays_go_in_few_rounds_and_large_ones_in_few_bytes() -> None:
    choice = Choice(Costs.unknown(8))
    assert choice.best("all_reduce", 1000).algorithm == "butterfly"
    assert choice.best("all_reduce", 64 * 1024 * 1024).algorithm == "halving"
    assert Choice(Costs.unknown(30)).best("broadcast", 1000).algorithm == "tree"
    assert choice.best("broadcast", 64 * 1024 * 1024).algorithm == "ring"
    assert Choice(Costs.unknown(2)).best("all_reduce", 8).algorithm == "butterfly"


def test_the_prediction_of_a_ring_is_its_bound() -> None:
    choice = Choice(costs(4, {}))
    (ring,) = [each for each in choice.candidates("all_reduce", 100_000_000) if each.algorithm == "ring"]
    bound_s = 2 * 3 / 4 * 100_000_000 / 12.5e6
    assert bound_s < ring.predicted_s < 1.1 * bound_s


def test_the_explanation_is_a_table_of_all_candidates() -> None:
    explanation = Choice(costs(4, {(0, 1): SLOW})).explain("all_reduce", 64 * 1024 * 1024)
    lines = str(explanation).splitlines()
    assert lines[0] == "all_reduce of 67,108,864 bytes among 4 members"
    assert lines[1].split() == ["algorithm", "order", "predicted"]
    assert [line.split()[0] for line in lines[2:-2] if not line.startswith(">")] == [
        *("naive", "naive", "butterfly", "butterfly", "tree", "tree", "halving", "halving")
    ]
    assert lines[-2:] == [
        "  slowest link: 0 to 1, 1.0 ms, 2.5 MB/s (not measured)",
        "  not measured: 12 of 12 directions, which are guesses",
    ]
    (chosen,) = [line for line in lines if line.startswith(">")]
    assert chosen.split()[:3] == [">", "ring", "0-2-1-3"]
    with pytest.raises(ValueError, match="no operation 'add'; there are all_reduce, reduce"):
        Choice(Costs.unknown(2)).explain("add", 5)


@pytest.mark.parametrize("data", [b"123", np.array([np.nan, 1.0]).tobytes() + b"\0", b"\0" * 17])
def test_figures_that_cannot_be_computed_with_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        row_from_wire(data)
    assert row_from_wire(row_to_wire({1: SLOW}, 2)) == (LinkFigures(), SLOW)


async def test_the_chosen_order_is_the_one_in_use(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "supported", lambda: False)  # as if on four hosts
    group = make_group(4)
    figures = [{to: SLOW if {rank, to} == {0, 1} else FAST for to in range(4)} for rank in range(4)]
    assert await group.all(lambda m: m.agree(figures[m.rank])) == [None] * 4
    explained = {str(member.explain("all_reduce", 8_000_000)) for member in group.members}
    assert len(explained) == 1
    assert "ring       0-2-1-3" in next(iter(explained))
    used = set()

    def watch(of: int, to: int, message: Message) -> Message:
        found = parse(message.head)
        assert isinstance(found, Piece)
        assert "float64[1000000], sum, ring 0-2-1-3" in found.call or not found.call
        used.add((of, to))
        return message

    group.network.on_send = watch
    for each in await group.all(lambda m: m.all_reduce(np.ones(1_000_000))):
        assert isinstance(each, np.ndarray)
        assert (each == 4).all()
    assert used == {(0, 2), (2, 1), (1, 3), (3, 0)}
