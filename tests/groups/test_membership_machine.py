"""Epochs under random joins, leaves, deaths, cut links and operations; and that each property finds its bug.

`World` stands for the network and for people. Links deliver in order; what is under way when one
ends may be lost.
"""

from __future__ import annotations

import inspect
import random
import types
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from duetlink.errors import RemoteProtocolError
from duetlink.groups.membership import events, machine, member_state
from duetlink.groups.membership.member_state import MemberState
from duetlink.groups.membership.messages import Accept, Commit, Epoch, Message, Prepare, Proposal

ONE_LIST = "an epoch has one list of members"
BETWEEN = "an epoch changes between operations"
MOST_MESSAGES = 100_000  # far more than members need to agree
NO_HANG = "everybody who is there can go on, or has stopped"
ONE_GROUP = "one group goes on"
TRUE_LOSS = "who is said to be lost is lost, or leaves"
NO_FALSE_ALARM = "who leaves does not look lost"


class Broken(AssertionError):
    """A property does not hold."""


def check(holds: object, which: str) -> None:
    if not holds:
        raise Broken(which)


GONE = object()


@dataclass
class Operation:
    begun: set[int] = field(default_factory=set)
    newcomers: tuple[int, ...] | None = None  # a point where these may come in; set by the first that asks


class World:
    """Members on a simulated network; `stepper` is the machine, or one with a planted bug."""

    def __init__(self, seed: int, stepper: Any = machine) -> None:
        self.random = random.Random(seed)
        self.machine = stepper
        self.standings: dict[int, Any] = {0: MemberState(0, Epoch(0, (0,)))}
        self.dead: set[int] = set()
        self.queues: dict[tuple[int, int], deque[Any]] = {}
        self.agreed: dict[int, tuple[tuple[int, ...], bool]] = {0: ((0,), True)}
        self.operations: dict[tuple[int, int], Operation] = {}
        self.position: dict[int, int] = {0: 0}
        self.running: dict[int, tuple[int, int]] = {}
        self.ending: set[int] = set()  # whose operation has been revoked
        self.apart: set[int] = set()  # who has died, leaves, or has lost a link
        self.left: set[int] = set()  # who leaves, and has neither died nor lost a link before that
        self.holding: set[int] = set()  # at a point, waiting for the next epoch
        self.completed = 0
        self.latest_completed = 0

    # -- events ----------------------------------------------------------------------------------------------

    def feed(self, seat: int, event: Any) -> None:
        if seat in self.dead:
            return
        self.standings[seat], actions = self.machine.step(self.standings[seat], event)
        for action in actions:
            match action:
                case events.SendToMember(to, message):
                    self.put(seat, to, message)
                case events.SendToAll(message):
                    for one, other in list(self.queues):
                        if one == seat:
                            self.put(seat, other, message)
                case events.Enter(epoch, even):
                    agreed = (epoch.members, even)
                    check(self.agreed.setdefault(epoch.number, agreed) == agreed, ONE_LIST)
                    self.position[seat] = 0
                    self.holding.discard(seat)
                case events.Revoke(_, lost, leaves):
                    check(lost is None or lost in self.apart, TRUE_LOSS)
                    check(leaves or lost not in self.left, NO_FALSE_ALARM)
                    if seat in self.running:
                        self.ending.add(seat)
                case events.Stop():
                    self.apart.add(seat)
                    apart, left = set(self.apart), set(self.left)
                    for other in self.standings:
                        if seat in left:  # its links close when all that it sent has arrived
                            self.put(seat, other, GONE)
                        self.cut(seat, other)
                    self.apart, self.left = apart, left
        if seat in self.ending and self.random.random() < 0.5:
            self.end(seat)

    def end(self, seat: int, well: bool = False) -> None:
        self.ending.discard(seat)
        del self.running[seat]
        self.feed(seat, events.Ended(int(well)))

    def put(self, one: int, other: int, message: object) -> None:
        if (queue := self.queues.get((one, other))) is not None and GONE not in queue:
            queue.append(message)

    def join(self) -> None:
        members = [seat for seat in self.present() if self.standings[seat].is_member]
        if not members or len(self.standings) > 40:
            return
        seat, introducer = len(self.standings), min(members)
        self.standings[seat] = MemberState(seat, self.standings[introducer].epoch, introducer)
        self.position[seat] = 0
        for other in self.present():
            if other != seat:
                self.queues[seat, other], self.queues[other, seat] = deque(), deque()

    def cut(self, one: int, other: int) -> None:
        self.apart |= {one, other}
        self.left -= {one, other}
        for pair in ((one, other), (other, one)):
            if (queue := self.queues.get(pair)) is not None and GONE not in queue:
                for _ in range(self.random.randint(0, len(queue))):
                    queue.pop()
                queue.append(GONE)

    def die(self, seat: int) -> None:
        self.dead.add(seat)
        apart, left = set(self.apart), set(self.left)
        for other in self.standings:
            self.cut(seat, other)
        self.apart, self.left = apart | {seat}, left - {seat}

    def leave(self, seat: int) -> None:
        if seat not in self.apart:
            self.left.add(seat)
        self.apart.add(seat)
        self.feed(seat, events.Leave())

    def deliver(self) -> bool:
        waiting = [pair for pair, queue in self.queues.items() if queue]
        if not waiting:
            return False
        sender, seat = self.random.choice(waiting)
        message = self.queues[sender, seat].popleft()
        if message is GONE:
            del self.queues[sender, seat]
            self.feed(seat, events.Gone(sender))
        else:
            self.feed(seat, events.MessageReceived(sender, message))
        return True

    def drain(self) -> None:
        """Deliver until nothing is under way."""
        for _ in range(MOST_MESSAGES):
            if not self.deliver():
                return
        raise Broken(NO_HANG)

    def present(self) -> list[int]:
        return [
            seat
            for seat, standing in self.standings.items()
            if seat not in self.dead and not standing.stopped
        ]

    # -- operations ------------------------------------------------------------------------------------------

    def work(self, seat: int) -> bool:
        """Begin the next operation, or end the one that runs, if that can be; every third is a point."""
        standing = self.standings[seat]
        if seat in self.ending:
            self.end(seat)
            return True
        if seat in self.running and self.random.random() < 0.02:
            self.ending.add(seat)
            self.feed(seat, events.AbortEpoch())
            return True
        if seat in self.running:
            epoch = standing.epoch
            operation = self.operations[self.running[seat]]
            if operation.begun < set(epoch.members):
                return False
            check(epoch.number >= self.latest_completed, BETWEEN)
            self.latest_completed = epoch.number
            self.completed += 1
            self.position[seat] += 1
            if operation.newcomers:
                self.holding.add(seat)
            self.end(seat, well=True)
            if operation.newcomers and seat == epoch.members[0]:
                self.feed(seat, events.Admit(operation.newcomers))
            return True
        if not standing.may_begin or seat in self.holding:
            return False
        epoch, here = standing.epoch, self.position[seat]
        check(epoch.members == self.agreed[epoch.number][0], ONE_LIST)
        operation = self.operations.setdefault((epoch.number, here), Operation())
        if here % 3 == 0 and operation.newcomers is None:
            operation.newcomers = tuple(
                other for other in self.present() if not self.standings[other].is_member
            )
        operation.begun.add(seat)
        self.running[seat] = (epoch.number, here)
        self.feed(seat, events.Begun())
        return True

    # -- a life ----------------------------------------------------------------------------------------------

    def run(self, changes: int, *, cuts: bool) -> None:
        for _ in range(changes):
            for _ in range(self.random.randint(0, 60)):
                present = self.present()
                if present and self.random.random() < 0.3:
                    self.work(self.random.choice(present))
                else:
                    self.deliver()
            present = self.present()
            if not present:
                break
            kind = self.random.random()
            if kind < 0.6 or len(present) < 3:
                self.join()
            elif kind < 0.8:
                self.leave(self.random.choice(present))
            elif kind < 0.9 or not cuts:
                self.die(self.random.choice(present))
            elif kind < 0.97:
                self.cut(*self.random.sample(present, 2))
            else:
                half = set(self.random.sample(present, self.random.randint(1, len(present) - 1)))
                for one in half:
                    for other in set(present) - half:
                        self.cut(one, other)
        self.settle()

    def settle(self) -> None:
        """Let everything happen that can, then look: one group, in which each can work."""
        for _ in range(MOST_MESSAGES):
            working = sorted(self.running.keys() - self.dead)
            worked = [self.work(seat) for seat in working]
            if not self.deliver() and True not in worked:
                break
        else:
            raise Broken(NO_HANG)
        members = [seat for seat in self.present() if self.standings[seat].is_member]
        epochs = {self.standings[seat].epoch for seat in members}
        check(len(epochs) <= 1, ONE_GROUP)
        for epoch in epochs:
            check(set(epoch.members) == set(members), ONE_GROUP)
            check(all(self.standings[seat].is_settled for seat in members), NO_HANG)
            before = self.completed
            for _ in range(
                6
            ):  # to the end of the operation in which some are; then one more, which all begin
                for seat in members:
                    self.work(seat)
                self.drain()
            check(self.completed > before, NO_HANG)


