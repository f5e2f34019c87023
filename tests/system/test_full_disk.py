"""A full disk at the owner: nothing leaves, whoever asks reads why, and with room it all works again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.system.conftest import MakeKernel

pytestmark = pytest.mark.slow

FILL = """
def fill():
    with open(disk + "/filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 100)
        except OSError:
            pass
    for writes in (  # what is left of the last page of the log
        lambda: duet.share(1, "y"),
        lambda: (duet.policies.add(duetlink.Policy("deny", name="p")), duet.policies.remove("p")),
        lambda: duet.share_port(9, "p").close(),
    ):
        try:
            while True:
                writes()
        except duetlink.errors.AuditUnavailable:
            pass
"""


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="only root can mount a small disk",
)
@pytest.mark.parametrize("resume", [None, "clinic"], ids=["alone", "with kept state"])
def test_a_full_disk_stops_what_leaves_until_there_is_room(
    make_kernel: MakeKernel, tmp_path: Path, resume: str | None
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    owner, scientist = make_kernel("unshare", "--mount", "--propagation", "private"), make_kernel()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    assert owner.run(f"import subprocess; subprocess.run({mount}, check=True)") == "ok None"
    settings = f"audit_path='{disk}/audit.jsonl', state_path='{disk}/state', only=('tcp',)"
    launch = f"duetlink.launch(settings=duetlink.Settings({settings})"
    assert owner.run(f"duet = {launch}, resume={resume!r})") == "ok None"
    code = owner.value("duet.code")
    assert scientist.run(f"duet = duetlink.join({code})") == "ok None"
    assert owner.run("duet.wait_connected(30); duet.share(np.arange(3.0), 'x')") == "ok None"
    assert scientist.run("x = duet.wait_object('x', 30); waiting = x.request()") == "ok None"
    assert (
        owner.run(f"request = duet.wait_request(30); disk = {str(disk)!r}; exec({FILL!r}); fill()")
        == "ok None"
    )

    for refused in (
        "request.approve()",
        "duet.share(1, 'y')",
        "duet.send(1, 'y')",
        "duet.share_port(9, 'p')",
        "duet.policies.add(duetlink.Policy('approve', name='q'))",
        f"{launch}, keep=True)",
    ):
        answer = owner.run(refused)
        assert answer.startswith(("error AuditUnavailable ", "error StateUnavailable ")), answer
        assert "(No space left on device)" in answer or "(database or disk is full)" in answer
    answer = scientist.run("x.get(timeout_s=30, reason='another')")
    assert answer.startswith("error RequestDenied the owner denied 'x': ")
    assert scientist.value("(waiting.state, duet.statistics().received_bytes)") == "('pending', 0)"

    assert owner.run("import os; os.unlink(disk + '/filler'); request.approve()") == "ok None"
    assert scientist.value("waiting.result(30).sum()") == "np.float64(3.0)"
    assert owner.run("duet.share(1, 'y'); duet.send(1, 'z'); duet.share_port(9, 'p')") == "ok None"
    assert owner.run("duet.policies.clear(); duet.policies.add(duetlink.Policy('approve'))") == "ok None"
    assert scientist.value("x.get(timeout_s=30, reason='once more').sum()") == "np.float64(3.0)"
    assert "none changed, none missing" in owner.value("duet.audit.verify()")
    assert owner.run("duet.close()") == "ok None"
