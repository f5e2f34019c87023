"""Groups of processes: sixteen that start at once, and members that are stopped for less than the limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

MOST_S = 240.0  # sixteen kernels start and make 120 links, perhaps on two cores that others use as well

MEMBER = """
import sys, duetlink
from duetlink.settings import Settings
name, limit_s, size = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
who = dict(name=name, settings=Settings(heartbeat_timeout_s=limit_s), patience_s=limit_s)
group = duetlink.group(sys.argv[4], **who) if len(sys.argv) > 4 else duetlink.group(size=size, **who)
print("code", group.code, flush=True)
for line in sys.stdin:
    print("out", eval(line), flush=True)
"""


class Members:
    """All that are started, each driven by expressions on its standard input."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self._watch: list[threading.Timer] = []

    def start(self, *arguments: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, f"member {len(self.processes)}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.processes.append(process)
        self._watch.append(threading.Timer(MOST_S, process.kill))
        self._watch[-1].start()

    def answer(self, number: int, mark: str = "out") -> str:
        process = self.processes[number]
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(mark):
                return line.removeprefix(mark).strip()
        assert process.stderr is not None
        raise AssertionError(f"member {number} ended: {process.stderr.read()[-2000:]}")

    def all(self, expression: str) -> list[str]:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(expression + "\n")
        return [self.answer(number) for number in range(len(self.processes))]

    def end(self) -> list[str]:
        """What they have printed as errors."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
        found = [process.communicate()[1] for process in self.processes]
        for timer in self._watch:
            timer.cancel()
        return found


@pytest.fixture
def members() -> Iterator[Members]:
    made = Members()
    yield made
    made.end()


def grown(members: Members, size: int, limit_s: float) -> None:
    """The first opens the group; the others start at once. `limit_s` is that of silence, and patience."""
    members.start(str(limit_s), str(size))
    code = members.answer(0, "code")
    for _ in range(size - 1):
        members.start(str(limit_s), str(size), code)
    for number in range(1, size):
        members.answer(number, "code")


def test_sixteen_that_start_at_once_form_a_group(members: Members) -> None:
    grown(members, 16, limit_s=10.0)
    assert members.all("group.wait_ready(200).size") == ["16"] * 16
    assert members.all("group.all_reduce(1, timeout_s=120)") == ["16"] * 16
    assert members.all("group.epoch") == ["1"] * 16
    errors = members.end()
    assert [text for text in errors if "never retrieved" in text] == []


def test_a_member_that_is_stopped_for_less_than_the_limits_costs_nobody_the_group(members: Members) -> None:
    grown(members, 6, limit_s=6.0)
    assert members.all("group.wait_ready(200).size") == ["6"] * 6
    names = "[member.name for member in group.members if member.rank is not None]"
    everybody = members.all(names)
    stopped = members.processes[4]
    for stop_s in (5.0, 4.5, 4.0):
        os.kill(stopped.pid, signal.SIGSTOP)
        threading.Event().wait(stop_s)
        os.kill(stopped.pid, signal.SIGCONT)
        threading.Event().wait(1.0)
    assert members.all("group.all_reduce(1, timeout_s=120)") == ["6"] * 6
    assert members.all(names) == everybody
