"""Fragments to random members over the links of a real group: they agree, and nobody is waited for."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from duetlink.errors import OperationMismatch, SettingError
from duetlink.groups.api.group import Group
from duetlink.learning import Gossip
from tests.groups.conftest import MakeGroup, make_group, together, until

__all__ = ["make_group"]  # a fixture

SIZE = 3
TURN_S = 0.01  # what a member trains between two calls of `mix`
MOST_MIX_S = 10.0  # on a busy machine; were somebody waited for, it would be PATIENCE_S
PATIENCE_S = 30.0


def filled(value: float) -> nn.Linear:
    model = nn.Linear(400, 30)  # 12,030 parameters: 23 datagrams, or two messages of a stream
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def spread(models: list[nn.Linear]) -> float:
    """How far the members are apart, over all parameters."""
    weights = torch.stack([model.weight.detach() for model in models])
    return float((weights.amax(0) - weights.amin(0)).max())


class Training:
    """Every member mixes in a thread of its own, over and over, until it is stopped."""

    def __init__(self, groups: list[Group], over: str) -> None:
        self.models = [filled(float(rank)) for rank in range(len(groups))]
        made = together(
            groups,
            lambda group: Gossip(
                self.models[group.rank or 0], group, mode="async", over=over, patience_s=PATIENCE_S
            ),
        )
        assert [type(each) for each in made] == [Gossip] * len(groups), made
        self.gossips: list[Gossip] = made
        self.mixed: list[list[Any]] = [[] for _ in groups]
        self.mix_s: list[list[float]] = [[] for _ in groups]
        self._stops = [threading.Event() for _ in groups]
        self._threads = [threading.Thread(target=self._run, args=(rank,)) for rank in range(len(groups))]
        for thread in self._threads:
            thread.start()

    def stop(self, *ranks: int) -> None:
        for rank in ranks:
            self._stops[rank].set()
        for rank in ranks:
            self._threads[rank].join(60)
            assert not self._threads[rank].is_alive()
            self.gossips[rank].close()

    def _run(self, rank: int) -> None:
        while not self._stops[rank].wait(TURN_S):
            began_s = time.monotonic()
            mixed = self.gossips[rank].mix()
            self.mix_s[rank].append(time.monotonic() - began_s)
            self.mixed[rank].append(mixed)


@pytest.mark.parametrize("over", ["datagrams", "streams"])
def test_members_of_a_group_agree_by_fragments_and_go_on_without_one_at_once(
    make_group: MakeGroup, private_audit_log: Path, over: str
) -> None:
    groups = make_group(SIZE)
    training = Training(groups, over)
    until(lambda: spread(training.models) < 0.02)
    assert {(each.reason, each.duration_s) for told in training.mixed for each in told} == {("async", 0.0)}
    training.stop(2)
    groups[2].close()
    gone = len(training.mixed[0])

    def goes_on() -> bool:
        rounds = training.mixed[0][gone:]
        heard = [mixed.received[1] for mixed in rounds]
        return len(rounds) > 20 and max(heard) > 0.0 == rounds[-1].received[2]

    until(goes_on)
    training.stop(0, 1)
    assert max(max(took) for took in training.mix_s) < MOST_MIX_S
    for model in training.models:
        assert 0.0 < float(model.weight.detach().min()) <= float(model.weight.detach().max()) < 2.0
    written = [json.loads(line) for line in private_audit_log.read_text().splitlines()]
    groups_own = [entry for entry in written if entry["kind"] == "group"]
    noted = [entry["size_bytes"] for entry in groups_own if entry["name"] == "gossip"]
    assert len(noted) == 2 * SIZE
    # to two members, 12,030 parameters of two bytes, once at least: how often, the links' pace decides
    assert min(each for each in noted if each) > 2 * 2 * 12_030


@pytest.mark.parametrize("mode", ["rounds", "async"])
def test_a_gossip_over_a_groups_links_goes_on_where_its_file_says(
    make_group: MakeGroup, tmp_path: Path, mode: str
) -> None:
    groups = make_group(2)
    kept = {}

    def begin(group: Group) -> int:
        rank = group.rank or 0
        model = filled(float(rank))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model(torch.ones(1, 400)).sum().backward()
        optimizer.step()
        with Gossip(model, group, mode=mode, patience_s=5.0) as gossip:
            while gossip.round < 5:
                gossip.mix()
            gossip.save(tmp_path / f"{rank}.pt", optimizer)
            kept[rank] = model.weight.detach().clone()
            return int(gossip.round)

    rounds = together(groups, begin)
    assert min(rounds) >= 5

    def resume(group: Group) -> Any:
        rank = group.rank or 0
        model = filled(9.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with Gossip(model, group, mode=mode, patience_s=5.0) as gossip:
            gossip.load(tmp_path / f"{rank}.pt", optimizer)
            came_back = torch.equal(model.weight, kept[rank]), gossip.round
            momentum = float(optimizer.state_dict()["state"][0]["momentum_buffer"].mean())
            gossip.mix()
            return *came_back, momentum, gossip.round

    for rank, found in enumerate(together(groups, resume)):
        assert found[:3] == (True, rounds[rank], 1.0)
        assert found[3] > rounds[rank]


def test_members_that_gossip_in_other_ways_are_told_so_and_left_out(make_group: MakeGroup) -> None:
    groups = make_group(2)

    told = threading.Barrier(2)

    def mix(group: Group) -> Any:
        mode = ("rounds", "async")[group.rank or 0]
        # over streams, since the one datagram by which the other is told may be lost
        with Gossip(filled(0.0), group, mode=mode, over="streams", patience_s=0.5) as gossip:
            for _ in range(3_000):
                try:
                    gossip.mix()
                except OperationMismatch as error:
                    received = gossip.mix().received
                    told.wait(50)
                    return str(error), received
                threading.Event().wait(TURN_S)
            return None

    found = together(groups, mix)
    for other, (said, received) in zip((1, 0), found, strict=True):
        assert said.startswith(f"rank {other} mixes by other settings: ")
        assert received == {}
    with pytest.raises(SettingError, match="takes no graph"):
        Gossip(filled(0.0), groups[0], mode="async", repair=True)
