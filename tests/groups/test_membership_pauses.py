"""Epochs while members are stopped for less than the limits, and while single links are late or lost.

`Timed` has time: heartbeats, silence, patience, and connections that need both sides awake. A member that
is stopped hears nothing and says nothing, and finds its timers due when it goes on.
"""

from __future__ import annotations

import itertools
import random
import types
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from duetlink.groups.membership import events, machine
from duetlink.groups.membership.member_state import MemberState
from duetlink.groups.membership.messages import Epoch
from tests.groups.test_membership_machine import source_of_machine

STEP_S = 0.5
BEAT_S = 2.0
SILENCE_S = 10.0  # as heartbeat_timeout_s
PATIENCE_S = 10.0  # as patience_s
LONG_S = 120.0  # long after everything that is made to happen here

HEALTHY = "who was never stopped is not put out"
ALL_STAY = "a link that comes back within the limits costs no member"
STOPPED_GOES = "of a pair without a link, the one that was stopped goes"
ONE_GOES = "of a pair that is apart for good, one goes"
IN_TIME = "a member that died is out within the limits"
ONE_LIST = "an epoch has one list of members"


class Broken(AssertionError):
    """A property does not hold."""


def check(holds: object, which: str) -> None:
    if not holds:
        raise Broken(which)


@dataclass
class End:
    """One member's end of a link."""

    inbox: deque[Any] = field(default_factory=deque)  # what has been sent to it
    heard_s: float = 0.0
    looks: bool = False  # for the other side, after a silence
    left_s: float = 0.0  # of its patience, while it looks
    has_waited: bool = False
    is_open: bool = True


