"""How a room is started: the command, its environment, and where it finds its modules."""

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


def forking(bootstrap: str) -> str:
    """The program of a process that forks those rooms."""
    return bootstrap.replace("duetlink.compute.worker.room.child", "duetlink.compute.worker.room.zygote")


def ahead(bootstrap: str) -> str:
    """The program of such a room, with all libraries imported before it is known what it is for."""
    return bootstrap.replace("main(int(sys.argv[1]))", "main(int(sys.argv[1]), ahead=True)")


# what an interpreter of some installations needs to find its own shared objects
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "NIX_LD_LIBRARY_PATH")
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # its others reserve a gigabyte at a time, which would count
    "JOBLIB_MULTIPROCESSING": "0",  # there are no other processes
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
    """The process and our end of its socket. To be called in the thread that the room shall not outlive.

    Raises:
        WorkerUnavailable: it cannot be started here.
    """
    if sys.platform == "win32":
        raise WorkerUnavailable("no room can be shut in under Windows: there is no remote work here")
    if not sys.executable:
        raise WorkerUnavailable("this interpreter does not know its own program file: no room can start")
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
            start_new_session=True,  # out of the reach of the notebook's Ctrl-C
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
    """Nothing of the owner's own, but what an interpreter cannot do without."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | _FIXED | dict.fromkeys(_THREADS, str(threads))


def _module_paths() -> list[str]:
    """Where this process finds duetlink and the libraries, in its order; no directory of the notebook's."""
    root = str(Path(__file__).resolve().parents[4])  # where the package `duetlink` is
    found = [entry for entry in sys.path if os.path.isabs(entry) and (entry == root or _has_libraries(entry))]
    return found if root in found else [*found, root]


def _has_libraries(entry: str) -> bool:
    path = Path(entry)
    if not path.is_dir():
        return False
    return path.name in ("site-packages", "dist-packages") or any(
        (path / module / "__init__.py").is_file() for module in LIBRARIES
    )