@pytest.mark.parametrize("cuts", [False, True], ids=["joins, leaves and deaths", "cut links as well"])
def test_two_hundred_joins_and_leaves_with_operations_between_them(cuts: bool) -> None:
    completed = 0
    for seed in range(200):
        world = World(seed, machine)
        world.run(random.Random(seed).randint(1, 40), cuts=cuts)
        completed += world.completed
    assert completed > 2000


def test_a_member_that_dies_is_named_and_the_others_go_on() -> None:
    world = World(1)
    for _ in range(4):
        world.join()
    world.feed(0, events.Admit((1, 2, 3, 4)))
    world.drain()
    assert [world.standings[seat].epoch for seat in range(5)] == [Epoch(1, (0, 1, 2, 3, 4))] * 5
    world.work(2)
    _, actions = machine.step(world.standings[2], events.Gone(0))
    assert events.Revoke(Epoch(1, (0, 1, 2, 3, 4)), 0, leaves=False) in actions
    world.die(0)
    world.settle()
    assert {world.standings[seat].epoch for seat in (1, 2, 3, 4)} == {Epoch(2, (1, 2, 3, 4))}


def grown(size: int) -> World:
    world = World(7)
    for _ in range(size - 1):
        world.join()
    world.feed(0, events.Admit(tuple(range(1, size))))
    world.drain()
    return world