class Timed:
    """`stepper` is the machine, or one with a planted bug."""

    def __init__(self, size: int, stepper: Any = machine) -> None:
        self.machine = stepper
        self.now_s = 0.0
        epoch = Epoch(1, tuple(range(size)))
        self.standings: dict[int, Any] = {seat: MemberState(seat, epoch) for seat in range(size)}
        pairs = itertools.permutations(range(size), 2)
        self.ends: dict[tuple[int, int], End] = {pair: End() for pair in pairs}
        self.stopped_until_s: dict[int, float] = dict.fromkeys(range(size), 0.0)
        self.woken_s: dict[int, float] = dict.fromkeys(range(size), 0.0)
        self.dead: set[int] = set()
        self.cuts: dict[frozenset[int], float] = {}  # until when nothing passes between these two
        self.late_s: dict[frozenset[int], float] = {}  # how long their next connection takes
        self.connecting_s: dict[frozenset[int], float] = {}
        self.lists: dict[int, tuple[int, ...]] = {}

    # -- what is made to happen ------------------------------------------------------------------------------

    def stop(self, seat: int, time_s: float) -> None:
        """Late links carry nothing until some time after it: what was sent meanwhile is sent again later."""
        self.stopped_until_s[seat] = self.now_s + time_s
        for pair, late_s in self.late_s.items():
            if seat in pair:
                self.cuts[pair] = self.now_s + time_s + late_s

    def cut(self, one: int, other: int, time_s: float) -> None:
        self.cuts[frozenset((one, other))] = self.now_s + time_s

    def awake(self, seat: int) -> bool:
        return seat not in self.dead and self.stopped_until_s[seat] <= self.now_s

    def passes(self, one: int, other: int) -> bool:
        return self.cuts.get(frozenset((one, other)), 0.0) <= self.now_s

    def members(self) -> set[int]:
        return {
            seat
            for seat, standing in self.standings.items()
            if seat not in self.dead and standing.is_member and not standing.stopped
        }

    # -- time ------------------------------------------------------------------------------------------------

    def run(self, time_s: float) -> None:
        for _ in range(int(time_s / STEP_S)):
            before = {seat for seat in self.standings if self.awake(seat)}
            self.now_s += STEP_S
            for seat in self.standings:
                if self.awake(seat):
                    slept_s = 0.0 if seat in before else self.now_s - self.woken_s[seat]
                    self.live(seat, slept_s)
                    self.woken_s[seat] = self.now_s
            self.connect()

    def live(self, seat: int, slept_s: float) -> None:
        """One step of one member: its timers first, as they are due when it wakes."""
        if slept_s > 2 * BEAT_S:
            self.feed(seat, events.Missed(seat))
        for other in self.standings:
            end = self.ends.get((seat, other))
            if end is None or not end.is_open:
                continue
            if end.looks:
                end.left_s -= STEP_S  # and no more, however long this side was stopped
                if end.left_s <= 0 and not end.has_waited:
                    end.has_waited = True
                    end.left_s += PATIENCE_S
                    self.feed(seat, events.Waited(other))
                if end.left_s <= 0 and end.is_open:
                    self.end(seat, other)
            elif slept_s:  # the silence may be its own
                end.heard_s = max(end.heard_s, self.now_s - SILENCE_S + BEAT_S)
        for other in self.standings:
            if (seat, other) in self.ends:
                self.listen(seat, other)
                if self.now_s % BEAT_S == 0:
                    self.send(seat, other, None)

    def listen(self, seat: int, other: int) -> None:
        end = self.ends[seat, other]
        if not end.is_open:
            return
        if end.inbox and self.passes(seat, other):
            end.heard_s = self.now_s
            if end.looks:
                self.found(seat, other)
            while end.inbox and end.is_open:
                message = end.inbox.popleft()
                if message is END:
                    end.is_open = False
                    self.feed(seat, events.Gone(other))
                elif message is not None:
                    self.feed(seat, events.MessageReceived(other, message))
        elif not end.looks and self.now_s - end.heard_s > SILENCE_S:
            end.looks, end.left_s = True, PATIENCE_S
            self.feed(seat, events.Missed(other))

    def connect(self) -> None:
        """A new connection takes its time, in which both sides have to be awake and looking."""
        for one, other in itertools.combinations(self.standings, 2):
            pair = frozenset((one, other))
            both = [self.ends[one, other], self.ends[other, one]]
            if not (all(end.looks and end.is_open for end in both) and self.passes(one, other)):
                self.connecting_s.pop(pair, None)
            elif self.awake(one) and self.awake(other):
                self.connecting_s[pair] = self.connecting_s.get(pair, 0.0) + STEP_S
                if self.connecting_s[pair] >= self.late_s.get(pair, 1.0):
                    for seat, peer in ((one, other), (other, one)):
                        self.ends[seat, peer].heard_s = self.now_s
                        self.found(seat, peer)

    def found(self, seat: int, other: int) -> None:
        end = self.ends[seat, other]
        end.looks = end.has_waited = False
        self.feed(seat, events.Found(other))

    # -- the machine -----------------------------------------------------------------------------------------

    def feed(self, seat: int, event: Any) -> None:
        self.standings[seat], actions = self.machine.step(self.standings[seat], event)
        for action in actions:
            match action:
                case events.SendToMember(to, message):
                    self.send(seat, to, message)
                case events.SendToAll(message):
                    for other in self.standings:
                        self.send(seat, other, message)
                case events.GiveUp(other):
                    self.end(seat, other)
                case events.Enter(epoch, _):
                    check(self.lists.setdefault(epoch.number, epoch.members) == epoch.members, ONE_LIST)
                case events.Stop():
                    for other in self.standings:
                        self.end(seat, other)

    def send(self, seat: int, other: int, message: object) -> None:
        """Messages wait for a connection; heartbeats, which are None, do not."""
        if seat == other or not self.ends[seat, other].is_open or not self.ends[other, seat].is_open:
            return
        if message is None and not self.passes(seat, other):
            return
        self.ends[other, seat].inbox.append(message)

    def end(self, seat: int, other: int) -> None:
        if seat != other and self.ends[seat, other].is_open:
            self.send(seat, other, END)
            self.ends[seat, other].is_open = False
            self.feed(seat, events.Gone(other))


END = object()


