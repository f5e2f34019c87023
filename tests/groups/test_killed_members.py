"""Three members in three processes, of which one is killed in the middle of an operation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MEMBER = Path(__file__).with_name("member.py")
ELEMENTS = 4_000_000  # 32 MB
MOST_TELLING_S = 2.0  # from when the first survivor knows of a loss until every survivor's call has raised it

# Each kind of operation once more, as the one in whose middle a member dies: `python -m tests.groups`.
KINDS = {
    "shared memory": "group.all_reduce(x, in_place=True)",
    "reduce": "group.reduce(x, 0)",
    "broadcast": "group.broadcast(x, 1)",
    "reduce_scatter": "group.reduce_scatter([x, x, x])",
    "all_gather": "group.all_gather(x)",
    "gather": "group.gather(x, 0)",
    "scatter": "group.scatter([x, x, x], 1)",
    "all_to_all": "group.all_to_all([x, x, x])",
    "barrier": "group.barrier()",
    "average": "group.average({'x': x}, weight=2.0)",
    "sync": "group.sync({'x': x})",
    "recv": "group.recv(2)",
}


class Process:
    """One member; `run` executes a statement there and returns what it answers."""

    def __init__(self, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(MEMBER), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def begin(self, statement: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")

    def answer(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(("ok ", "error ")):
                return line.strip()
        raise AssertionError(f"the member's process ended with {self.process.wait()}")

    def run(self, statement: str) -> str:
        self.begin(statement)
        return self.answer()

    def end(self) -> None:
        self.process.kill()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def telling_s(others: list[Process]) -> float:
    """From when the first of them knew of the loss until the last one's call had failed with it."""
    times = [
        json.loads(each.run("out = [times['known'], times['failed']]").removeprefix("ok ")) for each in others
    ]
    return float(max(failed for _, failed in times) - min(known for known, _ in times))


@pytest.fixture
def members() -> Iterator[list[Process]]:
    """ann launches; ben and carl join. By rank."""
    made = [Process(name) for name in ("ann", "ben", "carl")]
    try:
        assert made[0].run("") == "ok None"
        code = made[0].run("out = group.code").removeprefix("ok ").strip("'")
        assert [each.run(code) for each in made[1:]] == ["ok None"] * 2
        for each in made:
            assert each.run("out = group.wait_ready(60).size") == "ok 3"
        yield made
    finally:
        for each in made:
            each.end()


@pytest.mark.parametrize(("victim", "name"), [(2, "carl"), (0, "ann")], ids=["who joined", "who launched"])
def test_a_member_killed_in_the_middle_of_a_sum_is_named_and_the_others_go_on(
    members: list[Process], victim: int, name: str
) -> None:
    others = [each for rank, each in enumerate(members) if rank != victim]
    for rank, each in enumerate(members):
        assert each.run(f"x = np.full({ELEMENTS}, {rank + 1}.0); before = x.copy()") == "ok None"
    for each in members:
        each.begin("group.barrier()")
    assert [each.answer() for each in members] == ["ok None"] * 3
    members[victim].run("die_in_the_middle(4)")
    for each in members:
        each.begin("group.all_reduce(x, in_place=True, algorithm='ring')")
    for each in others:
        assert each.answer() == f"error PeerLost rank {victim} ({name}) is lost"
        assert each.run("out = bool((x == before).all())") == "ok True"
    assert 0 < telling_s(others) < MOST_TELLING_S
    assert members[victim].process.wait(30) == -9
    for each in others:
        each.begin("y = group.all_reduce(x); out = (float(y[0]), float(y[-1]), group.size, group.epoch)")
    total = sum(rank + 1.0 for rank in range(3) if rank != victim)
    assert [each.answer() for each in others] == [f"ok ({total}, {total}, 2, 2)"] * 2


if os.environ.get("DUETLINK_KILLS"):  # a minute and a half; in memory, test_losses.py does the same

    @pytest.mark.parametrize("name", KINDS)
    def test_a_member_killed_while_the_others_wait_in_any_operation(
        members: list[Process], name: str
    ) -> None:
        others = members[:2]
        for rank, each in enumerate(members):
            each.run(f"x = np.full({ELEMENTS}, {rank + 1}.0); before = x.copy()")
            each.begin("group.barrier()")
        assert [each.answer() for each in members] == ["ok None"] * 3
        for each in others:
            each.begin(KINDS[name])
        assert others[0].process.poll() is None
        members[2].process.kill()
        for each in others:
            lost = each.answer()
            if lost.startswith("ok"):  # it only sent; the next operation tells
                lost = each.run("group.barrier()")
            assert lost == "error PeerLost rank 2 (carl) is lost"
            assert each.run("out = bool((x == before).all())") == "ok True"
        assert 0 < telling_s(others) < MOST_TELLING_S
        for each in others:
            each.begin("out = (group.all_reduce(1), group.size)")
        assert [each.answer() for each in others] == ["ok (2, 2)"] * 2
