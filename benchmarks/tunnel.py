"""The rung `udp` on lines of every kind, beside what the kernel's TCP does on the same line in the same run.

Two notebooks on hosts of the lab (tests/lab: Linux and root), joined by the internet between them; the
scientist's line is shaped. A way is one pull of `SECONDS`, from the request to the last chunk that arrived by
then, verified. The kernel's way is iperf3 with CUBIC, what most systems use. CPU seconds are per GB of
value: of the carriers on both sides, which are the tunnel, and of everything that the two notebooks are.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.command import benchmark, parts, rounds
from benchmarks.harness import report
from tests.lab.lab import Lab
from tests.lab.namespace import unsupported
from tests.lab.notebook import Notebook
from tests.lab.servers import ice_servers

SECONDS = 10.0
FAIR_SECONDS = 60.0
LOSSES = (0.0, 0.001, 0.01, 0.05)
RATE_MBIT, DELAY_MS = 100.0, 10.0  # one way: 20 ms there and back
BDP_BYTES = int(RATE_MBIT * 1e6 / 8 * 2 * DELAY_MS / 1000)
_LINE = f"{RATE_MBIT:g} Mbit/s, {2 * DELAY_MS:g} ms"

_BIG_BYTES = 2 << 30  # more than any line moves in a way's time
_WITHOUT_OFFLOAD = str(Path(__file__).parent / "baselines" / "without_offload")

_OWNER = f"""
import dataclasses
data = np.random.default_rng(7).integers(0, 256, {_BIG_BYTES}, np.uint8)
duets = {{}}
def launch(name, settings):
    duet = duets[name] = duetlink.launch(settings=settings)
    approve_all(duet)
    duet.share(data, "data")
    return duet.code
def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
"""
_SCIENTIST = """
import dataclasses
duets = {}
def join(name, code, settings):
    duet = duets[name] = duetlink.join(code, settings=settings)
    while "data" not in duet.store or not duet.statistics().path:
        time.sleep(0.01)
    return duet.statistics().path
def pull(name, seconds, spin):
    duet, start = duets[name], time.monotonic()
    before = duet.statistics().received_bytes
    pending = duet.store["data"].request()
    figures = [0, seconds]
    while time.monotonic() < start + seconds and pending.state != "complete":
        received = duet.statistics().received_bytes - before
        if received > figures[0]:  # bytes are counted when a whole chunk of them is there
            figures = [received, time.monotonic() - start]
        if not spin:
            time.sleep(0.005)
    pending.withdraw()
    return figures
"""


@dataclass(frozen=True, slots=True)
class Flow:
    """One way, once. CPU seconds are per GB; None where they are the kernel's."""

    bytes_per_s: float
    carriers_s_per_gb: float | None = None
    notebooks_s_per_gb: float | None = None


