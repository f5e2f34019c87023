"""Too much: of memory, of steps, of nesting, of time. It ends at a limit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import pytest
from duetlink.compute.operations.log import ProgramLog

from duetlink.base.runtime.loop import LoopThread
from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import program
from duetlink.compute.worker import answers
from duetlink.compute.worker import program as worker_program
from duetlink.compute.worker.faults import Fault, error_name
from duetlink.compute.worker.limits import Limits
from duetlink.compute.worker.process import Worker
from duetlink.errors import LimitExceeded, RemoteProtocolError, WorkLimit
from tests.remote.attempts import LIMITED, REFUSED, attempts, each, elsewhere
from tests.remote.hostile import OPEN, HostileDesk, Step, X, packed

BATCHES: dict[str, bytes] = {
    "no list": b"{}",
    "no JSON": b"[[",
    "no text": b"\xff\xfe\x00",
    "nested a hundred thousand deep": b"[" * 100_000,
    "a number of a million digits": b'[[1,"operator.add",[' + b"9" * 1_000_000 + b",1]]]",
    "steps that are none": b"[1,2,3]",
    "a number that is none": b'[[NaN,"operator.add",[1,1]]]',
    "a number below zero": b'[[-1,"operator.add",[1,1]]]',
    "a number beyond all": b'[[9007199254740993,"numpy.add",[1,1]]]',
    "more steps than a batch has": json.dumps([[0, "drop", []]] * 20_001).encode(),
    "more bytes than a batch has": b" " * (program.MAX_BYTES + 1),
}
ARGUMENTS: dict[str, Step] = {
    "an argument without a tag": [10, "operator.add", [[], 1]],
    "an unknown tag": [10, "operator.add", [["q", 1], 1]],
    "an argument that is an object": [10, "operator.add", [{"a": 1}, 1]],
    "an argument thirty deep": [10, "numpy.array", [json.loads('["l",' * 30 + "1" + "]" * 30)]],
    "a slice of four parts": [10, "operator.getitem", [X, ["s", 1, 2, 3, 4]]],
    "a dict without its last value": [10, "builtins.dict", [["d", "a"]]],
    "a key that cannot be one": [10, "builtins.dict", [["d", ["l"], 1]]],
    "a result that is not there": [10, "operator.add", [[77], 1]],
    "a result to come": [10, "operator.add", [[11], 1]],
    "1.0 in place of 1": [10, "operator.add", [[1.0], 1]],
    "true in place of 1": [10, "operator.add", [[True], 1]],
    "a result, and more": [10, ".copy", [[1, "x"]]],
    "an asset's number given anew": [1, "operator.add", [X, 1]],
    "an asset that is not shared": [10, "asset", ["other", 1]],
    "an asset of another revision": [10, "asset", ["x", 2]],
    "an asset of no name": [10, "asset", [["l"], 1]],
    "a value that did not come": [10, "value", [0]],
    "a value before the first": [10, "value", [-1]],
}
HUGE: dict[str, Step] = {
    "an array of a petabyte": [10, "numpy.zeros", [1 << 50]],
    "a repetition": [10, "numpy.repeat", [X, 1 << 45]],
    "a product": [10, "numpy.tile", [X, ["t", 1 << 20, 1 << 20]]],
    "a text": [10, "operator.mul", ["x", 1 << 50]],
    "a shift": [10, "operator.lshift", [1, 1 << 45]],
    "a padded text": [10, ".ljust", ["x", 1 << 50]],
    "an array of bytes": [10, "numpy.full", [1 << 40, "x"]],
    "a tensor": [10, "torch.ones", [1 << 50]],
    "combinations": [10, "torch.combinations", [[4], 30, True]],
}


@pytest.fixture(scope="module")
def desk() -> HostileDesk:
    desk = HostileDesk()
    assert desk.run(*OPEN) == {}
    return desk


@each("batches that are none", REFUSED, BATCHES)
def test_what_is_no_batch_is_refused(name: str) -> None:
    work = pb.Work(steps=zlib.compress(BATCHES[name]))
    with pytest.raises(RemoteProtocolError):
        HostileDesk({}).batch(work)


@each("references and arguments that are none", REFUSED, ARGUMENTS)
def test_what_is_no_argument_is_refused(desk: HostileDesk, name: str) -> None:
    assert list(desk.run(ARGUMENTS[name])) == [0]
    assert desk.run([11, "operator.add", [X, 1]], [0, "drop", [10, 11]]) == {}


@each("huge objects", LIMITED, HUGE)
def test_a_huge_object_is_a_failure_of_one_step(desk: HostileDesk, name: str) -> None:
    (fault,) = desk.run(HUGE[name]).values()
    assert error_name(fault.error) in ("MemoryError", "ValueError", "OverflowError", "RuntimeError")
    assert desk.run([11, "operator.add", [X, 1]], [0, "drop", [10, 11]]) == {}


@attempts("batches that are none", LIMITED, "a few bytes that become many")
def test_a_small_message_that_becomes_large_is_not_inflated() -> None:
    bomb = zlib.compress(b" " * (64 << 20), 9)
    assert len(bomb) < 70_000
    with pytest.raises(LimitExceeded, match="over 8,388,608 bytes"):
        program.inflate(bomb)


@attempts("batches that are none", LIMITED, "a million results", "a log without end")
def test_results_and_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_program, "MOST_OBJECTS", 10)
    with pytest.raises(LimitExceeded, match="10 results are held"):
        HostileDesk({}).run(*([i, "operator.add", [1, 1]] for i in range(1, 12)))
    log = ProgramLog(max_bytes=100)
    with pytest.raises(LimitExceeded, match="over 100 bytes is not kept"):
        log.append(b"[" + b" " * 100 + b"]")


# -- in a process, with the owner's limits ------------------------------------------------------------------


class Asked:
    """A worker that does what batches say."""

    def __init__(self) -> None:
        self._thread = LoopThread("duetlink-test")
        limits = Limits(memory_bytes=256 << 20, wall_s=60.0)
        self.worker = self._thread.run(Worker.start(limits, libraries=("numpy",)))

    def run(self, *steps: Step, timeout_s: float = 60.0) -> list[Fault]:
        work = pb.Work(steps=packed(steps)).SerializeToString()
        reply = self._thread.run(self.worker.call("run", work, timeout_s=timeout_s))
        return [fault for _, fault in answers.read_batch(reply.content)[0]]

    def close(self) -> None:
        self._thread.run(self.worker.close())
        self._thread.stop()


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    asked = Asked()
    yield asked
    asked.close()


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """The worker of this module lives through several tests."""


@attempts("huge objects", LIMITED, "memory of a gigabyte", "memory piece by piece")
def test_memory_ends_at_the_owners_limit(asked: Asked) -> None:
    (fault,) = asked.run([1, "numpy.ones", [1 << 27]])
    assert fault.error == pb.WorkFailure.MEMORY_ERROR
    pieces: list[Step] = [[2 + i, "numpy.ones", [1 << 20]] for i in range(60)]
    assert 10 < len(asked.run(*pieces)) < 40
    drop: Step = [0, "drop", list(range(1, 70))]
    assert asked.run(drop, [100, "numpy.ones", [1 << 20]]) == []


@attempts("endless work", LIMITED, "a number that takes for ever", "an interpreter that lets nobody else run")
def test_a_batch_ends_at_the_owners_limit(asked: Asked) -> None:
    asked.run([200, "operator.pow", [3, 1_000_000]])
    with pytest.raises(WorkLimit, match=r"a command took over 0\.5 s, and the worker was ended"):
        asked.run([201, "operator.pow", [3, 400_000_000]], timeout_s=0.5)


@attempts("endless work", REFUSED, "an array that holds itself: NumPy computes in it until it crashes")
@pytest.mark.parametrize("held", [[1], [2]], ids=["itself", "what holds it"])
@pytest.mark.parametrize("write", ["operator.setitem", ".fill"])
def test_no_array_holds_itself(write: str, held: list[int]) -> None:
    desk = HostileDesk({})
    made: list[Step] = [[1, "numpy.array", [["l", None, 2.0]]], [2, "builtins.list", [["l", [1]]]]]
    arguments = [[1], 0, held] if write == "operator.setitem" else [[1], held]
    told = desk.run(*made, [0, write, arguments], [3, "operator.neg", [[1]]])
    assert told.keys() == {2, 3}
    assert told[2].code == pb.WorkFailure.REFUSED


SANDBOX = "tests/compute/worker/test_sandbox.py"
for test, names in {
    "test_no_file_is_read_but_those_of_libraries": ("reading files",),
    "test_no_file_is_read_by_system_calls": ("reading files, past Python",),
    "test_nothing_is_written_anywhere": ("writing files", "removing files"),
    "test_nothing_is_opened_to_be_written_by_system_calls": ("writing files, past Python",),
    "test_no_file_is_made_changed_or_removed_by_system_calls": ("links, directories, renames",),
    "test_the_environment_is_empty": ("the owner's environment, with its keys",),
    "test_no_descriptor_of_the_parent_is_there": ("a descriptor that was left open",),
    "test_no_connection_is_made": ("a connection",),
    "test_no_socket_is_made_by_system_calls": ("a socket, past Python",),
    "test_no_program_is_started": ("a program", "a fork"),
    "test_no_process_is_made_or_looked_into_by_system_calls": ("fork, exec, ptrace, past Python",),
    "test_what_came_later_is_as_if_it_were_not_there": ("io_uring and what comes after it",),
    "test_no_signal_reaches_anybody_else_by_system_calls": ("killing the owner's kernel",),
    "test_limits_and_rights_are_not_changed": ("raising its own limits",),
    "test_memory_that_nothing_counts_is_not_made": ("memory that nothing counts",),
    "test_no_code_is_run_but_that_of_libraries": ("code in a process that should run none",),
}.items():
    elsewhere("the walls of the process", REFUSED, f"{SANDBOX}::{test}", *names)
elsewhere(
    "the walls of the process",
    REFUSED,
    "tests/compute/worker/test_raw_syscalls.py::test_the_kernel_answers_each_call_as_the_table_says",
    "system calls by machine code in an approved function",
)
elsewhere(
    "endless work",
    LIMITED,
    "tests/remote/test_requests.py::test_work_that_takes_too_long_ends",
    "a matrix product that takes for ever, through two notebooks",
)
