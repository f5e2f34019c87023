"""A group whose members are in networks of every sort: met by one code, summed, one killed, and summed again.

`python -m tests.groups` does the same with more mixes of networks.
"""

from __future__ import annotations

import pytest

from tests.lab.group_mixes import MIXED, Mix
from tests.lab.lab import Lab

pytestmark = pytest.mark.slow


def test_three_in_different_networks_work_and_go_on_without_one_that_is_killed(lab: Lab) -> None:
    with Mix(lab, MIXED) as mix:
        mix.meet()
        assert len(set(mix.all("out = group.verifier"))) == 1
        assert mix.relayed() == mix.expected()
        digests = mix.work()
        assert digests == [digests[0]] * 3
        explained = mix.all("out = str(group.explain('all_reduce', 8_000_000))")
        assert explained == [explained[0]] * 3
        assert "relayed: 2 of 6 directions" in explained[0]
        names = list(mix.kinds)
        heard = mix.lose(1, after=5)
        assert heard == [[1, names[1], True]] * 2
        after = "out = [float(group.all_reduce(np.ones(3)).sum()), group.size, group.epoch]"
        assert mix.all(after) == [[6.0, 2, 2]] * 2
