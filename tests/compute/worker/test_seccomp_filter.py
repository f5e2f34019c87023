"""The filter's program, run by a small machine: what it says to calls, on other processors too."""

from __future__ import annotations

import errno
import functools
import os
import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.compute.worker.sandbox.seccomp import ALLOW, ERRNO, KILL, MACHINES, Instruction, Machine, build
from duetlink.compute.worker.sandbox.syscalls import COMMON_ALLOWED, EXAMINED, LINKS, REFUSED

PID = 4321
EPERM, EACCES, ENOSYS = ERRNO | errno.EPERM, ERRNO | errno.EACCES, ERRNO | errno.ENOSYS

machines = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


WORDS = st.tuples(*[st.integers(0, 2**64 - 1)] * 6)


class Call(NamedTuple):
    number: int
    arguments: tuple[int, ...] = ()
    arch: int | None = None


@functools.cache
def program_of(machine: Machine, links: bool) -> list[Instruction]:
    return build(machine, PID, links=links)


def decide(machine: Machine, call: Call, *, links: bool = False) -> int:
    """What the filter answers, by classic BPF's rules (linux/filter.h)."""
    program = program_of(machine, links)
    arch = machine.audit_arch if call.arch is None else call.arch
    arguments = [*call.arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<iIQ6Q", call.number, arch, 0, *(argument % 2**64 for argument in arguments))
    position = accumulator = 0
    while True:
        code, if_true, if_false, constant = program[position]
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, constant)
        elif code == 0x54:
            accumulator &= constant
        elif code == 0x06:
            return constant
        else:
            holds = {
                0x15: accumulator == constant,
                0x35: accumulator >= constant,
                0x45: accumulator & constant,
            }
            position += if_true if holds[code] else if_false


def number(machine: Machine, name: str) -> int:
    found = (EXAMINED.get(name) or REFUSED[name])[machine.column]
    assert found is not None
    return found


@machines
def test_the_program_is_one_that_the_kernel_takes(machine: Machine) -> None:
    program = build(machine, PID)
    assert len(program) < 4096
    for code, if_true, if_false, constant in program:
        assert code in (0x20, 0x54, 0x15, 0x35, 0x45, 0x06)
        assert 0 <= if_true < 256
        assert 0 <= if_false < 256
        assert 0 <= constant < 2**32
    assert program[-1][0] == 0x06


@machines
@given(call=st.builds(Call, st.integers(-(2**31), 2**31 - 1), WORDS, st.none()))
def test_every_call_is_answered(machine: Machine, call: Call) -> None:
    assert decide(machine, call) in (ALLOW, EPERM, EACCES, ENOSYS, ERRNO | errno.EINVAL)


@machines
def test_all_that_is_listed_is_refused(machine: Machine) -> None:
    for name, numbers in REFUSED.items():
        if numbers[machine.column] is not None:
            assert decide(machine, Call(numbers[machine.column] or 0)) == EPERM, name


@machines
def test_calls_of_another_set_end_the_process_or_are_not_there(machine: Machine) -> None:
    other = next(other for other in MACHINES.values() if other is not machine)
    assert decide(machine, Call(0, arch=other.audit_arch)) == KILL
    assert decide(machine, Call(0, arch=0x40000003)) == KILL  # i386, by int 0x80
    assert decide(machine, Call(0x40000000 | 59)) == ENOSYS  # x32
    assert decide(machine, Call(-1)) == ENOSYS


@machines
def test_newer_calls_are_not_there_but_for_a_few(machine: Machine) -> None:
    for number in range(424, 1000):
        expected = ALLOW if number in COMMON_ALLOWED.values() else ENOSYS
        assert decide(machine, Call(number)) == expected


@machines
def test_threads_are_made_and_processes_are_not(machine: Machine) -> None:
    clone = number(machine, "clone")
    assert decide(machine, Call(clone, (0x3D0F00,))) == ALLOW  # glibc's flags of a thread
    assert decide(machine, Call(clone, (17,))) == EPERM  # fork: SIGCHLD only
    assert decide(machine, Call(clone, (0x4111,))) == EPERM  # vfork
    for namespace in (
        0x00020000,
        0x02000000,
        0x04000000,
        0x08000000,
        0x10000000,
        0x20000000,
        0x40000000,
        0x80,
    ):
        assert decide(machine, Call(clone, (0x3D0F00 | namespace,))) == EPERM


@machines
def test_it_sends_signals_to_itself_only(machine: Machine) -> None:
    kill, tgkill = number(machine, "kill"), number(machine, "tgkill")
    assert decide(machine, Call(kill, (PID, 6))) == ALLOW
    assert decide(machine, Call(tgkill, (PID, 5000, 6))) == ALLOW
    for other in (0, 1, PID + 1, -1, -PID):
        assert decide(machine, Call(kill, (other, 9))) == EPERM
        assert decide(machine, Call(tgkill, (other, 9, 9))) == EPERM


@machines
def test_files_are_opened_to_be_read(machine: Machine) -> None:
    openat = number(machine, "openat")
    assert decide(machine, Call(openat, (-100, 1, os.O_RDONLY | os.O_CLOEXEC))) == ALLOW
    for flag in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND):
        assert decide(machine, Call(openat, (-100, 1, flag))) == EACCES


@machines
def test_limits_are_read_and_not_set(machine: Machine) -> None:
    prlimit = number(machine, "prlimit64")
    assert decide(machine, Call(prlimit, (0, 2, 0, 1))) == ALLOW
    for new in (1, 0x7FFF00000000, 0x7FFF00000001):
        assert decide(machine, Call(prlimit, (0, 2, new, 1))) == EPERM


@machines
def test_memory_is_private_or_of_a_descriptor(machine: Machine) -> None:
    mmap = number(machine, "mmap")
    private_anonymous, shared, shared_anonymous, validated = 0x22, 0x01, 0x21, 0x23
    assert decide(machine, Call(mmap, (0, 4096, 3, private_anonymous))) == ALLOW
    assert decide(machine, Call(mmap, (0, 4096, 3, shared))) == ALLOW
    assert decide(machine, Call(mmap, (0, 4096, 3, shared_anonymous))) == EPERM
    assert decide(machine, Call(mmap, (0, 4096, 3, validated))) == EPERM
    for grows_down in (0x122, 0x102):
        assert decide(machine, Call(mmap, (0, 4096, 3, grows_down))) == EPERM


@machines
@pytest.mark.parametrize(
    ("name", "index", "refused", "allowed"),
    [
        ("fcntl", 1, (8, 10, 15, 1024, 1026), (1, 2, 3, 4, 1030, 1034)),
        ("ioctl", 1, (0x8901, 0x8902, 0x5412, 0x541C, 0x40086602, 0), (0x5401, 0x5421)),
        ("prctl", 0, (1, 4, 22, 35, 0x59616D61), (15, 16, 38)),
    ],
)
def test_some_calls_are_refused_by_what_they_ask(
    machine: Machine, name: str, index: int, refused: tuple[int, ...], allowed: tuple[int, ...]
) -> None:
    for value in refused:
        assert decide(machine, Call(number(machine, name), (0,) * index + (value,))) == EPERM
    for value in allowed:
        assert decide(machine, Call(number(machine, name), (0,) * index + (value,))) == ALLOW


@machines
def test_links_are_read_only_where_nothing_else_says_which_files_are_opened(machine: Machine) -> None:
    for name, numbers in LINKS.items():
        found = numbers[machine.column]
        if found is not None:
            assert decide(machine, Call(found)) == ERRNO | errno.EINVAL, name
            assert decide(machine, Call(found), links=True) == ALLOW, name
