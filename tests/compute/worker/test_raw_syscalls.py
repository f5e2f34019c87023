"""The kernel's walls around an approved function: over 150 system calls, made directly."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duetlink.compute.operations.function import write_call
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.protocol import answers
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.data import values
from duetlink.errors import WorkerUnavailable, WorkLimit
from tests.compute.worker.conftest import BOOTSTRAP, Place
from tests.compute.worker.raw_calls import CALLS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the numbers of the calls are those of Linux on x86_64",
)

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs/system-calls.md").read_text(encoding="utf-8")

MIB = 1024 * 1024
LIMITS = Limits(memory_bytes=256 * MIB, result_bytes=16 * MIB, threads=2)

SOURCE = """\
def function(what, *arguments):
    from tests.compute.worker import raw_calls

    return getattr(raw_calls, what)(*arguments)
"""


Run = Callable[..., Any]


@pytest.fixture
def run(place: Place) -> Run:
    """Returns what a function of `raw_calls` returns in an approved function, in a room of its own."""

    def run(what: str, *arguments: Any, limits: Limits = LIMITS) -> Any:
        return place.run(_run(what, arguments, limits))

    return run


async def _run(what: str, arguments: tuple[Any, ...], limits: Limits) -> Any:
    worker = await Room.start(limits, handler="job", bootstrap=BOOTSTRAP)
    try:
        assert worker.isolation.enforced
        call = write_call([what, *arguments], {}).decode()
        job = {"name": "function", "source": SOURCE, "call": call, "max_bytes": MIB, "claim": None}
        reply = await worker.call("run", json.dumps(job).encode(), memory=True)
        outcome = answers.read_outcome(reply.content, reply.fds)
        assert not isinstance(outcome, dict), outcome
        return values.decode(b"".join(outcome.segments))
    finally:
        await worker.close()


def test_there_are_enough_calls_and_each_is_another() -> None:
    assert len({raw.number for raw in CALLS if raw.group != "what is let through"}) >= 100
    assert len({raw.name for raw in CALLS}) == len(CALLS)


def test_the_document_has_a_line_for_each_group_with_the_answers() -> None:
    """`| group | number of calls | answers |`"""
    section = DOCUMENT.partition("## Raw system calls")[2].partition("\n## ")[0]
    expected = []
    for group in dict.fromkeys(raw.group for raw in CALLS):
        rows = [raw for raw in CALLS if raw.group == group]
        told = ", ".join(f"`{answer}`" for answer in dict.fromkeys(raw.answer for raw in rows))
        expected.append((group, str(len(rows)), told))
    assert re.findall(r"^\| ([^|]+) \| (\d+) \| ([^|]+) \|", section, re.MULTILINE) == expected


def test_the_kernel_answers_each_call_as_the_table_says(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("private")
    (tmp_path / "link").symlink_to("there")
    found = run("answered", str(tmp_path))
    assert found == {raw.name: raw.answer for raw in CALLS}
    assert sorted(os.listdir(tmp_path)) == ["link", "there"]
    assert (tmp_path / "there").read_text() == "private"


def test_without_the_walls_the_kernel_does_what_can_be_tried_safely(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("private")
    (tmp_path / "link").symlink_to("there")
    names = [
        *("open", "openat", "openat (a directory)", "openat (its own memory)", "open (to be written)"),
        *("listxattr", "llistxattr", "flistxattr"),
        *("readlink", "readlink (of the kernel process)", "readlinkat", "statfs", "fstatfs"),
        *("chmod", "socket (Unix)", "socket (TCP)", "socket (UDP)", "kill (the kernel process)"),
        *("memfd_create", "mmap (shared)", "mmap (a stack that grows)"),
        *("prctl (outlive the kernel process)", "inotify_init1"),
    ]
    code = "import json, sys; from tests.compute.worker import raw_calls as raw; "
    code += "print(json.dumps(raw.answered(*sys.argv[1:])))"
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *names],
        check=True,
        capture_output=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert json.loads(told.stdout) == dict.fromkeys(names, "done")


# -- limits --------------------------------------------------------------------------------------------------


def test_limits_are_in_force_and_hard(run: Run) -> None:
    found = run("limits")
    assert found == {1: (16 * MIB, 16 * MIB), 4: (0, 0), 7: (4096, 4096)}
    assert run("most_descriptors") == (4096, "EMFILE")


def test_memory_ends_at_the_limit_however_it_is_asked_for(run: Run) -> None:
    chunks, answer = run("memory_taken", 16 * MIB)
    assert answer == "ENOMEM"
    assert 12 <= chunks <= 16  # of 256 MiB, what Python has taken meanwhile is missing
    assert run("made_writable_later", 300 * MIB) == "ENOMEM"
    assert run("grown", 300 * MIB) == (False, "ENOMEM")


def test_memory_of_a_result_does_not_grow(run: Run) -> None:
    assert run("larger_than_its_room") == ("EPERM", "EPERM")


def test_memory_that_is_made_read_only_is_counted_no_more_as_the_document_says(run: Run) -> None:
    assert run("counted_no_more", 128 * MIB, 4) == 4


def test_the_system_ends_it_first_when_its_memory_runs_out(place: Place) -> None:
    worker = place.run(Room.start(LIMITS, handler="job", bootstrap=BOOTSTRAP))
    try:
        assert Path(f"/proc/{worker.pid}/oom_score_adj").read_text() == "1000\n"
    finally:
        place.run(worker.close())


def test_threads_end_at_the_limit_of_memory(run: Run) -> None:
    assert 10 <= run("threads", 8 * MIB, 1000) <= 32


# -- what ends the process -----------------------------------------------------------------------------------


def test_the_calls_of_32_bit_programs_end_the_process(run: Run) -> None:
    with pytest.raises(WorkerUnavailable, match="SIGSYS"):
        run("call_as_32_bit")


def test_processor_time_ends_whatever_is_done_about_its_signal(run: Run) -> None:
    limits = Limits(memory_bytes=256 * MIB, cpu_s=0.5, threads=1)
    with pytest.raises(WorkLimit, match="processor time"):
        run("spin_past_the_alarm", limits=limits)
