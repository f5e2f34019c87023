"""What a locked down room cannot do: each tried in a real one, by Python and, past it, by system calls."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetlink.compute.worker.protocol.limits import Limits
from duetlink.errors import OperationFailed, OperationRefused, RemoteFailure
from tests.compute.worker.conftest import Asked, Place

HOOK = "refused by the hook"
MIB = 1024 * 1024

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the system has no such fence here")


@pytest.fixture(scope="module")
def ask(place: Place) -> Iterator[Asked]:
    """Asks a room that runs no code but the libraries'."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)  # a careless parent: the room must not have it nevertheless
    asked = Asked(
        place, "probe", ("numpy",), Limits(memory_bytes=256 * MIB, result_bytes=16 * MIB, threads=2)
    )
    os.close(reading)
    os.close(writing)
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def ask_free(place: Place) -> Iterator[Asked]:
    """Asks a room that runs code which a person has approved."""
    asked = Asked(place, "free", ("numpy",), Limits())
    yield asked
    asked.close()


@linux_only
def test_the_system_itself_shuts_it_in(ask: Asked) -> None:
    isolation = ask.worker.isolation
    assert isolation.enforced
    assert isolation.filesystem.startswith("Landlock ")
    assert isolation.network == "seccomp, audit hook"
    assert isolation.processes == "seccomp, audit hook"
    assert isolation.memory == "RLIMIT_DATA"


# -- files ---------------------------------------------------------------------------------------------------

PRIVATE = (
    "/etc/passwd",
    "/etc/hostname",
    "/proc/self/environ",
    "/proc/self/mem",
    "/proc/1/cmdline",
    "/dev/mem",
)


@pytest.mark.parametrize("path", [*PRIVATE, __file__, "relative"])
def test_no_file_is_read_but_those_of_libraries(ask: Asked, path: str) -> None:
    assert ask("read", path) == HOOK


def test_no_file_of_the_owner_is_read(ask: Asked, tmp_path: Path) -> None:
    (tmp_path / "scans.csv").write_text("private")
    for path in (tmp_path / "scans.csv", Path.home() / ".bashrc", Path.home()):
        assert ask("read", str(path)) == HOOK


@linux_only
def test_no_symbolic_link_is_read(ask: Asked, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/etc/passwd")
    assert ask("read_link", str(link)) == "refused by the system: EINVAL"
    assert ask("real_path", str(link)) == f"done: {str(link)!r}"
    assert ask("read", str(link)) == HOOK


@linux_only
def test_links_among_the_libraries_lead_to_them_and_no_further(ask: Asked) -> None:
    library = next(
        path
        for path in Path("/usr/lib").glob("*/lib*.so*")
        if path.is_symlink() and path.is_file() and path.resolve().is_relative_to("/usr/lib")
    )
    assert ask("read", str(library)) == "done: 10"
    assert ask("read", f"{library}/../../../../etc/passwd") == HOOK


@linux_only
def test_no_file_is_read_by_system_calls(ask: Asked, tmp_path: Path) -> None:
    (tmp_path / "scans.csv").write_text("private")
    for path in (*PRIVATE, str(tmp_path / "scans.csv"), "/", str(tmp_path)):
        if os.path.exists(path):
            assert ask("raw_open", f"{os.O_RDONLY} {path}") == "EACCES", path


def test_the_standard_library_is_read(ask: Asked) -> None:
    assert ask("read", os.__file__) == "done: 10"
    assert ask("import_module", "wave") == "done: 'wave'"


def test_a_link_leads_nowhere_else(ask: Asked, tmp_path: Path) -> None:
    assert (
        ask("read", os.path.join(os.path.dirname(os.__file__), "..", "..", "..", "..", "etc/passwd")) == HOOK
    )


def test_no_directory_is_listed_but_those_of_libraries(ask: Asked) -> None:
    for path in ("/", "/home", "/tmp", "/proc/self/fd", str(Path.home())):
        assert ask("list_directory", path) == HOOK
    assert ask("list_directory", os.path.dirname(os.__file__)).startswith("done: [")


def test_nothing_is_written_anywhere(ask: Asked, tmp_path: Path) -> None:
    for path in (tmp_path / "new", "/dev/shm/new", "/tmp/duetlink-new", os.__file__, "/dev/null"):
        assert ask("write", str(path)) == HOOK
    assert ask("remove", __file__) == HOOK
    assert os.path.exists(__file__)


@linux_only
@pytest.mark.parametrize(
    "flags", [os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_CREAT, os.O_RDONLY | os.O_TRUNC]
)
def test_nothing_is_opened_to_be_written_by_system_calls(ask: Asked, tmp_path: Path, flags: int) -> None:
    (tmp_path / "there").write_text("x")
    for path in (tmp_path / "new", tmp_path / "there", os.__file__, "/dev/null"):
        assert ask("raw_open", f"{flags} {path}") == "EACCES"
    assert (tmp_path / "there").read_text() == "x"


@linux_only
@pytest.mark.parametrize(
    "call", ["unlinkat", "mkdirat", "renameat2", "linkat", "symlinkat", "truncate", "mknodat"]
)
def test_no_file_is_made_changed_or_removed_by_system_calls(ask: Asked, call: str) -> None:
    assert ask("raw_call", f"{call} 0 0 0 0 0") == "EPERM"


def test_no_descriptor_of_the_parent_is_there(ask: Asked) -> None:
    # standard input, output and error, and its socket
    assert ask("descriptors") == "4"


def test_the_environment_is_empty(ask: Asked) -> None:
    assert ask("environment") == "({}, False)"


# -- network and processes -----------------------------------------------------------------------------------


def test_no_connection_is_made(ask: Asked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert ask("connect", str(server.getsockname()[1])) == HOOK


@linux_only
@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16])
def test_no_socket_is_made_by_system_calls(ask: Asked, family: int) -> None:
    assert ask("raw_call", f"socket {family} 1 0") == "EPERM"
    assert ask("raw_call", f"socketpair {family} 1 0 0") == "EPERM"