def stops_of_one(seed: int, stepper: Any = machine) -> None:
    """One member is stopped several times for less than the limits; with some its links come back late."""
    fate = random.Random(seed)
    world = Timed(fate.randint(3, 8), stepper)
    seats = list(world.standings)
    stopped = fate.choice(seats)
    for other in seats:
        if other != stopped and fate.random() < 0.3:
            world.late_s[frozenset((stopped, other))] = fate.choice((4.0, 8.0, 12.0))
    world.run(fate.uniform(5.0, 9.0))
    for _ in range(fate.randint(2, 4)):
        world.stop(stopped, fate.choice((6.0, 8.0, 8.5, 9.5)))
        world.run(fate.uniform(8.0, 12.0))
    world.run(LONG_S)
    check(set(seats) - {stopped} <= world.members(), HEALTHY)


def a_cut_between_two(seed: int, stepper: Any = machine) -> None:
    """The link of two members is lost for longer than one waits for a member, and comes back."""
    fate = random.Random(seed)
    world = Timed(fate.randint(3, 8), stepper)
    one, other = fate.sample(list(world.standings), 2)
    world.run(fate.uniform(2.0, 6.0))
    world.cut(one, other, fate.uniform(2.0, 24.0))
    world.run(LONG_S)
    check(world.members() == set(world.standings), ALL_STAY)


def a_cut_for_good(seed: int, stepper: Any = machine) -> None:
    fate = random.Random(seed)
    world = Timed(fate.randint(3, 8), stepper)
    one, other = fate.sample(list(world.standings), 2)
    world.run(4.0)
    if stops := fate.random() < 0.5:
        world.stop(one, 8.0)
        world.run(fate.uniform(9.0, 12.0))
    world.cut(one, other, 10 * LONG_S)
    world.run(LONG_S)
    missing = set(world.standings) - world.members()
    check(len(missing) == 1 and missing <= {one, other}, ONE_GOES)
    check(not stops or missing == {one}, STOPPED_GOES)


def a_death(seed: int, stepper: Any = machine) -> None:
    fate = random.Random(seed)
    world = Timed(fate.randint(3, 8), stepper)
    victim = fate.choice(list(world.standings))
    world.run(fate.uniform(2.0, 6.0))
    world.dead.add(victim)
    world.run(SILENCE_S + PATIENCE_S + 2 * BEAT_S)
    left = set(world.standings) - {victim}
    check(world.members() == left, HEALTHY)
    check(all(set(world.standings[seat].epoch.members) == left for seat in left), IN_TIME)


FATES = [stops_of_one, a_cut_between_two, a_cut_for_good, a_death]


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__.replace("_", " "))
def test_whoever_was_healthy_stays(fate: Any) -> None:
    for seed in range(150):
        fate(seed)


PLANTS = {
    "one word is enough": (
        "if now.is_member and seat in members and any(self.now.hears(other, seat) for other in heard):",
        "if False:",
        a_cut_between_two,
        ALL_STAY,
    ),
    "what was missed does not count": (
        "return sum(missed == seat for _, missed in state.missed)",
        "return 0",
        stops_of_one,
        HEALTHY,
    ),
    "what was missed is not told on": (
        "self.actions.append(events.SendToAll(Missing(now.epoch.number, by, seat)))",
        "self.actions.extend("
        "[events.SendToAll(Missing(now.epoch.number, by, seat))] * (by == now.me != seat))",
        a_cut_for_good,
        STOPPED_GOES,
    ),
    "that a member is missed is not told": (
        "self.actions.append(events.SendToAll(Missing(now.epoch.number, by, seat)))",
        "pass",
        a_death,
        IN_TIME,
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_each_property_finds_the_bug_that_breaks_it(name: str) -> None:
    right, wrong, fate, expected = PLANTS[name]
    source = source_of_machine()
    assert source.count(right) == 1
    planted = types.ModuleType("planted")
    planted.__dict__["__name__"] = machine.__name__
    exec(compile(source.replace(right, wrong), name, "exec"), planted.__dict__)
    found = ""
    for seed in range(150):
        try:
            fate(seed, planted)
        except Broken as broken:
            found = str(broken)
            break
    assert found == expected
