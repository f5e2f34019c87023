"""A group whose members are stopped for less than the limits, killed, leave and join.

No sum may be wrong, and no healthy member put out.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duetlink.base.runtime.loop import LoopThread
from duetlink.net.signaling.server import MailboxServer
from duetlink.settings import Settings
from tests.lab.notebook import NotebookError
from tests.soak.kernel import Kernel, Kernels
from tests.soak.restless import MOST

LIMIT_S = Settings().heartbeat_timeout_s
LONGEST_STOP = 0.87  # of the limit: the rest is for a busy machine to notice that it goes on
SETTLE_S = 90.0  # a loss is known after heartbeat_timeout_s and patience_s, on a busy machine later


@dataclass(slots=True)
class Findings:
    """What happened to all groups of a run, how often, and what was wrong."""

    begun_s: float = field(default_factory=time.monotonic)
    done: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class WildGroup:
    """One group, until its time is over or its code is used up."""

    def __init__(
        self,
        kernels: Kernels,
        url: str,
        findings: Findings,
        chance: random.Random,
        *,
        most: int,
        kill_opener: bool,
    ) -> None:
        self._kernels = kernels
        self._url = url
        self._findings = findings
        self._random = chance
        self._most = most
        self._kill_opener = kill_opener
        self._members: dict[int, Kernel] = {}
        self._told: dict[int, dict[str, Any]] = {}  # by everybody who ever was in it
        self._code: str | None = None

    def run(self, until_s: float) -> None:
        try:
            for _ in range(4):
                self._join()
            self._settle()
            while not self._findings.faults and time.monotonic() < until_s and not self._is_used_up:
                self._burst()
                self._settle()
            self._compare()
        except NotebookError as error:
            self._findings.faults.append(str(error))
        finally:
            self._end()

    @property
    def _is_used_up(self) -> bool:
        """Nobody can join or go any more."""
        return len(self._told) == MOST and len(self._members) < 4

    # -- what happens to them --------------------------------------------------------------------------------

    def _burst(self) -> None:
        """Up to three things at once, of which one at most takes a member away: the rest is a majority."""
        may_go = len(self._members) >= 4
        for _ in range(self._random.randint(1, 3)):
            kind = self._random.random()
            if kind < 0.5:
                self._stop_some()
            elif kind < 0.75 and len(self._members) < self._most and len(self._told) < MOST:
                self._join()
            elif may_go:
                may_go = False
                victim = self._random.choice([each for each in self._members if each or self._kill_opener])
                self._kill(victim) if self._random.random() < 0.7 else self._leave(victim)

    def _join(self) -> None:
        number = len(self._told)
        self._told[number] = {}
        member = self._kernels.start(
            f"member {number}", "restless", number=number, code=self._code, signaling=self._url
        )
        self._members[number] = member
        self._say("joins", number)
        self._code = member.run("out = side.code") if self._code is None else self._code
        member.did("begin()")

    def _stop_some(self) -> None:
        """One or two, up to three times in a row, each time for less than the limit."""
        chosen = self._random.sample(sorted(self._members), self._random.choice((1, 1, 2)))
        for _ in range(self._random.choice((1, 1, 3))):
            time_s = self._random.uniform(0.1, LONGEST_STOP) * LIMIT_S
            self._say(f"stops for {time_s:.1f} s", *chosen)
            for number in chosen:
                self._members[number].stop()
            _wait(time_s)
            for number in chosen:
                self._members[number].go_on()
            _wait(self._random.uniform(0.2, 3.0))

    def _kill(self, number: int) -> None:
        self._say("is killed", number)
        self._ask(number)
        member = self._members.pop(number)
        member.kill()
        member.close()

    def _leave(self, number: int) -> None:
        self._say("leaves", number)
        member = self._members.pop(number)
        member.did("close()")
        self._told[number] = member.did("told()")
        member.close()

    # -- how they are ----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait until each has summed with all who are there. One that cannot is a fault."""
        wanted, until_s = sorted(self._members), time.monotonic() + SETTLE_S
        while time.monotonic() < until_s:
            for number in wanted:
                self._ask(number)
            if any(self._told[number]["wrong"] for number in wanted):
                break
            if all(self._told[number]["latest"] == wanted for number in wanted):
                return
            _wait(0.2)
        for number in wanted:
            told = self._told[number]
            self._findings.faults += [f"member {number}: {wrong}" for wrong in told["wrong"]]
            if told["latest"] != wanted:
                why = told["error"] or "no error"
                self._findings.faults.append(
                    f"member {number} has not summed with {wanted} within {SETTLE_S:g} s; its last sum was "
                    f"of {told['latest']}, its group is {told['state']}, {why}"
                )

    def _ask(self, number: int) -> None:
        self._told[number] = self._members[number].did("told()")

    def _compare(self) -> None:
        """All members of an epoch have sums of the same members."""
        epochs: dict[str, list[int]] = {}
        for number, told in self._told.items():
            for epoch, made_of in told.get("made of", {}).items():
                if epochs.setdefault(epoch, made_of) != made_of:
                    self._findings.faults.append(
                        f"epoch {epoch}: member {number} has sums of {made_of}, others of {epochs[epoch]}"
                    )
        self._findings.done["epochs"] += len(epochs)

    def _end(self) -> None:
        self._findings.done["sums"] += sum(told.get("sums", 0) for told in self._told.values())
        for member in self._members.values():
            with contextlib.suppress(BrokenPipeError):
                member.do("close()")
        for member in self._members.values():
            member.close()

    def _say(self, what: str, *numbers: int) -> None:
        self._findings.done[what.split(" for")[0]] += len(numbers)
        who = " and ".join(f"member {number}" for number in numbers)
        print(f"{time.monotonic() - self._findings.begun_s:7.1f} s  {who} {what}", flush=True)


def chaos(minutes: float, *, seed: int, most: int, kill_opener: bool) -> Findings:
    """One group after the other, with a signaling server of their own."""
    findings, chance = Findings(), random.Random(seed)
    thread, server = LoopThread("signaling"), MailboxServer()
    try:
        host, port = thread.run(server.start("127.0.0.1", 0))
        with (
            tempfile.TemporaryDirectory(prefix="chaos-") as home,
            contextlib.closing(Kernels(Path(home))) as kernels,
        ):
            until_s = findings.begun_s + 60 * minutes
            while not findings.faults and time.monotonic() < until_s:
                url = f"ws://{host}:{port}"
                group = WildGroup(kernels, url, findings, chance, most=most, kill_opener=kill_opener)
                group.run(until_s)
        thread.run(server.stop())
    finally:
        thread.stop()
    return findings


def _wait(time_s: float) -> None:
    threading.Event().wait(time_s)