@pytest.mark.parametrize(
    ("size", "half", "goes_on"), [(2, {0}, set()), (4, {0, 1}, set()), (5, {0, 1}, {2, 3, 4})]
)
def test_of_two_halves_only_a_majority_goes_on(size: int, half: set[int], goes_on: set[int]) -> None:
    world = grown(size)
    for one in half:
        for other in set(range(size)) - half:
            world.cut(one, other)
    world.settle()
    assert {seat for seat in world.standings if not world.standings[seat].stopped} == goes_on


def test_whoever_launched_may_leave_like_anybody_else() -> None:
    world = grown(3)
    world.leave(0)
    world.settle()
    assert world.standings[0].stopped == "this side closed the group"
    assert world.standings[1].epoch == Epoch(2, (1, 2))


def test_a_member_that_leaves_looks_so_even_where_its_own_word_comes_last() -> None:
    world = grown(3)
    world.leave(2)
    seen: list[Any] = []
    for one, other in ((2, 0), (0, 1)):  # what it tells member 1 itself is still on its way
        while queue := world.queues[one, other]:
            event = events.MessageReceived(one, queue.popleft())
            seen += machine.step(world.standings[other], event)[1] if other == 1 else []
            world.feed(other, event)
    assert [action for action in seen if isinstance(action, events.Revoke)] == [
        events.Revoke(Epoch(1, (0, 1, 2)), 2, leaves=True)
    ]


def test_the_last_two_part_without_a_majority_being_asked_for() -> None:
    world = grown(2)
    world.leave(0)
    world.settle()
    assert world.standings[1].epoch == Epoch(2, (1,))