class Notebooks:
    """An owner and a scientist with open duets, one per rung that is to be measured."""

    def __init__(self, lab: Lab, environment: dict[str, str], *, one_host: bool = False) -> None:
        self._lab = lab
        owners = lab.host("open")
        self.owner = Notebook(owners, environment)
        self.scientist = Notebook(owners if one_host else lab.host("open"), environment)
        self.owner.begin(_OWNER)
        self.scientist.begin(_SCIENTIST)

    def shape(self, **line: Any) -> None:
        self._lab.shape(self.scientist.host, **line)

    def connect(self, rung: str) -> None:
        """Open a duet that may use this rung only; as relay only TURN over UDP."""
        servers = [entry for entry in ice_servers() if "tcp" not in entry["urls"]]
        settings = (
            "dataclasses.replace(Settings.from_environment("
            f"{{'DUETLINK_ICE_SERVERS': {json.dumps(servers)!r}}}), only=({rung!r},), "
            "signaling=Settings.from_environment().signaling)"
        )
        code = self.owner.value(f"launch({rung!r}, {settings})")
        path = self.scientist.value(f"join({rung!r}, {code!r}, {settings})")
        assert path == rung, path

    def pull(self, rung: str, seconds: float = SECONDS, *, spin: str = "") -> Flow:
        """Pull by this rung, while the main thread of `spin` (owner or scientist) runs pure Python."""
        before = self._cpu_s()
        if spin == "owner":
            self.owner.begin(f"spin({seconds})")
        pull = f"pull({rung!r}, {seconds}, {spin == 'scientist'})"
        received_bytes, taken_s = self.scientist.value(pull)
        carriers_s, notebooks_s = (after - then for after, then in zip(self._cpu_s(), before, strict=True))
        if spin == "owner":
            self.owner.answer()
        gb = max(received_bytes, 1) / 1e9
        return Flow(received_bytes / taken_s, carriers_s / gb, notebooks_s / gb)

    def kernel(self, seconds: float = SECONDS, congestion: str = "cubic") -> Flow:
        """One TCP flow of the kernel from owner to scientist, with nothing on it."""
        receiver = self.scientist.host
        server = receiver.popen(["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            pass
        command = ["iperf3", "-c", receiver.address, "-t", f"{seconds:g}", "-C", congestion, "-J"]
        try:
            ran = self.owner.host.run(command, timeout_s=seconds + 30)
        finally:
            server.kill()
            server.communicate()
        return Flow(json.loads(ran)["end"]["sum_received"]["bits_per_second"] / 8)

    def close(self) -> None:
        for notebook in (self.scientist, self.owner):
            notebook.begin("for duet in duets.values(): duet.close()")
        for notebook in (self.scientist, self.owner):
            notebook.answer()
            notebook.close()

    def _cpu_s(self) -> tuple[float, float]:
        """Of the carriers alive, and of all processes of both notebooks."""
        carriers_s = all_s = 0.0
        for notebook in (self.owner, self.scientist):
            for process in psutil.Process(notebook.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    taken = process.cpu_times()
                    all_s += taken.user + taken.system
                    if "duetlink.net.carrier" in process.cmdline():
                        carriers_s += taken.user + taken.system
        return carriers_s, all_s


@contextlib.contextmanager
def _notebooks(
    *rungs: str, environment: dict[str, str] | None = None, one_host: bool = False
) -> Iterator[Notebooks]:
    notebooks_in = partial(Notebooks, environment=environment or {}, one_host=one_host)
    with Lab() as lab, contextlib.closing(notebooks_in(lab)) as notebooks:
        for rung in rungs:
            notebooks.connect(rung)
        yield notebooks


Ways = dict[str, Callable[[], Flow]]
Taken = dict[str, list[Flow]]


def _take(ways: Ways, rounds: int) -> Taken:
    """Each way once per round, in turn."""
    taken: Taken = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(way())
    return taken


def _rate(flows: list[Flow]) -> float:
    return statistics.median(flow.bytes_per_s for flow in flows)


def _report(case: str, where: str, taken: Taken, base: str, line_mbit: float | None = None) -> None:
    """One row for each way: rates, their ratio to the way `base`, share of the line, CPU seconds."""
    rows = []
    for name, flows in taken.items():
        rates = sorted(flow.bytes_per_s / 1e6 for flow in flows)
        line = f"{_rate(flows) * 8 / 1e6 / line_mbit:.0%}" if line_mbit else ""
        rows.append(
            [
                f"{where}: {name}",
                f"{_rate(flows) / 1e6:.2f} ({rates[0]:.2f} to {rates[-1]:.2f})",
                line,
                f"{_rate(flows) / _rate(taken[base]):.2f}" if base in taken else "",
                _cpu(flow.carriers_s_per_gb for flow in flows),
                _cpu(flow.notebooks_s_per_gb for flow in flows),
            ]
        )
    headers = [
        "way",
        "MB/s, median (least to most)",
        "of the line",
        "of the first",
        "carriers, CPU s/GB",
        "notebooks, CPU s/GB",
    ]
    data = {name: [asdict(flow) for flow in flows] for name, flows in taken.items()}
    report(f"tunnel_{case}", "`udp` between two notebooks", headers, rows, data)


def _cpu(figures: Iterator[float | None]) -> str:
    known = [figure for figure in figures if figure is not None]
    return f"{statistics.median(known):.2f}" if known else ""


# -- the cases -----------------------------------------------------------------------------------------------


def unshaped(rounds: int) -> None:
    """No limit but this machine: against the data channel."""
    with _notebooks("udp", "channel") as both:
        ways: Ways = {rung: partial(both.pull, rung) for rung in ("channel", "udp")}
        _report("unshaped", "no limit on the line", _take(ways, rounds), "channel")


def loopback(rounds: int) -> None:
    """Both notebooks on one host: no limit, and datagrams as large as the tunnel makes them."""
    with _notebooks("udp", "channel", one_host=True) as both:
        ways: Ways = {rung: partial(both.pull, rung) for rung in ("channel", "udp")}
        _report("loopback", "on one host", _take(ways, rounds), "channel")


def loss(rounds: int) -> None:
    """100 Mbit/s, 20 ms, packets lost at random: against CUBIC."""
    with _notebooks("udp") as both:
        for share in LOSSES:
            both.shape(rate_mbit=RATE_MBIT, delay_ms=DELAY_MS, loss=share)
            ways: Ways = {"CUBIC": both.kernel, "udp": lambda: both.pull("udp")}
            title = f"{_LINE}, {share:.1%} lost each way"
            _report(f"loss_{share * 1000:g}_in_1000", title, _take(ways, rounds), "CUBIC", RATE_MBIT)


def gigabit(rounds: int) -> None:
    """1 Gbit/s without a delay."""
    with _notebooks("udp") as both:
        both.shape(rate_mbit=1000)
        ways: Ways = {"CUBIC": both.kernel, "udp": lambda: both.pull("udp")}
        _report("gigabit", "1 Gbit/s", _take(ways, rounds), "CUBIC", 1000)


def plain(rounds: int) -> None:
    """100 Mbit/s, 20 ms, where the system neither cuts nor joins datagrams."""
    with _notebooks("udp", environment={"PYTHONPATH": _WITHOUT_OFFLOAD}) as both:
        both.shape(rate_mbit=RATE_MBIT, delay_ms=DELAY_MS)
        ways: Ways = {"CUBIC": both.kernel, "udp, plain": lambda: both.pull("udp")}
        title = f"{_LINE}, without UDP_SEGMENT and UDP_GRO"
        _report("plain", title, _take(ways, rounds), "CUBIC", RATE_MBIT)


def fair(rounds: int) -> None:
    """A minute beside one CUBIC flow on the same line, with a short and a long buffer."""
    with _notebooks("udp") as both:
        for bdp in (1, 4):
            both.shape(rate_mbit=RATE_MBIT, delay_ms=DELAY_MS, buffer_bytes=bdp * BDP_BYTES)
            taken: Taken = {"CUBIC": [], "udp": []}
            for _ in range(max(rounds // 3, 1)):
                with ThreadPoolExecutor(1) as beside:
                    kernel = beside.submit(both.kernel, FAIR_SECONDS)
                    taken["udp"].append(both.pull("udp", FAIR_SECONDS))
                    taken["CUBIC"].append(kernel.result())
            title = f"{FAIR_SECONDS:g} s beside each other, {_LINE}, buffer {bdp} BDP"
            _report(f"fair_{bdp}_bdp", title, taken, "CUBIC", RATE_MBIT)


def relay(rounds: int) -> None:
    """Through TURN over UDP against straight."""
    with _notebooks("udp", "relay") as both:
        both.shape(rate_mbit=RATE_MBIT, delay_ms=DELAY_MS)
        ways: Ways = {rung: partial(both.pull, rung) for rung in ("udp", "relay")}
        title = f"{_LINE}: udp, and through TURN over UDP"
        _report("relay", title, _take(ways, rounds), "udp", RATE_MBIT)


def busy(rounds: int) -> None:
    """A cell that spins in pure Python, in either notebook."""
    with _notebooks("udp") as both:
        both.shape(rate_mbit=RATE_MBIT, delay_ms=DELAY_MS)
        ways: Ways = {
            "idle": lambda: both.pull("udp"),
            "owner's cell spins": lambda: both.pull("udp", spin="owner"),
            "scientist's cell spins": lambda: both.pull("udp", spin="scientist"),
        }
        _report("busy", f"{_LINE}, beside a cell", _take(ways, rounds), "idle")


CASES = {case.__name__: case for case in (unshaped, loopback, loss, gigabit, plain, fair, relay, busy)}


@benchmark
@parts("--case", "names", tuple(CASES))
@rounds(3)
def main(names: tuple[str, ...], rounds: int) -> None:
    if why := unsupported():
        print(f"tunnel: not measured: {why}")
        return
    for name in names:
        CASES[name](rounds)


if __name__ == "__main__":
    main()
