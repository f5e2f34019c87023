"""A process ends when its script ends, whatever is open in it. Peers are told, the audit log is complete."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.widgets.kernel import Kernel

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("ending.py")
HANG_S = 100  # a script that ends takes a few seconds, and more on a busy machine


class Script:
    """One run of ending.py, with an audit log of its own."""

    def __init__(self, directory: Path, kind: str, ending: str, argument: str = "") -> None:
        self.log = directory / f"{kind}-{len(list(directory.iterdir()))}.jsonl"
        self.log.touch()
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), kind, ending, argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | {"DUETLINK_AUDIT_PATH": str(self.log)},
        )

    def said(self, first: str) -> str:
        """The rest of the next line that begins with this word; others are duetlink's own."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.partition(" ")[0].strip() == first:
                return line.removeprefix(first).strip()
        raise AssertionError(f"it ended without {first!r}: {self.error_text()}")

    def tell(self, words: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")

    def error_text(self) -> str:
        assert self.process.stderr is not None
        self.process.kill()
        return self.process.stderr.read()

    def ended(self) -> tuple[int, str]:
        """Its exit status and what it has said on standard error."""
        _, errors = self.process.communicate(timeout=HANG_S)
        lines = errors.splitlines(keepends=True)
        return self.process.returncode, "".join(line for line in lines if not line.startswith("waiting for"))

    def last_entry(self) -> str:
        return str(json.loads(self.log.read_text().splitlines()[-1])["kind"])

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


Start = Callable[..., Script]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    directory = tmp_path / "logs"
    directory.mkdir()
    made: list[Script] = []

    def begin(kind: str, ending: str = "end", argument: str = "") -> Script:
        made.append(Script(directory, kind, ending, argument))
        return made[-1]

    yield begin
    for script in made:
        script.end()


def pair(start: Start, first: str, second: str, ending: str) -> tuple[Script, Script]:
    """`first` is an opener, which goes on; `second` ends."""
    one = start(first, "end", "2")
    two = start(second, ending, one.said("code"))
    two.said("connected")
    one.said("connected")
    return one, two


@pytest.mark.parametrize(
    ("first", "second"),
    [("owner", "scientist"), ("opener", "member"), ("opener", "loop-member"), ("opener", "torch_first")],
)
@pytest.mark.parametrize(("ending", "status"), [("end", 0), ("exit", 7)])
def test_a_script_that_ends_ends_its_process(
    start: Start, first: str, second: str, ending: str, status: int
) -> None:
    one, two = pair(start, first, second, ending)
    two.tell()
    assert two.ended() == (status, "")
    assert two.last_entry() == "closed"
    one.tell()
    assert one.ended() == (0, "")
    assert one.last_entry() == "closed"


def test_an_exception_ends_it_with_its_own_words_alone(start: Start) -> None:
    _, two = pair(start, "opener", "member", "raise")
    two.tell()
    status, errors = two.ended()
    assert status == 1
    assert errors.count("Traceback") == 1
    assert errors.endswith("ValueError: mine\n")
    assert two.last_entry() == "closed"


def test_ctrl_c_ends_it_as_any_script(start: Start) -> None:
    _, two = pair(start, "opener", "member", "interrupt")
    two.tell()
    two.said("waiting")
    two.process.send_signal(signal.SIGINT)
    status, errors = two.ended()
    assert status == -signal.SIGINT
    assert errors.count("Traceback") == 1
    assert two.last_entry() == "closed"


def test_a_group_that_no_variable_holds_is_closed(start: Start) -> None:
    _, two = pair(start, "opener", "dropped", "end")
    two.tell()
    assert two.ended() == (0, "")
    assert two.last_entry() == "closed"


@pytest.mark.parametrize(("first", "second"), [("owner", "scientist"), ("opener", "member")])
def test_no_thread_needs_to_be_started_at_the_end(start: Start, first: str, second: str) -> None:
    one, two = pair(start, first, second, "exit")
    two.tell("no threads")
    assert two.ended() == (7, "")
    assert two.last_entry() == "closed"
    one.tell()
    assert one.ended() == (0, "")


@pytest.mark.parametrize(("first", "second"), [("owner", "scientist"), ("opener", "member")])
def test_a_peer_that_is_stopped_holds_nobody_up_for_long(start: Start, first: str, second: str) -> None:
    one, two = pair(start, first, second, "exit")
    one.process.send_signal(signal.SIGSTOP)
    two.tell()
    assert two.ended() == (7, "")
    assert two.last_entry() == "closed"


def test_a_second_ctrl_c_waits_for_nobody(start: Start) -> None:
    one, two = pair(start, "opener", "member", "interrupt")
    one.process.send_signal(signal.SIGSTOP)
    two.tell()
    two.said("waiting")
    two.process.send_signal(signal.SIGINT)
    two.said("ending")
    two.process.send_signal(signal.SIGINT)
    status, errors = two.ended()
    assert status == -signal.SIGINT
    assert errors.count("Traceback") == 1  # the script's own
    assert two.last_entry() == "closed"


@pytest.mark.parametrize(("ending", "status"), [("end", 0), ("exit", 7)])
def test_ranks_of_a_torch_job_end_without_destroying_it(
    start: Start, tmp_path: Path, ending: str, status: int
) -> None:
    ranks = [start("rank", ending, f"{tmp_path / 'store'}#{number}") for number in range(2)]
    for script in ranks:
        script.said("connected")
    for script in ranks:
        script.tell()
    assert [script.ended() for script in ranks] == [(status, "")] * 2


@pytest.mark.parametrize("peer_is_stopped", [False, True])
@pytest.mark.parametrize("kind", ["owner", "opener"])
def test_a_kernel_that_is_restarted_completes_its_log(
    start: Start, private_audit_log: Path, kind: str, peer_is_stopped: bool
) -> None:
    one = start(kind, "end", "2")
    kernel = Kernel()
    try:
        joins = "join(" if kind == "owner" else "group("
        cell = f"import duetlink, numpy\nopen_ = duetlink.{joins}{one.said('code')!r})"
        if kind == "opener":
            cell += "\n_ = open_.wait_ready(60).all_reduce(numpy.ones(4))"
        kernel.run(cell)
        one.said("connected")
        if peer_is_stopped:
            one.process.send_signal(signal.SIGSTOP)
        # Jupyter's own 2.5 s until SIGTERM are wall time, of which a busy machine may give a kernel little
        kernel.manager.shutdown_wait_time = 2 * HANG_S
        kernel.manager.restart_kernel()
        kinds = [json.loads(line)["kind"] for line in private_audit_log.read_text().splitlines()]
        assert kinds[-1] == "closed"
    finally:
        kernel.close()


def test_a_test_run_ends_that_forgets_to_close_in_a_worker_of_xdist(tmp_path: Path) -> None:
    (tmp_path / "test_forgets.py").write_text(
        "import duetlink\n"
        "kept = []\n"
        "def test_forgets():\n"
        "    owner = duetlink.launch()\n"
        "    kept.extend([owner, duetlink.join(owner.code), duetlink.group(size=2)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
