"""A link that is cut a hundred times while 2 GiB and 10,000 messages cross it; needs root, for namespaces.

The two notebooks are behind NATs of their own, on lines of RATE_MBIT. Each cut swallows everything of one
host's line, signaling included, for 2 to 20 s.
"""

from __future__ import annotations

import random
import threading

import click

from benchmarks.command import benchmark
from benchmarks.harness import report
from tests.lab.lab import Host, Lab
from tests.lab.notebook import Notebook

RATE_MBIT = 200.0
DELAY_MS = 5.0
SHORTEST_S, LONGEST_S = 2.0, 20.0
KIND = "port-restricted"


@benchmark
@click.option("--cuts", type=click.IntRange(1), default=100, show_default=True, help="At most as many.")
@click.option("--size-mib", type=click.IntRange(1), default=2048, show_default=True, help="MiB to transfer.")
@click.option(
    "--messages", type=click.IntRange(1), default=10_000, show_default=True, help="Objects to send."
)
def main(cuts: int, size_mib: int, messages: int) -> None:
    with Lab() as lab:
        hosts = [lab.host(KIND), lab.host(KIND)]
        owner, scientist = (Notebook(host) for host in hosts)
        try:
            for host in hosts:
                lab.shape(host, rate_mbit=RATE_MBIT, delay_ms=DELAY_MS)
            owner.run("duet = duetlink.launch(); out = duet.code")
            scientist.run(f"duet = duetlink.join({owner.value('duet.code')!r})")
            owner.run("duet.wait_connected(30)")
            owner.run(
                f"x = np.random.default_rng(0).integers(0, 256, {size_mib} << 20, np.uint8)\n"
                "want = digest(x)\n"
                "duet.share(x, 'x')\n"
                "threading.Thread(target=lambda: duet.wait_request(3600).approve(), daemon=True).start()"
            )
            # every message is an object of its own: one lost is missing, one doubled has a second revision
            scientist.run(
                "took = {}\n"
                "def get():\n"
                "    begin = time.monotonic()\n"
                "    y = duet.wait_object('x', 60).get(reason='cuts', timeout_s=7200)\n"
                "    took['get'] = time.monotonic() - begin\n"
                "    took['digest'] = digest(y)\n"
                "def tell():\n"
                f"    for number in range({messages}):\n"
                "        duet.send(number, f'm{number}')\n"
                "    took['tell'] = True\n"
                "threads = [threading.Thread(target=work, daemon=True) for work in (get, tell)]\n"
                "for thread in threads: thread.start()"
            )
            times_s = _cut_now_and_then(lab, hosts, scientist, cuts, size_mib)
            scientist.run("for thread in threads: thread.join()")
            got = scientist.value("took")
            stored = owner.run(
                f"names = [f'm{{n}}' for n in range({messages})]\n"
                "there = {n: duet.store[name] for n, name in enumerate(names) if name in duet.store}\n"
                "out = {'missing': len(names) - len(there),\n"
                "       'wrong': sum(one.get() != n for n, one in there.items()),\n"
                "       'doubled': sum(one.revision != 1 for one in there.values())}"
            )
            statistics = scientist.value(
                "{'reconnects': duet.statistics().reconnects, 'path': duet.statistics().path,"
                " 'paths': [[p.name, p.state, p.bytes_per_s] for p in duet.statistics().paths]}"
            )
        finally:
            for notebook in (owner, scientist):
                notebook.close()
    clear_s = (size_mib << 20) / (RATE_MBIT * 1e6 / 8 * 0.95)
    added_s = got["get"] - clear_s
    rows = [
        ["cuts, and how long together", f"{len(times_s)}, {sum(times_s):.0f} s"],
        ["the transfer took", f"{got['get']:.0f} s; {clear_s:.0f} s at 95 % of the line without a cut"],
        ["added time / time cut", f"{added_s / max(sum(times_s), 1e-9):.2f}"],
        ["bytes wrong", "none" if got["digest"] == owner_digest(size_mib) else "some"],
        ["messages missing, wrong, doubled", f"{stored['missing']}, {stored['wrong']}, {stored['doubled']}"],
        ["new control channels, last path", f"{statistics['reconnects']}, {statistics['path']}"],
    ]
    title = (
        f"{size_mib} MiB and {messages} messages over a line of {RATE_MBIT:g} Mbit/s "
        f"that is cut for {SHORTEST_S:g} to {LONGEST_S:g} s each time"
    )
    data = {"cuts_s": times_s, "got": got, "stored": stored, **statistics}
    report("cuts", title, ["what", "figure"], rows, data)


def owner_digest(size_mib: int) -> str:
    import numpy as np
    import xxhash

    return xxhash.xxh3_64_hexdigest(np.random.default_rng(0).integers(0, 256, size_mib << 20, np.uint8).data)


def _cut_now_and_then(
    lab: Lab, hosts: list[Host], scientist: Notebook, cuts: int, size_mib: int
) -> list[float]:
    """Cut a line now and then, until the transfer is over; returns for how long each time."""
    choose = random.Random(1)
    clear_s = (size_mib << 20) / (RATE_MBIT * 1e6 / 8)
    times_s: list[float] = []
    while len(times_s) < cuts and not scientist.value("'digest' in took"):
        _wait(choose.uniform(0.5, 1.5) * clear_s / (cuts + 1))
        host, time_s = choose.choice(hosts), choose.uniform(SHORTEST_S, LONGEST_S)
        lab.cut(host)
        _wait(time_s)
        lab.mend(host)
        times_s.append(time_s)
    return times_s


def _wait(time_s: float) -> None:
    threading.Event().wait(time_s)


if __name__ == "__main__":
    main()
