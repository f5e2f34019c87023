"""Lines of the lab: rate, delay, loss and cuts, roughly; and nothing is left of a lab, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.lab import Host, Lab
from tests.lab.namespace import unsupported

pytestmark = pytest.mark.slow

PORT = 40_000


@pytest.fixture(scope="module")
def pair(lab: Lab) -> tuple[Host, Host]:
    return lab.host("open"), lab.host("port-restricted")


def arrived(one: Host, other: Host, count: int, first_rest_ms: int = 0) -> int:
    """How many of `count` datagrams come from `other` to `one`, which begins to read `first_rest_ms` late."""
    counting = one.begin_probe("count", PORT, first_rest_ms)
    other.probe("flood", one.address, PORT, count)
    return int(counting())


def mbit_per_s(one: Host, other: Host, duration_s: float = 3.0, *options: str) -> float:
    """TCP payload from `other` to `one`."""
    server = one.popen(["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    while "listening" not in server.stdout.readline():
        pass
    report = other.run(["iperf3", "-c", one.address, "-t", str(duration_s), "-J", *options])
    server.communicate(timeout=10)
    return float(json.loads(report)["end"]["sum_received"]["bits_per_second"]) / 1e6


def test_a_line_as_it_is_loses_and_delays_nothing(lab: Lab, pair: tuple[Host, Host]) -> None:
    lab.shape(pair[0])
    assert arrived(*pair, 2000) == 2000
    assert round_trip_s(*pair) < 0.4  # what another test asks for


def test_a_receiver_that_reads_late_loses_nothing(lab: Lab, pair: tuple[Host, Host]) -> None:
    lab.shape(pair[0])
    # sent at any pace, all would be there by then, and a buffer of the default size holds 256
    assert arrived(*pair, 2000, first_rest_ms=500) == 2000


def round_trip_s(one: Host, other: Host) -> float:
    """The least of several, as the kernel has measured it for a connection."""
    return float(other.probe("round_trip", *serve(one)))


def serve(one: Host) -> tuple[str, int]:
    one.begin_probe("listen", PORT)
    return one.address, PORT


def test_a_delay_is_added_once_each_way(lab: Lab, pair: tuple[Host, Host]) -> None:
    lab.shape(pair[0], delay_ms=400)
    # nothing bounds it from above but that it is not added once more: the machine may be busy
    assert 0.8 <= round_trip_s(*pair) < 1.2


@pytest.mark.parametrize("loss", [0.01, 0.1])
def test_a_share_of_packets_is_lost(lab: Lab, pair: tuple[Host, Host], loss: float) -> None:
    lab.shape(pair[0], loss=loss)
    count = 10_000
    # six standard deviations of a binomial distribution
    margin = 6 * (count * loss * (1 - loss)) ** 0.5
    assert abs(count - arrived(*pair, count) - count * loss) < margin


def test_a_line_of_20_mbit_s_with_delay_is_filled_by_tcp(lab: Lab, pair: tuple[Host, Host]) -> None:
    lab.shape(pair[0], rate_mbit=20, delay_ms=10)
    for options in ((), ("-R",)):
        # a machine that is busy elsewhere may keep a flow below it
        rates = (mbit_per_s(*pair, 3.0, *options) for _ in range(4))
        assert 16 < next((rate for rate in rates if rate > 16), 0) < 19.4


def test_loss_hurts_cubic_as_it_does_on_real_lines(lab: Lab, pair: tuple[Host, Host]) -> None:
    lab.shape(pair[0], rate_mbit=100, delay_ms=10, loss=0.01)
    # Mathis et al. 1997: 1448 B / 20 ms x 1.22 / sqrt(0.01) = 7 Mbit/s; ten times that with merged packets
    assert 1 < mbit_per_s(*pair) < 20


def test_a_cut_line_swallows_everything_until_it_is_mended(lab: Lab, pair: tuple[Host, Host]) -> None:
    lab.shape(pair[0])
    lab.cut(pair[0])
    assert pair[1].probe("dial", pair[0].address, PORT + 1) == "silent"
    lab.mend(pair[0])
    assert pair[1].probe("dial", pair[0].address, PORT + 1) == "refused"


def test_a_host_that_moves_has_another_address_and_its_processes(lab: Lab) -> None:
    host, server = lab.host("open"), lab.host("open")
    resident = host.popen(["cat"], stdin=subprocess.PIPE)
    before = host.address
    lab.move(host, "symmetric")
    assert host.address != before
    came_from = server.begin_probe("listen", PORT)
    assert host.probe("dial", server.address, PORT) == "connected"
    assert came_from() == host.line.address(2)
    assert resident.poll() is None
    resident.communicate()


# -- nothing is left -----------------------------------------------------------------------------------------

PROGRAM = """
import os
from tests.lab.lab import Lab
with Lab(capture=True) as lab:
    host = lab.host("double-nat")
    lab.shape(host, delay_ms=1)
    host.popen(["sleep", "1000"])
    spaces = [lab.core, host.namespace, host.line.namespace, host.gateway.namespace]
    print(lab.directory, *(os.readlink(f"/proc/{{one.pid}}/ns/net") for one in spaces), flush=True)
    {end}
"""


def network_namespaces() -> set[str]:
    """Of every process that there is."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(os.readlink(process / "ns" / "net"))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("end", ["leave", "raise", "interrupt", "kill"])
def test_nothing_is_left_of_a_lab_however_it_ends(end: str) -> None:
    if why := unsupported():
        pytest.skip(why)
    statement = "input(); raise ValueError" if end == "raise" else "input()"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(end=statement)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    directory, *made = process.stdout.readline().split()
    assert len(made) == 4
    assert set(made) <= network_namespaces()
    if end == "interrupt":
        process.send_signal(signal.SIGINT)
    elif end == "kill":
        process.kill()
    process.communicate("\n" if end in ("leave", "raise") else None, timeout=20)
    while network_namespaces() & set(made):
        time.sleep(0.01)
    # files of a killed process are the system's to clean, in its directory for temporary files
    assert Path(directory).exists() == (end == "kill")
    if end == "kill":
        subprocess.run(["rm", "-r", directory], check=True)