def test_what_a_proposer_had_accepted_before_it_died_is_what_the_next_one_commits() -> None:
    world = grown(3)
    newcomer = 3
    world.join()
    world.feed(0, events.Admit((newcomer,)))
    # 0 and 1 have accepted, and 0 has told the newcomer alone when it dies
    while world.standings[0].epoch.number == 1:
        sender, seat = next(
            (one, other)
            for (one, other), queue in sorted(world.queues.items())
            if queue and not (other == 2 and isinstance(queue[0], Accept))
        )
        world.feed(seat, events.MessageReceived(sender, world.queues[sender, seat].popleft()))
    world.feed(newcomer, events.MessageReceived(0, world.queues[0, newcomer].popleft()))
    assert world.standings[newcomer].epoch == Epoch(2, (0, 1, 2, 3))
    for other in (1, 2):
        world.queues[0, other].clear()
    world.die(0)
    world.settle()
    assert {number: agreed[0] for number, agreed in world.agreed.items()} == {
        0: (0,),
        1: (0, 1, 2),
        2: (0, 1, 2, 3),
        3: (1, 2, 3),
    }


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Prepare(1, (1, 0), ()), "under the ballot of member 0"),
        (Prepare(1, (0, 2), ()), "under the ballot"),
    ],
)
def test_a_member_cannot_speak_for_another(message: Message, words: str) -> None:
    world = grown(3)
    before = world.standings[1]
    with pytest.raises(RemoteProtocolError, match=words):
        machine.step(before, events.MessageReceived(2, message))


def test_who_belongs_to_no_epoch_commits_none() -> None:
    standing = MemberState(1, Epoch(1, (0, 1)))
    with pytest.raises(RemoteProtocolError, match="is not in it or in the one before"):
        machine.step(standing, events.MessageReceived(9, Commit(2, Proposal((0, 1)))))


PLANTS = {
    "a minority goes on": (
        "if 2 * most <= len(members):",
        "if False:",
        {ONE_LIST, ONE_GROUP, NO_HANG},
    ),
    "a promise in the middle of an operation": ("if self.now.busy:\n", "if False:\n", {TRUE_LOSS}),
    "a loss is not told": (
        "self.actions.append(events.SendToAll(Lost(self.now.epoch.number, one, other)))",
        "pass",
        {ONE_GROUP, NO_HANG},
    ),
    "that a member leaves is not told on": (
        "self.actions.append(events.SendToAll(word))",
        "self.actions.extend([events.SendToAll(word)] * (word.seat is None))",
        {NO_FALSE_ALARM},
    ),
    "the next epoch is not told on": (
        "self.actions.append(events.SendToAll(Commit(epoch.number, Proposal(epoch.members, even))))",
        "[self.actions.append(events.SendToMember(s, Commit(epoch.number, Proposal(epoch.members, even)))) "
        "for s in epoch.members if before.round and s != before.me]",
        {ONE_GROUP, NO_HANG, ONE_LIST},
    ),
}


def source_of_machine() -> str:
    """Return the source of the machine with that of `member_state` in it, to plant bugs in both."""
    found, inside = inspect.getsource(machine), inspect.getsource(member_state).partition("annotations\n")[2]
    names = "AgreementRound, MemberState, alive, times_missed"
    imports = f"from duetlink.groups.membership.member_state import {names}\n"
    assert imports in found
    return found.replace(imports, inside)


@pytest.mark.parametrize("name", PLANTS)
def test_each_property_finds_the_bug_that_breaks_it(name: str) -> None:
    right, wrong, expected = PLANTS[name]
    source = source_of_machine()
    assert source.count(right) == 1
    planted = types.ModuleType("planted")
    planted.__dict__["__name__"] = machine.__name__
    exec(compile(source.replace(right, wrong), name, "exec"), planted.__dict__)
    found = ""
    for seed in range(300):
        try:
            World(seed, planted).run(random.Random(seed).randint(1, 40), cuts=True)
        except Broken as broken:
            found = str(broken)
            break
    assert found in expected