def test_no_program_is_started(ask: Asked) -> None:
    assert ask("spawn") == HOOK
    assert ask("fork") == HOOK


@linux_only
@pytest.mark.parametrize(
    "call", ["execve", "execveat", "clone", "ptrace", "process_vm_readv", "unshare", "bpf"]
)
def test_no_process_is_made_or_looked_into_by_system_calls(ask: Asked, call: str) -> None:
    assert ask("raw_call", f"{call} 0 0 0 0 0") == "EPERM"
    assert ask("raw_call_in_thread", f"{call} 0 0 0 0 0") == "EPERM"


@linux_only
@pytest.mark.parametrize(
    "number", [425, 434, 435, 437, 470, 1000]
)  # io_uring, pidfd, clone3, openat2, unknown
def test_what_came_later_is_as_if_it_were_not_there(ask: Asked, number: int) -> None:
    assert ask("raw_call", f"{number} 0 0 0 0 0") == "ENOSYS"


def test_the_parent_is_not_killed(ask: Asked) -> None:
    assert ask("kill_parent") == HOOK


@linux_only
def test_no_signal_reaches_anybody_else_by_system_calls(ask: Asked, ask_free: Asked) -> None:
    parent = ask("parent")
    assert parent == str(ask.place.zygote_pid or os.getpid())
    for pid in (parent, os.getpid(), ask_free.worker.pid):
        for call in (f"kill {pid} 0", f"tgkill {pid} {pid} 9", f"tkill {pid} 9"):
            assert ask("raw_call", call) == "EPERM"
    assert ask("raw_call", "kill -1 9") == ask("raw_call", "kill 0 9") == "EPERM"
    # the kernel sends signals for a descriptor, to whom one says, of the kind that one says
    assert ask("raw_call", f"fcntl 2 8 {parent}") == "EPERM"
    assert ask("raw_call", "fcntl 2 10 9") == "EPERM"
    assert ask("raw_call", "fcntl 2 3 0") == "done"


@linux_only
def test_nothing_of_other_processes_is_read_or_traced(ask: Asked, ask_free: Asked) -> None:
    for pid in (ask("parent"), os.getpid(), ask_free.worker.pid):
        for name in ("mem", "maps", "environ", "fd", "root", "status", "cmdline"):
            assert ask("raw_open", f"{os.O_RDONLY} /proc/{pid}/{name}") == "EACCES", name
        for call in (f"ptrace 16 {pid}", f"process_vm_readv {pid}", f"process_vm_writev {pid}"):
            assert ask("raw_call", f"{call} 0 0 0 0") == "EPERM"
        assert ask("raw_call", f"prlimit64 {pid} 7 1 0") == "EPERM"


