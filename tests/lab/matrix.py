"""Which rung is the best that two networks allow, and a link between them that is held against it.

The expectations follow from what the gateways do (gateway.py), not from what the code does:

- `tcp`: the scientist pulls by dialling the owner, so only an owner that is open can have it;
- `punched`: both gateways keep the port (all but `symmetric`), or one side is open, and TCP may leave to any
  port;
- `udp`: endpoint-independent mapping on one side suffices where its filter lets in a port not dialled
  before, which `full-cone` and `address-restricted` do; needed only where TCP cannot be punched, for the
  other side is `symmetric`;
- `relay`: everything else. Nothing is left for `channel`, which is there while the others are on their way.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from duetlink.settings import MIB
from tests.lab.gateway import KINDS
from tests.lab.lab import Host, Lab
from tests.lab.notebook import Notebook

SIZE_BYTES = 64 * MIB  # for the table, which tells speeds
RATE_MBIT, DELAY_MS = 200.0, 5.0
PATIENCE_S = 15.0  # for the best rung, which may come up later than the first one

_T, _P, _U, _R = "tcp", "punched", "udp", "relay"

# rows: the owner's network; columns: the scientist's, in the order of KINDS:
#                      open full addr port symm doub noud 443 ipv6
_TABLE = {
    "open": (_T, _T, _T, _T, _T, _T, _T, _R, _R),
    "full-cone": (_P, _P, _P, _P, _U, _P, _P, _R, _R),
    "address-restricted": (_P, _P, _P, _P, _U, _P, _P, _R, _R),
    "port-restricted": (_P, _P, _P, _P, _R, _P, _P, _R, _R),
    "symmetric": (_P, _U, _U, _R, _R, _R, _R, _R, _R),
    "double-nat": (_P, _P, _P, _P, _R, _P, _P, _R, _R),
    "udp-blocked": (_P, _P, _P, _P, _R, _P, _P, _R, _R),
    "only-443": (_R, _R, _R, _R, _R, _R, _R, _R, _R),
    "ipv6": (_R, _R, _R, _R, _R, _R, _R, _R, _P),
}
EXPECTED = {
    (owner, scientist): path
    for owner, row in _TABLE.items()
    for scientist, path in zip(KINDS, row, strict=True)
}

# both behind one gateway: (hairpin, isolated) -> path
EXPECTED_BEHIND_ONE = {(False, False): _T, (True, True): _P, (False, True): _R}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One link: how long join() took, whether the best rung came up, by which rung the data came how fast."""

    connect_s: float
    has_settled: bool
    path: str | None
    settle_s: float
    bytes_per_s: float
    intact: bool
    speeds: dict[str, float] = field(default_factory=dict)  # of every rung as measured, in bytes per second
    why: str = ""  # of every rung: its state, its measured speed, what keeps it down

    def is_as(self, expected: str) -> bool:
        """Whether the best rung was taken; another may carry the data only if it was measured as faster."""
        carried = self.path == expected or self.speeds[str(self.path)] > self.speeds[expected]
        return self.has_settled and carried

    def __str__(self) -> str:
        damaged = "" if self.intact else ", **damaged**"
        return f"{self.path}, {self.connect_s:.1f} s, {self.bytes_per_s / 1e6:.1f} MB/s{damaged}"


class Networks:
    """Notebooks in networks of every kind, made when they are first needed and kept: one as owner, one as
    scientist.

    Lines are 200 Mbit/s, where processors do not decide which rung is faster, and the scientist's is 5 ms
    long.
    """

    def __init__(self, lab: Lab, size_bytes: int = SIZE_BYTES) -> None:
        self._lab = lab
        self._size_bytes = size_bytes
        self._notebooks: dict[tuple[str, str], Notebook] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for notebook in self._notebooks.values():
            notebook.close()

    def link(self, owner: str, scientist: str, expected: str) -> Outcome:
        """One link between two network kinds."""
        pair = self._notebook("owner", owner), self._notebook("scientist", scientist)
        return _link(*pair, expected, self._size_bytes)

    def link_behind_one(self, hairpin: bool, isolated: bool, expected: str) -> Outcome:
        """One link between two hosts behind one port-restricted gateway."""
        gateway = self._lab.gateway("port-restricted", hairpin=hairpin, isolated=isolated)
        with contextlib.ExitStack() as stack:
            owner, scientist = (_started(self._lab.host(gateway), self._size_bytes) for _ in range(2))
            for notebook in (owner, scientist):
                stack.callback(notebook.close)
            return _link(owner, scientist, expected, self._size_bytes)

    def begin(self, kinds: Iterable[str]) -> None:
        """Start what will be needed, all at once, on all processors."""
        for kind in kinds:
            for role in ("owner", "scientist"):
                self._notebook(role, kind)

    def _notebook(self, role: str, kind: str) -> Notebook:
        if (role, kind) not in self._notebooks:
            host = self._lab.host(kind)
            self._lab.shape(host, rate_mbit=RATE_MBIT, delay_ms=DELAY_MS if role == "scientist" else 0.0)
            self._notebooks[role, kind] = _started(host, self._size_bytes)
        return self._notebooks[role, kind]


def _started(host: Host, size_bytes: int) -> Notebook:
    notebook = Notebook(host)
    notebook.begin(
        f"data = np.random.default_rng(7).integers(0, 256, {size_bytes}, np.uint8); expected = digest(data)"
    )
    return notebook


def _link(owner: Notebook, scientist: Notebook, expected: str, size_bytes: int) -> Outcome:
    """Launch on one, join on the other, wait for the expected rung for a while, move the data, close."""
    try:
        code = owner.run("duet = duetlink.launch(); out = duet.code")
        scientist.run(
            f"start = time.monotonic(); duet = duetlink.join({code!r}); took = time.monotonic() - start"
        )
        connect_s = scientist.value("took")
        start_s = time.monotonic()
        while not (has_settled := scientist.value("duet.statistics().path") == expected):
            if time.monotonic() - start_s > PATIENCE_S:
                break
            time.sleep(0.05)
        settle_s = time.monotonic() - start_s
        owner.run("asset = duet.share(data, 'data')")
        scientist.begin(
            "while 'data' not in duet.store: time.sleep(0.01)\n"
            "start = time.monotonic(); got = duet.store['data'].get(timeout_s=60)\n"
            "took = time.monotonic() - start"
        )
        owner.run("duet.wait_request(30).approve()")
        scientist.answer()
        statuses = scientist.value(
            "[[one.name, one.state, one.why, one.bytes_per_s] for one in duet.statistics().paths]"
        )
        return Outcome(
            connect_s,
            has_settled,
            scientist.value("duet.statistics().transfers[-1].path"),
            settle_s,
            size_bytes / scientist.value("took"),
            scientist.value("digest(got) == expected"),
            {name: speed or 0.0 for name, _, _, speed in statuses},
            "; ".join(
                f"{name} {state}, {(speed or 0) / 1e6:.1f} MB/s {why}" for name, state, why, speed in statuses
            ),
        )
    finally:
        for notebook in (scientist, owner):
            notebook.begin("got = None; duet.close()")
        for notebook in (scientist, owner):
            notebook.answer()
