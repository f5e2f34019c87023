"""TCP ports that the settings fix: finding a free one, and the error text if there is none."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

from duetlink.errors import PortUnavailable


def free_ports(host: str, ports: range, setting: str) -> Iterator[int]:
    """Yield those of `ports` on which this side can listen on `host` now. "::" includes IPv4.

    When there are no more, PortUnavailable is raised, with the name of the setting. A caller whose server
    could use the yielded port just stops iterating.
    """
    why: OSError | None = None
    for port in ports:
        try:
            check_free(host, port)
        except OSError as error:
            why = error
        else:
            yield port
    raise port_unavailable(setting, ports, why)


def check_free(host: str, port: int) -> None:
    """Raise OSError with the reason if this side cannot listen there. (Flight does not give the reason.)"""
    family, dualstack = (socket.AF_INET6 if ":" in host else socket.AF_INET), host == "::"
    if dualstack and not socket.has_dualstack_ipv6():
        family, dualstack, host = socket.AF_INET, False, "0.0.0.0"
    socket.create_server((host, port), family=family, dualstack_ipv6=dualstack).close()


def port_unavailable(setting: str, ports: range, why: OSError | None) -> PortUnavailable:
    """Return the error for a setting none of whose ports can be used."""
    reason = "it is in use" if why is None else os.strerror(why.errno or 0)
    if len(ports) == 1:
        return PortUnavailable(
            f"{setting}={ports[0]}: nothing can listen at this port of this machine ({reason}). Close what "
            "uses it, such as a duet of another kernel, or set another port, or a range such as "
            f"'{ports[0]}-{min(ports[0] + 9, 65535)}', one port for each kernel"
        )
    return PortUnavailable(
        f"{setting}='{ports[0]}-{ports[-1]}': nothing can listen at any of these {len(ports)} ports of this "
        f"machine ({reason}). Close what uses them, such as duets of other kernels, or set a larger range"
    )
