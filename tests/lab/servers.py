"""The servers of the lab's internet: coturn, the real one, and duetlink's own signaling server."""

from __future__ import annotations

import base64
import datetime
import hmac
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.lab.namespace import Namespace

# two addresses, so that coturn can show by the second one what a NAT does (RFC 5780)
TURN, TURN_SECOND, TURN6 = "5.5.0.1", "5.5.0.2", "2a00:5500::1"
SIGNALING, SIGNALING6 = "5.5.0.3", "2a00:5500::3"
SIGNALING_PORT = 4040
TURN_NAME, SIGNALING_NAME = "turn.lab", "signaling.lab"
# what every host has as its /etc/hosts
HOSTS = f"""127.0.0.1 localhost
::1 localhost
{TURN} {TURN_NAME}
{TURN6} {TURN_NAME}
{SIGNALING} {SIGNALING_NAME}
{SIGNALING6} {SIGNALING_NAME}
"""
STUN_PORT, TLS_PORT, WEB_PORT = 3478, 5349, 443

SECRET = "lab"
_LIFETIME_S = 6 * 3600

# one server on two ports: both sides must meet at the same one
_REDIRECT = f"""
table inet nat {{
  chain arrive {{
    type nat hook prerouting priority dstnat;
    ip daddr {SIGNALING} tcp dport {WEB_PORT} redirect to :{SIGNALING_PORT}
    ip6 daddr {SIGNALING6} tcp dport {WEB_PORT} redirect to :{SIGNALING_PORT}
  }}
}}
"""


class Servers:
    """Runs in the core namespace, at addresses that every host can reach as far as its gateway lets it."""

    def __init__(self, core: Namespace, directory: Path) -> None:
        self.certificate = directory / "turn.pem"
        self._key = directory / "turn.key"
        self._core = core
        self._processes: list[subprocess.Popen[Any]] = []
        _write_certificate(self.certificate, self._key)
        core.ip(*(f"addr add {address}/32 dev lo" for address in (TURN, TURN_SECOND, SIGNALING)))
        core.ip(*(f"addr add {address}/128 dev lo" for address in (TURN6, SIGNALING6)))
        core.nft(_REDIRECT)
        log = (directory / "servers.log").open("w")
        with log:
            self._start(self._coturn(directory), log)
            self.start_signaling(log)
        self._wait_coturn()

    @property
    def environment(self) -> dict[str, str]:
        """The DUETLINK_* variables that all notebooks have, and the trust in the TURN server's certificate.

        All use the port that nobody blocks: the session code tells it to the other side.
        """
        return {
            "DUETLINK_SIGNALING": f"ws://{SIGNALING_NAME}:{WEB_PORT}",
            "DUETLINK_ICE_SERVERS": json.dumps(ice_servers()),
            "SSL_CERT_FILE": str(self.certificate),
        }

    def start_signaling(self, log: Any = subprocess.DEVNULL) -> None:
        """Start it (again); returns when it listens."""
        arguments = ["-m", "duetlink", "signal", "--host", "", "--port", str(SIGNALING_PORT), "--until-eof"]
        self._signaling = self._start(
            [sys.executable, *arguments], log, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._signaling.stdout is not None
        if not self._signaling.stdout.readline().startswith(b"DUETLINK_SIGNALING="):
            raise RuntimeError("the signaling server ended")

    def stop_signaling(self) -> None:
        self._end(self._signaling)

    def close(self) -> None:
        for process in list(self._processes):
            self._end(process)

    def _start(self, arguments: list[str], log: Any, **options: Any) -> subprocess.Popen[Any]:
        process = self._core.popen(arguments, stderr=log, **({"stdout": log} | options))
        self._processes.append(process)
        return process

    def _end(self, process: subprocess.Popen[Any]) -> None:
        self._processes.remove(process)
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _coturn(self, directory: Path) -> list[str]:
        return [
            "turnserver", "-n", "--no-cli", "--realm", "lab",
            "--use-auth-secret", "--static-auth-secret", SECRET,
            "-L", TURN, "-L", TURN_SECOND, "-L", TURN6, "-E", TURN, "-E", TURN6,
            "-p", str(STUN_PORT), "--tls-listening-port", str(TLS_PORT),
            # plain TCP and TLS on the port that nobody blocks
            "--aux-server", f"{TURN}:{WEB_PORT}", "--aux-server", f"[{TURN6}]:{WEB_PORT}",
            "--cert", str(self.certificate), "--pkey", str(self._key),
            "--pidfile", str(directory / "turn.pid"), "--log-file", "stdout", "--simple-log",
        ]  # fmt: skip

    def _wait_coturn(self) -> None:
        probe = [sys.executable, "-S", str(Path(__file__).with_name("probe.py")), "alive", TURN]
        self._core.run(probe)


def ice_servers() -> list[dict[str, Any]]:
    """WebRTC's `iceServers`, best first: UDP, TCP, and both disguises as a web server.

    The credentials end after some hours, so that a notebook may lend them to its peer.
    """
    username = f"{int(time.time()) + _LIFETIME_S}:lab"
    password = base64.b64encode(hmac.digest(SECRET.encode(), username.encode(), "sha1")).decode()
    turn = {"username": username, "credential": password}
    return [
        {"urls": f"stun:{TURN_NAME}:{STUN_PORT}"},
        {"urls": f"turn:{TURN_NAME}:{STUN_PORT}", **turn},
        {"urls": f"turn:{TURN_NAME}:{STUN_PORT}?transport=tcp", **turn},
        {"urls": f"turn:{TURN_NAME}:{WEB_PORT}?transport=tcp", **turn},
        {"urls": f"turns:{TURN_NAME}:{WEB_PORT}?transport=tcp", **turn},
    ]


def _write_certificate(certificate: Path, key_file: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "turn server of the lab")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TURN_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    certificate.write_bytes(made.public_bytes(pem))
    key_file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
