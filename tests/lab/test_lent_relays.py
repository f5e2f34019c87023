"""A notebook without a TURN server and without UDP uses its peer's."""

from __future__ import annotations

import contextlib

import pytest

from tests.lab.lab import Lab
from tests.lab.notebook import Notebook

pytestmark = pytest.mark.slow

NONE = {"DUETLINK_ICE_SERVERS": "[]"}


@pytest.mark.parametrize(
    ("owner", "scientist", "lender"),
    [
        ("port-restricted", "only-443", "owner"),
        ("only-443", "symmetric", "scientist"),
        ("only-443", "udp-blocked", "owner"),
        ("only-443", "udp-blocked", "scientist"),
    ],
)
def test_a_side_without_udp_connects_by_the_relay_that_its_peer_lends(
    lab: Lab, owner: str, scientist: str, lender: str
) -> None:
    with contextlib.ExitStack() as stack:
        owning = Notebook(lab.host(owner), None if lender == "owner" else NONE)
        stack.callback(owning.close)
        joining = Notebook(lab.host(scientist), None if lender == "scientist" else NONE)
        stack.callback(joining.close)
        code = owning.run("duet = duetlink.launch(); approve_all(duet); out = duet.code")
        joining.run(f"duet = duetlink.join({code!r})")
        owning.run("duet.share(np.arange(1_000_000), 'scans')")
        joining.run("while 'scans' not in duet.store: time.sleep(0.01)")
        assert joining.value("digest(duet.store['scans'].get(timeout_s=60)) == digest(np.arange(1_000_000))")
        assert joining.value("duet.statistics().transfers[-1].path") in ("relay", "channel")
        for notebook in (joining, owning):
            notebook.begin("duet.close()")
        for notebook in (joining, owning):
            notebook.answer()
