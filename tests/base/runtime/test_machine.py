"""Whether two processes are on one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from duetlink.base.runtime import machine
from duetlink.testing.faults import set_constants


def test_another_process_of_this_machine_makes_the_same_mark() -> None:
    code = (
        "import sys; from duetlink.base.runtime import machine; sys.stdout.write(machine.mark(b'of').hex())"
    )
    mark = bytes.fromhex(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert machine.is_marked(b"of", mark)
    assert not machine.is_marked(b"of another", mark)
    assert len(mark) == 32


def test_a_machine_that_was_started_anew_or_is_another_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = machine.mark(b"of")
    (tmp_path / "boot_id").write_text("00000000-0000-4000-8000-000000000000\n")
    set_constants(monkeypatch, machine, BOOT_ID=tmp_path / "boot_id")
    assert not machine.is_marked(b"of", here)


def test_without_a_secret_no_mark_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, machine, BOOT_ID=tmp_path / "none")
    assert machine.mark(b"of") == b""
    assert not machine.is_marked(b"of", b"")


def test_a_loopback_mark_is_one_of_the_network_namespace_too(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = machine.loopback_mark(b"certificate")
    assert machine.has_loopback(b"certificate", mark)
    assert not machine.is_marked(b"certificate", mark)
    assert not machine.has_loopback(b"another", mark)
    monkeypatch.setattr(os, "readlink", lambda path: "net:[1]")  # as in a container's
    assert not machine.has_loopback(b"certificate", mark)
    assert not machine.has_loopback(b"certificate", b"")
