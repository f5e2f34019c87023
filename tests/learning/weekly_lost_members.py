"""Processes of members are killed and stopped while all train: the others go on, whatever the training.

`pytest tests/learning/weekly_lost_members.py`. Processes that load torch are too much for each change: the
name keeps it out of what pytest collects by itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from duetlink.errors import PeerLost
from tests.groups.conftest import together
from tests.learning import lost_member

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["tests.learning.lost_member"])
MOST_S = 50.0
MOST_STEPS = 2_000


class Victim:
    """A member in a process of its own."""

    def __init__(self, way: str, kind: str, name: str, code: str) -> None:
        self.name = name
        self.process = FORKING.Process(target=lost_member.train, args=(way, kind, name, code), daemon=True)
        self.process.start()

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.process.kill()
        self.process.join(30)
        self.process.close()


class Field:
    """Two members in this process, and two whose processes can be killed and stopped."""

    def __init__(self, way: str, kind: str) -> None:
        first = lost_member.join(kind, "ann")
        assert first.code is not None
        self.groups = [first, lost_member.join(kind, "ben", first.code)]
        self.killed = Victim(way, kind, "carl", first.code)
        self.stopped = Victim(way, kind, "dora", first.code)
        for group in self.groups:
            group.wait_ready(60)
        self.ranks = {each.name: each.rank for each in first.status().members}
        self.models = [lost_member.make_model() for _ in self.groups]
        made = together(
            self.groups, lambda group: lost_member.begin(way, group, self.models[self.groups.index(group)])
        )
        self.trainings = [training for training, _ in made]
        self.steps = [step for _, step in made]

    def each(self, call: Any) -> list[Any]:
        """What `call(place)` gives at both members of this process at once; raises what one of them did."""
        found = together(self.groups, lambda group: call(self.groups.index(group)))
        for each in found:
            if isinstance(each, Exception):
                raise each
        return found

    def close(self) -> None:
        together(self.groups, lambda group: group.close())
        for victim in (self.killed, self.stopped):
            victim.end()


@pytest.fixture
def field(request: pytest.FixtureRequest) -> Iterator[Field]:
    made = Field(*request.param)
    try:
        yield made
    finally:
        made.close()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()])


# Rounds of gossip are tried so in test_gossip_udp.py.
@pytest.mark.parametrize("field", [("async", "gossip")], indirect=True, ids=["async"])
def test_gossip_goes_on_beside_a_killed_and_a_stopped_process(field: Field) -> None:
    carl, dora = field.ranks["carl"], field.ranks["dora"]

    def mix_until(place: int, holds: Any) -> list[float]:
        """Seconds of each call of `mix`, until one gives what is wanted."""
        took_s: list[float] = []
        ends_s = time.monotonic() + MOST_S
        while time.monotonic() < ends_s:
            began_s = time.monotonic()
            mixed = field.steps[place]()
            took_s.append(time.monotonic() - began_s)
            if holds(mixed, len(took_s)):
                return took_s
            threading.Event().wait(lost_member.PAUSE_S)
        raise AssertionError(f"not so in {len(took_s)} rounds")

    heard = [set[int](), set[int]()]

    def hears_both(place: int, mixed: Any) -> bool:
        heard[place] |= {of for of, share in mixed.received.items() if share > 0}
        return heard[place] >= {carl, dora}

    field.each(lambda place: mix_until(place, lambda mixed, _: hears_both(place, mixed)))
    field.killed.send(signal.SIGKILL)
    field.stopped.send(signal.SIGSTOP)
    for took_s in field.each(lambda place: mix_until(place, lambda _, rounds: rounds == 25)):
        # were they waited for, each of 25 rounds would take as long as one may
        assert statistics.median(took_s) < 1.0
        assert sum(took_s) < 4 * lost_member.PATIENCE_S
    field.stopped.send(signal.SIGCONT)
    field.each(lambda place: mix_until(place, lambda mixed, _: mixed.received[dora] > 0))
    for training in field.trainings:
        assert training.mix().received[carl] == 0.0
        training.close()


@pytest.mark.parametrize("field", [("local steps", "steps")], indirect=True, ids=["local steps"])
def test_local_steps_go_on_beside_a_killed_and_a_stopped_process(field: Field) -> None:
    def step_until(place: int, names: set[str]) -> None:
        """Until a round was given to by these and by nobody else."""
        for _ in range(MOST_STEPS):
            field.steps[place]()
            if set(field.trainings[place].rounds[-1].gave) == names:
                return
        raise AssertionError(field.trainings[place].rounds[-5:])

    field.each(lambda place: step_until(place, {"ann", "ben", "carl", "dora"}))
    # one after the other: two of four that lose the others at once are no majority
    field.killed.send(signal.SIGKILL)
    field.each(lambda place: step_until(place, {"ann", "ben", "dora"}))
    field.stopped.send(signal.SIGSTOP)
    field.each(lambda place: step_until(place, {"ann", "ben"}))
    field.each(lambda place: field.trainings[place].close())
    assert field.trainings[0].rounds[-1].size == 2
    assert torch.equal(flat(field.models[0]), flat(field.models[1]))


@pytest.mark.parametrize("field", [("private", "steps")], indirect=True, ids=["private"])
def test_private_training_tells_of_a_killed_and_of_a_stopped_process_and_goes_on(field: Field) -> None:
    def step_until_lost(place: int) -> str:
        for _ in range(MOST_STEPS):
            try:
                field.steps[place]()
            except PeerLost as error:
                # the step may have ended well at another member
                field.groups[place].sync(field.models[place])
                return str(error)
        raise AssertionError("nobody was lost")

    def step(place: int) -> int:
        field.steps[place]()
        return int(field.groups[place].size)

    for victim, number, size in ((field.killed, signal.SIGKILL, 3), (field.stopped, signal.SIGSTOP, 2)):
        assert field.each(step) == [size + 1] * 2
        victim.send(number)
        for said in field.each(step_until_lost):
            # which rank it had, the loss before has changed
            assert said.endswith(f" ({victim.name}) is lost")
        assert field.each(step) == [size] * 2
        assert torch.equal(flat(field.models[0]), flat(field.models[1]))
    steps = [training.spending.steps for training in field.trainings]
    # those that a loss has interrupted are paid for, which one member may have had one more of each time
    assert min(steps) >= 6
    assert max(steps) - min(steps) <= 2
