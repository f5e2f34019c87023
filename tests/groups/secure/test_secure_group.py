"""Secure sums as a person calls them: three notebooks' groups, over real links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duetlink.errors import GroupError, OperationRefused, PeerLost, PutOut, SecureSumFailed, SettingError
from duetlink.groups.api.group import Group
from duetlink.groups.secure.accountable_round import AccountableRound
from duetlink.groups.secure.masked_round import MaskedRound
from duetlink.testing.faults import life_of
from tests.groups.conftest import MakeGroup, together


def give(group: Group, **arguments: Any) -> Any:
    rank = group.rank
    assert rank is not None
    return group.all_reduce(np.full(3, rank + 1.0), secure=True, **arguments)


def test_a_sum_an_average_and_what_the_audit_log_and_the_guard_say(
    make_group: MakeGroup, private_audit_log: Path
) -> None:
    groups = make_group(3, only=("secure_sum",))
    for found in together(groups, give):
        np.testing.assert_allclose(found, 6.0, atol=1e-9)

    def average(group: Group) -> Any:
        rank = group.rank
        assert rank is not None
        value = {"x": np.full(1, rank, np.float32)}
        return group.average(value, (1.0, 0.0, 3.0)[rank], secure=True, limit=4.0)

    for found in together(groups, average):
        np.testing.assert_allclose(found["x"], 1.5, atol=1e-6)
    for plain in (
        lambda g: g.all_reduce(np.ones(2)),
        lambda g: g.average(np.ones(2)),
        lambda g: g.all_gather(1),
    ):
        assert {type(each) for each in together(groups, plain)} == {OperationRefused}
    with pytest.raises(SettingError, match="limit, noise is for secure sums: say secure=True"):
        groups[0].all_reduce(np.ones(2), limit=1.0, noise=2.0)
    with pytest.raises(SettingError, match="in_place, algorithm and codec"):
        groups[0].all_reduce(np.ones(2), secure=True, in_place=True)
    lines = [json.loads(line) for line in private_audit_log.read_text().splitlines()]
    text = json.dumps(lines)
    assert text.count('"secure_all_reduce"') == 3
    assert text.count('"secure_average"') == 3


def test_a_sum_of_two_says_why_not(make_group: MakeGroup) -> None:
    for error in together(make_group(2), give):
        assert isinstance(error, GroupError)
        assert "hides nothing" in str(error)


def test_who_gave_garbage_is_named_at_all_and_the_group_goes_on(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = make_group(3)
    mask = AccountableRound.mask

    async def garbage(self: AccountableRound, wire: Any, arrays: Any) -> None:
        if self.rank == 1:
            arrays[0][:] = 2**60
        await mask(self, wire, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(AccountableRound, "mask", garbage)
        for call in (give, lambda group, **options: group.average(np.ones(3), secure=True, **options)):
            for found in together(groups, lambda group, call=call: call(group, accountable=True)):  # type: ignore[misc]
                assert isinstance(found, SecureSumFailed), found
                assert (found.ranks, found.names) == ((1,), ("member 1",))
    for found in together(groups, lambda group: give(group, accountable=True, limit=4.0)):
        np.testing.assert_allclose(found, 6.0, atol=1e-7)
    with pytest.raises(SettingError, match="accountable is for secure sums: say secure=True"):
        groups[0].average(np.ones(2), accountable=True)


def test_members_that_are_lost_are_made_up_for(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the sum is opened: it is finished with the lost value. Before: it begins anew without it."""
    groups = make_group(5, on_loss="continue")
    victims = {group.rank: group for group in groups}
    dying = {"open": 4, "mask": 3}

    def doomed(step: str) -> Any:
        original = getattr(MaskedRound, step)

        async def run(self: MaskedRound, *arguments: Any) -> Any:
            if self.rank == dying[step] and self.participants.size == self.rank + 1:
                for peer in list(life_of(victims[self.rank]).peers.values()):
                    if peer.link is not None:
                        await peer.link.close("killed")
                raise PeerLost("it is dead")
            return await original(self, *arguments)

        return run

    for step in dying:
        monkeypatch.setattr(MaskedRound, step, doomed(step))
    found = together(groups, give)
    assert isinstance(found[4], PeerLost | PutOut)  # whichever it hears first
    for each in found[:4]:
        np.testing.assert_allclose(each, 15.0, atol=1e-9)
    found = together(groups[:4], give)
    assert isinstance(found[3], PeerLost | PutOut)
    for each in found[:3]:
        np.testing.assert_allclose(each, 6.0, atol=1e-9)
