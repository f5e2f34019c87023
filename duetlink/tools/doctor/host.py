"""What this machine gives to a fast link: socket buffers, batched UDP, shared memory, descriptors."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import sys
from collections.abc import Iterator
from importlib import metadata

from duetlink.net.tunnel.udp_port import UdpPort
from duetlink.tools.doctor.finding import Finding

if sys.platform != "win32":
    import fcntl
    import resource

# at 1 Gbit/s, what arrives while the receiving process waits some 15 ms for its turn
WANTED_BUFFER_BYTES = 2 * 1024 * 1024
WANTED_DESCRIPTORS = 1024
_LIBRARIES = ("duetlink", "aiortc", "aioice", "pyarrow", "cryptography", "numpy")


def host_findings() -> list[Finding]:
    """All of them; at once, without a network."""
    return [buffers_finding(), batches_finding(), memory_finding(), descriptors_finding(), versions_finding()]


def buffers_finding(wanted_bytes: int = WANTED_BUFFER_BYTES) -> Finding:
    """How much the tunnel's socket holds, measured by making one."""
    with _tunnel_port() as port:
        receive_bytes, send_bytes = _usable(port.receive_buffer_bytes), _usable(port.send_buffer_bytes)
    details = {"receive_bytes": receive_bytes, "send_bytes": send_bytes, "wanted_bytes": wanted_bytes}
    if receive_bytes >= wanted_bytes:
        words = f"The udp path's socket holds {_mib(receive_bytes)}: enough for a fast link."
        return Finding("buffers", "ok", words, "", details)
    held = f"{_mib(receive_bytes)} of the {_mib(wanted_bytes)} that a fast link wants"
    advice = {
        "linux": f"sudo sysctl -w net.core.rmem_max={2 * wanted_bytes}, as far as this system's owner allows",
        "darwin": f"sudo sysctl -w kern.ipc.maxsockbuf={4 * wanted_bytes}",
    }
    return Finding(
        "buffers",
        "limited",
        f"The udp path's socket holds {held}: beyond some 100 Mbit/s packets are lost here and sent again.",
        advice.get(sys.platform, ""),
        details,
    )


def batches_finding() -> Finding:
    """Whether the tunnel's socket takes many datagrams in one system call (UDP_SEGMENT of Linux)."""
    with _tunnel_port() as port:
        able = port.offload
    if able:
        return Finding("batches", "ok", "The system takes UDP in batches.", "", {"offload": True})
    return Finding(
        "batches",
        "limited",
        "The system takes UDP one packet at a time: the udp path is slower and costs more.",
        "Linux 5.0 or newer does better" if sys.platform == "linux" else "",
        {"offload": False},
    )


def memory_finding() -> Finding:
    """Whether notebooks of this machine can share memory."""
    if _has_sealed_memory():
        return Finding(
            "memory", "ok", "Notebooks of one user on this machine share memory.", "", {"memfd": True}
        )
    words = "No sealed shared memory here: notebooks on this machine use tcp instead of local."
    return Finding("memory", "limited", words, "", {"memfd": False})


def descriptors_finding() -> Finding:
    """How many files and sockets this process may have open."""
    if sys.platform == "win32":
        return Finding(
            "descriptors", "ok", "This system sets no limit of its own on open sockets.", "", {"limit": None}
        )
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = limit == resource.RLIM_INFINITY
    details = {"limit": None if unlimited else limit}
    if unlimited or limit >= WANTED_DESCRIPTORS:
        shown = "any number of" if unlimited else f"{limit:,}"
        return Finding("descriptors", "ok", f"A process may open {shown} files and sockets.", "", details)
    return Finding(
        "descriptors",
        "limited",
        f"A process may open {limit:,} files and sockets only; many transfers at once may fail.",
        f"ulimit -n {WANTED_DESCRIPTORS} before Jupyter is started",
        details,
    )


def versions_finding() -> Finding:
    """What runs here, for a report to somebody else."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    versions["system"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    words = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "system")
    return Finding("versions", "ok", f"{words}; {versions['system']}.", "", versions)


def _has_sealed_memory() -> bool:
    """The path `local` needs memfds, seals, and a look at them through /proc."""
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.memfd_create("duetlink-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        return os.path.exists(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _tunnel_port() -> Iterator[UdpPort]:
    """The tunnel's own socket, which sends nothing."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", 9))
    port = UdpPort(sock)
    try:
        yield port
    finally:
        port.close()


def _usable(buffer_bytes: int | None) -> int:
    # Linux doubles what is asked for, for its own book-keeping, and tells the double (socket(7))
    return (buffer_bytes or 0) // (2 if sys.platform == "linux" else 1)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:.3g} MiB"
