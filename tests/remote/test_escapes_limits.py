"""Too much: of memory, of steps, of nesting, of time. It ends at a limit."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator

import pytest

from duetlink.base.runtime.loop import LoopThread
from duetlink.compute.operations import canonical
from duetlink.compute.operations.steps import body, trace
from duetlink.compute.worker.kernel import process
from duetlink.compute.worker.protocol import answers, faults
from duetlink.compute.worker.protocol.faults import Fault, error_name
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.protocol.memory import place
from duetlink.errors import LimitExceeded, RemoteProtocolError, WorkLimit
from tests.remote.attempts import LIMITED, REFUSED, SHOWN, attempts, each, elsewhere
from tests.remote.hostile import OPEN, HostileDesk, Room, Sliced, Step, X, slice_of

PROGRAMS: dict[str, bytes] = {
    "no list": b"{}",
    "no JSON": b"[[",
    "no text": b"\xff\xfe\x00",
    "nested a hundred thousand deep": b"[" * 100_000,
    "a number of a million digits": b'[["operator.add",[' + b"9" * 1_000_000 + b",1]]]",
    "steps that are none": b"[1,2,3]",
    "a step that is none": b'[[NaN,"operator.add",[1,1]]]',
    "a mode that there is not": b'[["numpy.add",[1,1],{},{"drop":[1]}]]',
    "a seed beyond all": b'[["torch.rand",[1],{},{"draw":[18446744073709551616,0]}]]',
    "more steps than a program has": b"[" + b"[]," * 1_000_000 + b"[]]",
}
READ = ("steps that are none", "a mode that there is not", "a seed beyond all", "a step that is none")
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
    "an asset that is not shared": [10, "asset", ["other", 1]],
    "an asset of another revision": [10, "asset", ["x", 2]],
    "an asset of no name": [10, "asset", [["l"], 1]],
    "a value that did not come": [10, "value", [0]],
    "a value before the first": [10, "value", [-1]],
}
REFERENCES: dict[str, Step] = {
    "1.0 in place of 1": [1.0],
    "true in place of 1": [True],
    "a result, and more": [1, "x"],
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


@pytest.fixture
def desk() -> HostileDesk:
    desk = HostileDesk()
    desk.run(*OPEN)
    return desk


@each("programs that are none", REFUSED, PROGRAMS)
def test_what_is_no_program_is_refused(name: str) -> None:
    """By whoever reads the program, and once more in the room."""
    steps = PROGRAMS[name]
    room = Room({}, Sliced(1, []))
    room.body = b"".join(body.write(1, steps)[0])
    if name in READ:
        fault = answers.read_result(*room.run())
        assert isinstance(fault, Fault)
        assert fault.code == faults.MALFORMED
    else:
        with pytest.raises(RemoteProtocolError):
            room.run()


@each("references and arguments that are none", REFUSED, ARGUMENTS)
def test_what_is_no_argument_is_refused(desk: HostileDesk, name: str) -> None:
    assert list(desk.run(ARGUMENTS[name])) == [0]
    assert desk.run([12, "operator.add", [X, 1]]) == {}


@each("references and arguments that are none", SHOWN, REFERENCES)
def test_a_reference_in_other_words_is_read_once_and_shown_as_it_is_run(name: str) -> None:
    """Whoever decides is shown what was read, and that is what runs."""
    raw = [["asset", ["x", 1]], ["asset", ["frame", 1]], ["operator.add", [REFERENCES[name], 1]]]
    read = canonical.Program.read(memoryview(Sliced(3, raw).to_body()))
    assert read.text == b'[["asset",["x",1]],["operator.add",[[1],1]]]'
    assert read.lineage.code == "x + 1"


@each("huge objects", LIMITED, HUGE)
def test_a_huge_object_is_a_failure_of_one_step(desk: HostileDesk, name: str) -> None:
    (fault,) = desk.run(HUGE[name]).values()
    assert fault.code == faults.NOT_MADE or error_name(fault.error) in (
        "ValueError",
        "OverflowError",
        "RuntimeError",
    )
    assert desk.run([11, "operator.add", [X, 1]]) == {}


@attempts("programs that are none", LIMITED, "a million steps", "a session of steps without end")
def test_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MAX_STEPS", 10)
    with pytest.raises(LimitExceeded, match="11 steps is over 10"):
        Room({}, Sliced(1, [["operator.add", [1, 1]]] * 11)).run()
    monkeypatch.setattr(trace, "MAX_HELD_BYTES", 100)
    with pytest.raises(LimitExceeded, match="over 100 bytes"):
        slice_of([[1, "numpy.full", [3, "x" * 1000]]], 1)


elsewhere(
    "programs that are none",
    LIMITED,
    "tests/remote/test_refusals.py::test_a_small_message_that_becomes_large_is_not_inflated",
    "a few bytes that become many",
)


# -- in a process, with the owner's limits ------------------------------------------------------------------


@contextlib.contextmanager
def room() -> Iterator[Callable[..., Fault | None]]:
    """Runs one program in a process of its own, with its last step as the target."""
    thread = LoopThread("duetlink-test")
    try:
        limits = Limits(memory_bytes=256 << 20, wall_s=60.0)
        worker = thread.run(process.Room.start(limits, libraries=("numpy",)))

        def run(*steps: Step, timeout_s: float = 60.0) -> Fault | None:
            content = Sliced(len(steps), list(steps)).to_body()
            fd = place([content], len(content))
            asked = json.dumps({"size_bytes": len(content), "max_bytes": 1 << 30, "salt": "00"}).encode()
            try:
                reply = thread.run(worker.call("run", asked, fds=[fd], timeout_s=timeout_s, memory=True))
            finally:
                os.close(fd)
            taken = answers.read_result(reply.content, reply.fds)
            return taken if isinstance(taken, Fault) else None

        yield run
        thread.run(worker.close())
    finally:
        thread.stop()


@attempts("huge objects", LIMITED, "memory of a gigabyte", "memory piece by piece")
def test_memory_ends_at_the_owners_limit() -> None:
    with room() as run:
        fault = run(["numpy.ones", [1 << 27]], ["operator.add", [[1], 1]])
    assert fault is not None
    assert (fault.step, fault.code, fault.error) == (1, faults.NOT_MADE, 0)
    pieces: list[Step] = [["numpy.ones", [1 << 20]] for _ in range(60)]
    last: Step = ["builtins.list", [["l", *([number] for number in range(1, 61))]]]
    with room() as run:
        fault = run(*pieces, last)
    assert fault is not None
    assert fault.code == faults.NOT_MADE
    assert 10 < fault.step < 40
    with room() as run:  # what nobody needs any more is let go
        assert run(*pieces, ["operator.add", [1, 1]]) is None


@attempts("endless work", LIMITED, "a number that takes for ever", "an interpreter that lets nobody else run")
def test_a_program_ends_at_the_owners_limit() -> None:
    message = r"a command took over 0\.5 s, and the room was ended"
    with room() as run, pytest.raises(WorkLimit, match=message):
        run(["operator.pow", [3, 400_000_000]], timeout_s=0.5)


@attempts("endless work", REFUSED, "an array that holds itself: NumPy computes in it until it crashes")
@pytest.mark.parametrize("held", [[1], [2]], ids=["itself", "what holds it"])
@pytest.mark.parametrize("write", ["operator.setitem", ".fill"])
def test_no_array_holds_itself(write: str, held: list[int]) -> None:
    desk = HostileDesk({})
    made: list[Step] = [[1, "numpy.array", [["l", None, 2.0]]], [2, "builtins.list", [["l", [1]]]]]
    arguments = [[1], 0, held] if write == "operator.setitem" else [[1], held]
    told = desk.run(*made, [0, write, arguments], [3, "operator.neg", [[1]]])
    assert told.keys() == {2, 3}
    assert told[2].code == faults.REFUSED


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
    "tests/remote/test_requests.py::test_what_takes_too_long_is_not_made_and_the_next_is",
    "a matrix product that takes for ever, through two notebooks",
)
