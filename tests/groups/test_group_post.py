"""Gossip among the members of a group, over real links: by datagrams and by streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from duetlink.errors import OperationRefused, SettingError
from duetlink.groups.api.group import Group
from duetlink.learning import Gossip

from .conftest import MakeGroup, together


def filled(value: float) -> nn.Linear:
    model = nn.Linear(400, 30)  # 12,030 parameters: several chunks also over streams
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def furthest(model: nn.Module, value: float) -> float:
    return max(float((parameter.detach() - value).abs().max()) for parameter in model.parameters())


def test_members_of_a_group_gossip_over_their_links_and_go_on_without_one(
    make_group: MakeGroup, private_audit_log: Path
) -> None:
    groups = make_group(3)

    def over_streams(group: Group) -> Any:
        model = filled(float(group.rank or 0))
        with Gossip(model, group, over="streams", precision="float32") as gossip:
            mixed = gossip.mix()
        return mixed.reason, mixed.share, furthest(model, 1.0)

    # a ring of three: everybody is everybody's neighbour, so that one round gives the mean of all
    for reason, share, off in together(groups, over_streams):
        assert (reason, share) == ("complete", 1.0)
        assert off < 1e-6

    def over_datagrams(group: Group) -> Any:
        model = filled(float(group.rank or 0))
        gossip = Gossip(model, group, patience_s=5.0)
        for _ in range(6):
            mixed = gossip.mix()
        if group.rank == 2:
            gossip.close()
            group.close()
            return model.weight.detach(), mixed
        for _ in range(5):
            mixed = gossip.mix()
        gossip.close()
        return model.weight.detach(), mixed

    first, second, gone = together(groups, over_datagrams)
    # what is lost moves the mean, and they agree all the same
    assert float((first[0] - second[0]).abs().max()) < 0.05
    assert 0 <= float(gone[0].min()) <= float(gone[0].max()) <= 2
    for _, mixed in (first, second):
        assert mixed.received[2] == 0.0
        assert max(mixed.received.values()) > 0.5
    written = [json.loads(line) for line in private_audit_log.read_text().splitlines()]
    noted = [entry for entry in written if entry["kind"] == "group" and entry["name"] == "gossip"]
    # two neighbours, and 12,030 parameters of four bytes
    assert max(entry["size_bytes"] for entry in noted) > 2 * 4 * 12_030


def test_a_group_that_does_not_allow_gossip_refuses_it(make_group: MakeGroup) -> None:
    groups = make_group(2, only=("average",))
    with pytest.raises(OperationRefused, match="gossip is not among"):
        groups[0].post()
    allowed = make_group(2, only=("gossip",))
    with pytest.raises(SettingError, match="there are datagrams, streams"):
        allowed[0].post("pigeons")
