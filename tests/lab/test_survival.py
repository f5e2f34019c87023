"""Links that survive in real networks: a host that moves to another one, and one that sleeps.

`python -m tests.lab.test_survival SECONDS` puts a notebook to sleep for longer than a test may take.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest

from tests.lab.lab import Lab
from tests.lab.notebook import Notebook

pytestmark = pytest.mark.slow

SIZE_MIB = 24
RATE_MBIT = 40.0  # the transfer takes five seconds
SLEEP_S = 40.0  # longer than a carrier and a NAT wait for a sign of life

QUICK = "dataclasses.replace(Settings.from_environment(), heartbeat_timeout_s=4.0)"


class Pair:
    """An owner and a scientist whose link is up; the scientist fetches while both send messages."""

    def __init__(self, lab: Lab, owner_kind: str, scientist_kind: str) -> None:
        self.lab = lab
        self.owner = Notebook(lab.host(owner_kind))
        self.scientist = Notebook(lab.host(scientist_kind))
        self.owner.run(f"import dataclasses\nduet = duetlink.launch(settings={QUICK})")
        code = self.owner.value("duet.code")
        self.scientist.run(f"import dataclasses\nduet = duetlink.join({code!r}, settings={QUICK})")
        self.owner.run(
            "duet.wait_connected(30)\n"
            f"x = np.random.default_rng(0).integers(0, 256, {SIZE_MIB} << 20, np.uint8)\n"
            "duet.share(x, 'x')\n"
            "duet.share(np.arange(5), 'later')\n"
            "threading.Thread(target=lambda: duet.wait_request(60).approve(), daemon=True).start()"
        )
        for notebook in (self.owner, self.scientist):
            lab.shape(notebook.host, rate_mbit=RATE_MBIT, delay_ms=5)
        self.scientist.run(
            "took, sent = {}, []\n"
            "def get():\n"
            "    took['x'] = digest(duet.wait_object('x', 60).get(reason='survival', timeout_s=3600))\n"
            "def tell():\n"
            "    while 'x' not in took:\n"
            "        duet.send(len(sent), f'm{len(sent)}')\n"
            "        sent.append(len(sent))\n"
            "        time.sleep(0.02)\n"
            "threads = [threading.Thread(target=work, daemon=True) for work in (get, tell)]\n"
            "for thread in threads: thread.start()\n"
            "while duet.statistics().received_bytes < 4 << 20: time.sleep(0.01)\n"
            "waiting = duet.wait_object('later', 60).request(reason='asked before')"
        )

    def check_nothing_is_lost(self) -> None:
        """All that was under way arrives, once; what was asked before can be answered now."""
        self.scientist.run("for thread in threads: thread.join(180)")
        assert self.scientist.value("took.get('x')") == self.owner.value("digest(x)")
        stored = self.owner.run(
            "there = {name: duet.store[name] for name in list(duet.store) if name.startswith('m')}\n"
            "out = sorted([object.get(), object.revision] for object in there.values())"
        )
        assert stored == [[number, 1] for number in self.scientist.value("sent")]
        self.owner.run("duet.wait_request(30).approve()")
        assert self.scientist.value("waiting.result(30).tolist()") == [0, 1, 2, 3, 4]
        for notebook in (self.owner, self.scientist):  # bounded by the test's own timeout
            notebook.run("while duet.state != 'connected': time.sleep(0.1)")

    def sleep(self, notebook: Notebook, time_s: float) -> None:
        """As a laptop does that is closed: no process of the notebook runs."""
        entered = psutil.Process(notebook.pid)  # nsenter, which stops by itself where its child does
        processes = entered.children(recursive=True)
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        threading.Event().wait(time_s)
        for process in (*processes, entered):
            process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        for notebook in (self.scientist, self.owner):
            notebook.close()


@pytest.fixture
def pair(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Pair]:
    pair = Pair(lab, *request.param)
    yield pair
    pair.close()


@pytest.mark.parametrize("pair", [("port-restricted", "port-restricted")], indirect=True)
def test_a_host_moves_to_another_network_in_the_middle(pair: Pair) -> None:
    pair.lab.move(pair.owner.host, "symmetric")
    pair.check_nothing_is_lost()


@pytest.mark.parametrize("pair", [("port-restricted", "full-cone")], indirect=True)
def test_a_notebook_sleeps_in_the_middle(pair: Pair) -> None:
    pair.sleep(pair.owner, SLEEP_S)
    pair.check_nothing_is_lost()


def main(time_s: float) -> None:
    with Lab() as lab:
        pair = Pair(lab, "port-restricted", "full-cone")
        try:
            pair.sleep(pair.owner, time_s)
            pair.check_nothing_is_lost()
            print(f"asleep for {time_s:g} s in the middle of a transfer: nothing lost, nothing doubled")
        finally:
            pair.close()


if __name__ == "__main__":
    main(float(sys.argv[1]))
