"""Install the system packages that whole-system tests use, or say which are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

# program, or file where there is none -> Debian package
WANTED = {
    "turnserver": "coturn",
    # the lab of networks, tests/lab
    "unshare": "util-linux",
    "sysctl": "procps",
    "ip": "iproute2",
    "nft": "nftables",
    "ethtool": "ethtool",
    "tcpdump": "tcpdump",
    "iperf3": "iperf3",
    "miniupnpd": "miniupnpd-nftables",
    # notebooks in a browser, tests/browser; without a font its text is boxes
    "chromium": "chromium",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf": "fonts-dejavu-core",
}


def is_installed(what: str) -> bool:
    return Path(what).exists() if what.startswith("/") else shutil.which(what) is not None


def main() -> None:
    packages = sorted({package for what, package in WANTED.items() if not is_installed(what)})
    if not packages:
        return
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"not installed, their tests will be skipped: {', '.join(packages)} (needs root and apt-get)")
        return
    print(f"make test installs, with apt-get: {', '.join(packages)}", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    subprocess.run(
        ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages], check=True, env=environment
    )


if __name__ == "__main__":
    main()
