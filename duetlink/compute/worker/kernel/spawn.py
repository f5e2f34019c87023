"""The start of a room process: its command line, its environment, and its module search path."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

from duetlink.base.runtime.at_exit import open_here
from duetlink.compute.worker.protocol.libraries import LIBRARIES
from duetlink.errors import WorkerUnavailable

# -I: neither the notebook's directory nor a person's variables decide what is imported
BOOTSTRAP = """\
import site, sys
for path in sys.argv[2:]:
    path in sys.path or site.addsitedir(path)
from duetlink.compute.worker.room.child import main
main(int(sys.argv[1]))
"""


def zygote_bootstrap(bootstrap: str) -> str:
    """Return the bootstrap program of a zygote for rooms of this bootstrap program."""
    return bootstrap.replace("duetlink.compute.worker.room.child", "duetlink.compute.worker.room.zygote")


def preloading_bootstrap(bootstrap: str) -> str:
    """Return the bootstrap program of a room that imports all libraries before it gets a task."""
    return bootstrap.replace("main(int(sys.argv[1]))", "main(int(sys.argv[1]), ahead=True)")


# some installations of Python need these to find their own shared objects
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "NIX_LD_LIBRARY_PATH")
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve a gigabyte at a time, which counts as used memory
    "JOBLIB_MULTIPROCESSING": "0",  # a room cannot start processes
}
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)


async def spawn(bootstrap: str, threads: int) -> tuple[Process, socket.socket]:
    """Start a room process; return it and our end of its socket. The room ends with the calling thread.

    Raises:
        WorkerUnavailable: the process cannot be started here.
    """
    if sys.platform == "win32":
        raise WorkerUnavailable("a room cannot be locked down on Windows: remote work needs Linux or macOS")
    if not sys.executable:
        raise WorkerUnavailable(
            "no room can start: this Python does not know its own program (sys.executable)"
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        process = await asyncio.create_subprocess_exec(
            *_command(theirs.fileno(), bootstrap),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            pass_fds=(theirs.fileno(),),
            env=_environment(threads),
            cwd="/",
            start_new_session=True,  # so that Ctrl-C in the notebook does not reach it
        )
    except OSError as error:
        ours.close()
        raise WorkerUnavailable(f"the room cannot start: {error.strerror or error}") from None
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    open_here.add_child(process)
    return process, ours


def _command(fd: int, bootstrap: str) -> list[str]:
    return [sys.executable, "-I", "-B", "-c", bootstrap, str(fd), *_module_paths()]


def _environment(threads: int) -> dict[str, str]:
    """Build an environment without the owner's variables, except those that Python needs to start."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | _FIXED | dict.fromkeys(_THREADS, str(threads))


def _module_paths() -> list[str]:
    """Return the entries of sys.path with duetlink or libraries, in order, without the notebook's own."""
    root = str(Path(__file__).resolve().parents[4])  # the directory of the package `duetlink`
    found = [entry for entry in sys.path if os.path.isabs(entry) and (entry == root or _has_libraries(entry))]
    return found if root in found else [*found, root]


def _has_libraries(entry: str) -> bool:
    path = Path(entry)
    if not path.is_dir():
        return False
    return path.name in ("site-packages", "dist-packages") or any(
        (path / module / "__init__.py").is_file() for module in LIBRARIES
    )
