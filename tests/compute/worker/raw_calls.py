"""System calls made directly, past Python and its audit hook: what machine code inside the room could do.

The room of `test_raw_syscalls.py` imports this module before it is locked down, so that the C function
`syscall` is bound already; the approved function of that test then makes all these calls. The numbers stand
here once more, and are not taken from `syscalls.py`: a wrong number there shall be noticed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import threading
from typing import NamedTuple

from duetlink.compute.worker.protocol import memory

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_alarm_ignored = ctypes.c_char_p(struct.pack("=QQQQ", 1, 0x04000000, 0, 0))  # SIG_IGN, as the kernel reads it
_room = ctypes.create_string_buffer(1 << 16)  # what a call may write to, or read zeros from
_ROOM = ctypes.addressof(_room)

AT_FDCWD = -100
_PLACE = "PLACE"  # stands for a directory that the test owns, with a file `there` and a symbolic link `link`
_PRIVATE_MAP, _SHARED_MAP = 0x22, 0x21  # anonymous memory
_READ, _READ_WRITE, _EXECUTE = 1, 3, 7


class Raw(NamedTuple):
    """A system call and what the kernel has to answer: `done`, or the name of an error."""

    group: str
    call: str
    number: int
    arguments: tuple[int | str, ...]
    answer: str
    as_what: str = ""  # where one call is tried in several ways

    @property
    def name(self) -> str:
        return f"{self.call} ({self.as_what})" if self.as_what else self.call


_Arguments = tuple[int | str, ...]


def _group(
    group: str, *rows: tuple[str, int, _Arguments, str] | tuple[str, int, _Arguments, str, str]
) -> list[Raw]:
    return [Raw(group, *row) for row in rows]


_THERE, _NEW, _LINK = f"{_PLACE}/there", f"{_PLACE}/new", f"{_PLACE}/link"
_OWN, _PARENT, _LIBRARY = (
    -1001,
    -1002,
    -1003,
)  # stand for process ids, and for a descriptor of a library's file

CALLS: tuple[Raw, ...] = (
    *_group(
        "private files are opened",
        ("open", 2, (_THERE, os.O_RDONLY), "EACCES"),
        ("open", 2, ("/etc/passwd", os.O_RDONLY), "EACCES", "of the system"),
        ("openat", 257, (AT_FDCWD, _THERE, os.O_RDONLY), "EACCES"),
        ("openat", 257, (AT_FDCWD, _PLACE, os.O_RDONLY | os.O_DIRECTORY), "EACCES", "a directory"),
        ("openat", 257, (AT_FDCWD, "/proc/self/mem", os.O_RDONLY), "EACCES", "its own memory"),
        ("openat", 257, (AT_FDCWD, "/proc/PARENT/environ", os.O_RDONLY), "EACCES", "the kernel's variables"),
        ("openat2", 437, (AT_FDCWD, _THERE, _ROOM, 24), "ENOSYS"),
        ("name_to_handle_at", 303, (AT_FDCWD, _THERE, _ROOM, _ROOM + 4096, 0), "EPERM"),
        ("open_by_handle_at", 304, (AT_FDCWD, _ROOM, os.O_RDONLY), "EPERM"),
        ("open_tree", 428, (AT_FDCWD, _PLACE, 0), "ENOSYS"),
        ("uselib", 134, (_THERE,), "EPERM"),
    ),
    *_group(
        "what is written about files beside their content",
        ("getxattr", 191, (_THERE, "user.x", _ROOM, 4096), "EPERM"),
        ("lgetxattr", 192, (_THERE, "user.x", _ROOM, 4096), "EPERM"),
        ("fgetxattr", 193, (_LIBRARY, "user.x", _ROOM, 4096), "EPERM"),
        ("listxattr", 194, (_THERE, _ROOM, 4096), "EPERM"),
        ("llistxattr", 195, (_THERE, _ROOM, 4096), "EPERM"),
        ("flistxattr", 196, (_LIBRARY, _ROOM, 4096), "EPERM"),
        ("getxattrat", 464, (AT_FDCWD, _THERE, 0, "user.x", _ROOM, 16), "ENOSYS"),
        ("listxattrat", 465, (AT_FDCWD, _THERE, 0, _ROOM, 4096), "ENOSYS"),
        ("readlink", 89, (_LINK, _ROOM, 4096), "EINVAL"),
        ("readlink", 89, ("/proc/PARENT/cwd", _ROOM, 4096), "EINVAL", "of the kernel process"),
        ("readlinkat", 267, (AT_FDCWD, _LINK, _ROOM, 4096), "EINVAL"),
        ("statfs", 137, (_PLACE, _ROOM), "EPERM"),
        ("fstatfs", 138, (_LIBRARY, _ROOM), "EPERM"),
        ("ustat", 136, (0, _ROOM), "EPERM"),
        ("statmount", 457, (_ROOM, _ROOM, 4096, 0), "ENOSYS"),
    ),
    *_group(
        "files are made, changed or removed",
        ("open", 2, (_NEW, os.O_WRONLY | os.O_CREAT, 0o600), "EACCES", "to be written"),
        ("openat", 257, (AT_FDCWD, _NEW, os.O_RDWR | os.O_CREAT, 0o600), "EACCES", "to be written"),
        ("openat", 257, (AT_FDCWD, _PLACE, os.O_RDWR | 0o20200000, 0o600), "EACCES", "O_TMPFILE"),
        ("creat", 85, (_NEW, 0o600), "EPERM"),
        ("truncate", 76, (_THERE, 0), "EPERM"),
        ("unlink", 87, (_THERE,), "EPERM"),
        ("unlinkat", 263, (AT_FDCWD, _THERE, 0), "EPERM"),
        ("rename", 82, (_THERE, _NEW), "EPERM"),
        ("renameat", 264, (AT_FDCWD, _THERE, AT_FDCWD, _NEW), "EPERM"),
        ("renameat2", 316, (AT_FDCWD, _THERE, AT_FDCWD, _NEW, 0), "EPERM"),
        ("link", 86, (_THERE, _NEW), "EPERM"),
        ("linkat", 265, (AT_FDCWD, _THERE, AT_FDCWD, _NEW, 0), "EPERM"),
        ("symlink", 88, (_THERE, _NEW), "EPERM"),
        ("symlinkat", 266, (_THERE, AT_FDCWD, _NEW), "EPERM"),
        ("mkdir", 83, (_NEW, 0o700), "EPERM"),
        ("mkdirat", 258, (AT_FDCWD, _NEW, 0o700), "EPERM"),
        ("rmdir", 84, (_PLACE,), "EPERM"),
        ("mknod", 133, (_NEW, 0o010600, 0), "EPERM"),
        ("mknodat", 259, (AT_FDCWD, _NEW, 0o010600, 0), "EPERM"),
        ("chmod", 90, (_THERE, 0o777), "EPERM"),
        ("fchmod", 91, (_LIBRARY, 0o777), "EPERM"),
        ("fchmodat", 268, (AT_FDCWD, _THERE, 0o777), "EPERM"),
        ("fchmodat2", 452, (AT_FDCWD, _THERE, 0o777, 0), "ENOSYS"),
        ("chown", 92, (_THERE, 0, 0), "EPERM"),
        ("lchown", 94, (_THERE, 0, 0), "EPERM"),
        ("fchownat", 260, (AT_FDCWD, _THERE, 0, 0, 0), "EPERM"),
        ("utimensat", 280, (AT_FDCWD, _THERE, 0, 0), "EPERM"),
        ("setxattr", 188, (_THERE, "user.x", _ROOM, 1, 0), "EPERM"),
        ("removexattr", 197, (_THERE, "user.x"), "EPERM"),
        ("ioctl", 16, (_LIBRARY, 0x40086602, 1), "EPERM", "flags of a library's file"),
        ("ioctl", 16, (_LIBRARY, 0x40806685, 1), "EPERM", "a library's file made unchangeable"),
        ("fcntl", 72, (_LIBRARY, 1024, 0), "EPERM", "a lease of a library's file"),
    ),
    *_group(
        "network, and others' sockets",
        ("socket", 41, (1, 1, 0), "EPERM", "Unix"),
        ("socket", 41, (2, 1, 0), "EPERM", "TCP"),
        ("socket", 41, (2, 2, 0), "EPERM", "UDP"),
        ("socket", 41, (10, 1, 0), "EPERM", "TCP over IPv6"),
        ("socket", 41, (16, 3, 0), "EPERM", "netlink"),
        ("socket", 41, (17, 3, 0), "EPERM", "raw packets"),
        ("socket", 41, (38, 5, 0), "EPERM", "the kernel's ciphers"),
        ("socket", 41, (40, 1, 0), "EPERM", "the hypervisor's"),
        ("socketpair", 53, (1, 1, 0, _ROOM), "EPERM"),
        ("connect", 42, (-1, _ROOM, 16), "EPERM"),
        ("bind", 49, (-1, _ROOM, 16), "EPERM"),
        ("listen", 50, (-1, 1), "EPERM"),
        ("accept", 43, (-1, 0, 0), "EPERM"),
        ("accept4", 288, (-1, 0, 0, 0), "EPERM"),
    ),
    *_group(
        "processes and programs",
        ("fork", 57, (), "EPERM"),
        ("vfork", 58, (), "EPERM"),
        ("clone", 56, (17, 0, 0, 0, 0), "EPERM", "a process"),
        ("clone", 56, (0x10000000 | 17, 0, 0, 0, 0), "EPERM", "in a namespace"),
        ("clone3", 435, (_ROOM, 88), "ENOSYS"),
        ("execve", 59, ("/bin/true", 0, 0), "EPERM"),
        ("execveat", 322, (AT_FDCWD, "/bin/true", 0, 0, 0), "EPERM"),
        ("kill", 62, (_PARENT, 0), "EPERM", "the kernel process"),
        ("kill", 62, (-1, 0), "EPERM", "everybody"),
        ("tkill", 200, (_PARENT, 0), "EPERM"),
        ("tgkill", 234, (_PARENT, _PARENT, 0), "EPERM"),
        ("rt_sigqueueinfo", 129, (_PARENT, 10, _ROOM), "EPERM"),
        ("rt_tgsigqueueinfo", 297, (_PARENT, _PARENT, 10, _ROOM), "EPERM"),
        ("pidfd_send_signal", 424, (0, 9, 0, 0), "ENOSYS"),
        ("fcntl", 72, (2, 8, _PARENT), "EPERM", "signals by a descriptor"),
        ("ptrace", 101, (16, _PARENT, 0, 0), "EPERM", "attach"),
        ("ptrace", 101, (0, 0, 0, 0), "EPERM", "be traced"),
        ("process_vm_readv", 310, (_PARENT, _ROOM, 1, _ROOM, 1, 0), "EPERM"),
        ("process_vm_writev", 311, (_PARENT, _ROOM, 1, _ROOM, 1, 0), "EPERM"),
        ("process_madvise", 440, (0, _ROOM, 1, 4, 0), "ENOSYS"),
        ("process_mrelease", 448, (0, 0), "ENOSYS"),
        ("pidfd_open", 434, (_PARENT, 0), "ENOSYS"),
        ("pidfd_getfd", 438, (0, 0, 0), "ENOSYS"),
        ("kcmp", 312, (_PARENT, _OWN, 0, 0, 0), "EPERM"),
        ("setsid", 112, (), "EPERM"),
        ("setpriority", 141, (0, _PARENT, 19), "EPERM"),
        ("sched_setaffinity", 203, (_PARENT, 8, _ROOM), "EPERM"),
        ("sched_setscheduler", 144, (0, 1, _ROOM), "EPERM"),
        ("ioctl", 16, (2, 0x5412, _ROOM), "EPERM", "keys into a terminal"),
    ),
    *_group(
        "memory that no limit counts",
        ("memfd_create", 319, ("x", 0), "EPERM"),
        ("memfd_secret", 447, (0,), "ENOSYS"),
        ("mmap", 9, (0, 4096, _READ_WRITE, _SHARED_MAP, -1, 0), "EPERM", "shared"),
        ("mmap", 9, (0, 4096, _READ_WRITE, _SHARED_MAP | 2, -1, 0), "EPERM", "shared, validated"),
        ("mmap", 9, (0, 4096, _READ_WRITE, _PRIVATE_MAP | 0x100, -1, 0), "EPERM", "a stack that grows"),
        ("mmap", 9, (0, 1 << 40, _READ_WRITE, _PRIVATE_MAP, -1, 0), "ENOMEM", "over the limit"),
        ("shmget", 29, (0, 4096, 0o1600), "EPERM"),
        ("shmat", 30, (0, 0, 0), "EPERM"),
        ("msgget", 68, (0, 0o1600), "EPERM"),
        ("semget", 64, (0, 1, 0o1600), "EPERM"),
        ("mq_open", 240, ("x", os.O_RDWR | os.O_CREAT, 0o600, 0), "EPERM"),
        ("io_setup", 206, (1, _ROOM), "EPERM"),
        ("io_uring_setup", 425, (4, _ROOM), "ENOSYS"),
        ("io_uring_enter", 426, (0, 1, 0, 0, 0, 0), "ENOSYS"),
        ("io_uring_register", 427, (0, 0, 0, 0), "ENOSYS"),
    ),
    *_group(
        "its own rights, limits and walls",
        ("setuid", 105, (0,), "EPERM"),
        ("setgid", 106, (0,), "EPERM"),
        ("setreuid", 113, (0, 0), "EPERM"),
        ("setresuid", 117, (0, 0, 0), "EPERM"),
        ("setresgid", 119, (0, 0, 0), "EPERM"),
        ("setfsuid", 122, (0,), "EPERM"),
        ("setgroups", 116, (0, 0), "EPERM"),
        ("capset", 126, (_ROOM, _ROOM), "EPERM"),
        ("prctl", 157, (4, 1, 0, 0, 0), "EPERM", "its memory open to others"),
        ("prctl", 157, (1, 0, 0, 0, 0), "EPERM", "outlive the kernel process"),
        ("prctl", 157, (22, 2, _ROOM, 0, 0), "EPERM", "another filter"),
        ("prctl", 157, (35, 1, 0, 0, 0), "EPERM", "its memory's layout"),
        ("prctl", 157, (38, 0, 0, 0, 0), "EINVAL", "new privileges"),
        ("prctl", 157, (24, 0, 0, 0, 0), "EPERM", "the bounding set"),
        ("seccomp", 317, (1, 0, _ROOM), "EPERM"),
        ("setrlimit", 160, (2, _ROOM), "EPERM"),
        ("prlimit64", 302, (0, 2, _ROOM, 0), "EPERM"),
        ("prlimit64", 302, (_PARENT, 7, _ROOM, 0), "EPERM", "of the kernel process"),
        ("unshare", 272, (0x10000000,), "EPERM"),
        ("setns", 308, (0, 0), "EPERM"),
        ("personality", 135, (0x0040000,), "EPERM"),
        ("landlock_create_ruleset", 444, (_ROOM, 8, 0), "ENOSYS"),
        ("landlock_restrict_self", 446, (-1, 0), "ENOSYS"),
        ("fsopen", 430, ("tmpfs", 0), "ENOSYS"),
    ),
    *_group(
        "the system itself",
        ("mount", 165, ("none", _PLACE, "tmpfs", 0, 0), "EPERM"),
        ("umount2", 166, (_PLACE, 0), "EPERM"),
        ("move_mount", 429, (AT_FDCWD, _PLACE, AT_FDCWD, _PLACE, 0), "ENOSYS"),
        ("mount_setattr", 442, (AT_FDCWD, _PLACE, 0, _ROOM, 32), "ENOSYS"),
        ("pivot_root", 155, (_PLACE, _PLACE), "EPERM"),
        ("chroot", 161, (_PLACE,), "EPERM"),
        ("swapon", 167, (_THERE, 0), "EPERM"),
        ("bpf", 321, (0, _ROOM, 72), "EPERM"),
        ("perf_event_open", 298, (_ROOM, 0, -1, -1, 0), "EPERM"),
        ("userfaultfd", 323, (0,), "EPERM"),
        ("add_key", 248, ("user", "x", _ROOM, 1, -3), "EPERM"),
        ("request_key", 249, ("user", "x", 0, -3), "EPERM"),
        ("keyctl", 250, (0, -3, 1), "EPERM"),
        ("inotify_init1", 294, (0,), "EPERM"),
        ("fanotify_init", 300, (0, 0), "EPERM"),
        ("init_module", 175, (_ROOM, 64, _ROOM), "EPERM"),
        ("finit_module", 313, (-1, _ROOM, 0), "EPERM"),
        ("delete_module", 176, ("x", 0), "EPERM"),
        ("kexec_load", 246, (0, 0, _ROOM, 0), "EPERM"),
        ("kexec_file_load", 320, (-1, -1, 0, 0, 0), "EPERM"),
        ("reboot", 169, (0, 0, 0, 0), "EPERM"),
        ("acct", 163, (_THERE,), "EPERM"),
        ("quotactl", 179, (0, 0, 0, 0), "EPERM"),
        ("syslog", 103, (3, _ROOM, 4096), "EPERM"),
        ("settimeofday", 164, (_ROOM, 0), "EPERM"),
        ("clock_settime", 227, (99, _ROOM), "EPERM"),
        ("adjtimex", 159, (_ROOM,), "EPERM"),
        ("sethostname", 170, ("x", 1), "EPERM"),
        ("vhangup", 153, (), "EPERM"),
        ("iopl", 172, (3,), "EPERM"),
        ("ioperm", 173, (0x70, 2, 1), "EPERM"),
        ("modify_ldt", 154, (1, _ROOM, 16), "EPERM"),
    ),
    *_group(
        "calls by other numbers",
        ("x32 execve", 0x40000000 | 520, ("/bin/true", 0, 0), "ENOSYS"),
        ("x32 socket", 0x40000000 | 41, (2, 1, 0), "ENOSYS"),
        ("x32 fork", 0x40000000 | 57, (), "ENOSYS"),
        ("a number of later systems", 470, (0, 0, 0, 0), "ENOSYS"),
        ("a number that is none", 100_000, (0, 0, 0, 0), "ENOSYS"),
    ),
    *_group(
        "what is let through",
        ("stat", 4, (_THERE, _ROOM), "done"),
        ("access", 21, (_THERE, 0), "done"),
        ("openat", 257, (AT_FDCWD, _THERE, os.O_PATH), "done", "a place without its content"),
        ("chdir", 80, (_PLACE,), "done"),
        ("mmap", 9, (0, 4096, _EXECUTE, _PRIVATE_MAP, -1, 0), "done", "to be executed"),
        ("prctl", 157, (15, "x", 0, 0, 0), "done", "a thread's name"),
        ("kill", 62, (_OWN, 0), "done", "itself"),
        ("prlimit64", 302, (0, 7, 0, _ROOM), "done", "asked for"),
    ),
)

# int 0x80: the calls of 32-bit programs, whose numbers are others; 20 is getpid
_INT_80 = bytes.fromhex("b814000000cd80c3")


def answered(place: str, *only: str) -> dict[str, str]:
    """What the kernel says to each call, or to some of them, by its name in the table."""
    library = os.open(os.__file__, os.O_RDONLY)
    stands_for = {_OWN: os.getpid(), _PARENT: os.getppid(), _LIBRARY: library}
    words = {_PLACE: place, "PARENT": str(os.getppid())}
    return {raw.name: _answer(raw, stands_for, words) for raw in CALLS if not only or raw.name in only}


def _answer(raw: Raw, stands_for: dict[int, int], words: dict[str, str]) -> str:
    arguments: list[object] = []
    for argument in raw.arguments:
        if isinstance(argument, str):
            for word, meant in words.items():
                argument = argument.replace(word, meant)
            arguments.append(ctypes.c_char_p(argument.encode()))
        else:
            arguments.append(ctypes.c_long(stands_for.get(argument, argument)))
    return call(raw.number, *arguments)[0]


def call(number: int, *arguments: object) -> tuple[str, int]:
    """What the kernel says: `done` or the name of an error; and what it returned."""
    ctypes.set_errno(0)
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = _syscall(ctypes.c_long(number), *wide)
    return ("done" if result >= 0 else errno.errorcode[ctypes.get_errno()]), result


# -- limits --------------------------------------------------------------------------------------------------


def most_descriptors() -> tuple[int, str]:
    """How many there are when the kernel makes no more, and what it says then."""
    made = []
    while True:
        answer, fd = call(32, 0)  # dup
        if answer != "done":
            break
        made.append(fd)
    for fd in made:
        os.close(fd)
    return max(made) + 1, answer


def limits() -> dict[int, tuple[int, int]]:
    """Soft and hard limit by their number in getrlimit(2)."""
    found = {}
    for limit in (1, 4, 7):  # file size, core files, descriptors
        call(302, 0, limit, 0, _ROOM)
        found[limit] = struct.unpack("=QQ", _room.raw[:16])
    return found


def memory_taken(chunk_bytes: int) -> tuple[int, str]:
    """How many chunks of memory the kernel gives, and what it says then. All is given back."""
    made = []
    while True:
        answer, address = call(9, 0, chunk_bytes, _READ_WRITE, _PRIVATE_MAP, -1, 0)
        if answer != "done":
            break
        made.append(address)
    for address in made:
        call(11, address, chunk_bytes)  # munmap
    return len(made), answer


def made_writable_later(size_bytes: int) -> str:
    """What the kernel says where memory is mapped to be read, and then to be written to."""
    answer, address = call(9, 0, size_bytes, _READ, _PRIVATE_MAP, -1, 0)
    assert answer == "done"
    answer, _ = call(10, address, size_bytes, _READ_WRITE)  # mprotect
    call(11, address, size_bytes)
    return answer


def grown(size_bytes: int) -> tuple[bool, str]:
    """Whether the heap grows by so much, and what the kernel says to a mapping that is to."""
    _, end = call(12, 0)  # brk
    _, now = call(12, end + size_bytes)
    call(12, end)
    _, address = call(9, 0, 4096, _READ_WRITE, _PRIVATE_MAP, -1, 0)
    answer, _ = call(25, address, 4096, size_bytes, 1)  # mremap, which may move it
    return now != end, answer


def counted_no_more(chunk_bytes: int, chunks: int) -> int:
    """How many chunks that were written to are still there, each made read-only before the next one."""
    made = []
    for _ in range(chunks):
        answer, address = call(9, 0, chunk_bytes, _READ_WRITE, _PRIVATE_MAP, -1, 0)
        if answer != "done":
            break
        ctypes.memset(address, 1, chunk_bytes)
        call(10, address, chunk_bytes, _READ)  # mprotect
        made.append(address)
    for address in made:
        call(11, address, chunk_bytes)
    return len(made)


def larger_than_its_room() -> tuple[str, str]:
    """What the kernel says where memory for a result is to grow, by its size or by a write behind its end."""
    fd = memory._make(4096)  # type: ignore[misc]
    return call(77, fd, 8192)[0], call(18, fd, _ROOM, 4096, 4096)[0]  # ftruncate, pwrite64


def threads(stack_bytes: int, most: int) -> int:
    """How many threads there are at once when no more start, or `most`."""
    threading.stack_size(stack_bytes)
    done = threading.Event()
    started: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):
        while len(started) < most:
            thread = threading.Thread(target=done.wait)
            thread.start()
            started.append(thread)
    done.set()
    for thread in started:
        thread.join()
    return len(started)


# -- what ends the process -----------------------------------------------------------------------------------


def call_as_32_bit() -> None:
    """The calls of 32-bit programs."""
    _, address = call(9, 0, 4096, _EXECUTE, _PRIVATE_MAP, -1, 0)
    ctypes.memmove(address, _INT_80, len(_INT_80))
    _from_address(address)()


def spin_past_the_alarm() -> None:
    """Ignore the signal by which the kernel tells that the processor time is used up, and go on."""
    answer, _ = call(13, 24, _alarm_ignored, 0, 8)  # rt_sigaction of SIGXCPU
    assert answer == "done"
    while True:
        with contextlib.suppress(BaseException):
            sum(range(100_000))


_from_address = ctypes.CFUNCTYPE(ctypes.c_int)