def test_threads_start(ask: Asked) -> None:
    assert ask("start_threads") == "4"


# -- limits --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="memory is not limited here")
@pytest.mark.parametrize("command", ["allocate_array", "allocate_bytes", "allocate_little_by_little"])
def test_memory_beyond_the_limit_fails_and_the_worker_lives(ask: Asked, command: str) -> None:
    with pytest.raises(OperationFailed, match="more memory than the owner allows"):
        ask(command, str(100 << 30))
    with pytest.raises(OperationFailed, match="more memory than the owner allows"):
        ask(command, str(300 * MIB))
    assert ask("allocate_array", str(100 * MIB)) == str(100 * MIB)


@linux_only
def test_memory_that_nothing_counts_is_not_made(ask: Asked) -> None:
    assert ask("map_anonymous_shared", "4096") == HOOK
    assert ask("raw_call", f"mmap 0 4096 3 {0x21} -1 0") == "EPERM"
    for call in ("memfd_create", "shmget", "mq_open"):
        assert ask("raw_call", f"{call} 0 0 0 0 0") == "EPERM"


@linux_only
def test_limits_and_rights_are_not_changed(ask: Asked) -> None:
    assert ask("raise_limit") == HOOK
    own = 1  # any address that is not 0
    assert ask("raw_call", f"prlimit64 0 2 {own} 0") == "EPERM"
    assert ask("raw_call", "prlimit64 0 2 0 0") == "done"
    assert ask("raw_call", f"prctl 4 {own} 0 0 0") == "EPERM"  # PR_SET_DUMPABLE
    for call in ("setuid", "capset", "personality", "setns", "chroot", "mount"):
        assert ask("raw_call", f"{call} 0 0 0 0 0") == "EPERM"


@linux_only
def test_its_memory_is_closed_to_others_and_root_has_no_powers(ask: Asked) -> None:
    status = Path(f"/proc/{ask.worker.pid}/status").read_text()
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2"
    assert int(lines["CapEff"], 16) & ~0b110 == 0  # all but reading what its user may not
    if os.getuid() != 0:
        assert os.stat(f"/proc/{ask.worker.pid}/mem").st_uid == 0
    assert stat.S_IMODE(os.stat(f"/proc/{ask.worker.pid}").st_mode) == 0o555


# -- code ----------------------------------------------------------------------------------------------------


def test_no_code_is_run_but_that_of_libraries(ask: Asked) -> None:
    assert ask("evaluate", "1 + 1") == HOOK
    assert ask("load_library", "libm.so.6") == HOOK


def test_approved_code_is_run_and_shut_in_all_the_same(ask_free: Asked) -> None:
    assert ask_free("evaluate", "1 + 1") == "done: 2"
    assert ask_free("evaluate", "open('/etc/passwd').read()") == HOOK
    assert ask_free("evaluate", "__import__('os').system('true')") == HOOK
    assert ask_free("evaluate", "__import__('subprocess').run('true')") == HOOK
    assert ask_free("evaluate", "__import__('socket').socket()") == HOOK
    assert ask_free("evaluate", "__import__('ctypes').CDLL(None)") == HOOK
    assert ask_free("evaluate", "__import__('pickle').loads(b'cos\\nsystem\\n.')") == HOOK
    with pytest.raises(OperationRefused, match=r"os\.remove is not possible where private data"):
        ask_free("raising", "__import__('os').remove('/etc/passwd')")


@linux_only
def test_approved_code_that_goes_past_python_meets_the_system(ask_free: Asked) -> None:
    assert ask_free("raw_open", f"{os.O_RDONLY} /etc/passwd") == "EACCES"
    # a function of C that was there before, so that nobody is asked
    assert ask_free("evaluate", "__import__('_posixsubprocess').fork_exec.__name__") == "done: 'fork_exec'"
    assert ask_free("raw_call", "execve 0 0 0") == "EPERM"


def test_what_an_exception_says_stays_inside(ask: Asked) -> None:
    with pytest.raises(RemoteFailure) as caught:
        ask("boom")
    assert str(caught.value) == "KeyError in the room"
