"""The session code that the owner gives to the scientist, such as `7-crossover-clockwork`.

The number (nameplate) finds the mailbox and is public. The two words are the password of the key exchange:
65,536 possibilities, of which an attacker can try one. `@host:port` follows if the code must also name the
server.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from duetlink.errors import MalformedCode
from duetlink.net.signaling.wordlist import EVEN, ODD

MAX_NAMEPLATE = 999_999

_LOOKS = "a session code looks like 7-crossover-clockwork or 7-crossover-clockwork@192.0.2.2:4000"
_MAX_TEXT = 1024
_LISTS = (ODD, EVEN)
_SEPARATORS = re.compile(r"[\s\-_\u2010-\u2015]+")
_HOST_PORT = re.compile(
    r"(?P<host>\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?):(?P<port>[0-9]{1,5})"
)


@dataclass(frozen=True, slots=True, repr=False)
class SessionCode:
    """Nameplate, words and, if the code names one, the server (`host:port` or a ws:// or wss:// URL)."""

    nameplate: int
    words: tuple[str, ...] = field(repr=False)
    server: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.nameplate <= MAX_NAMEPLATE:
            raise MalformedCode(
                f"the number of a code is 1 to {MAX_NAMEPLATE}, not {self.nameplate}; {_LOOKS}"
            )
        if len(self.words) != len(_LISTS):
            raise MalformedCode(f"a code has {len(_LISTS)} words, this has {len(self.words)}; {_LOOKS}")
        if self.words[0] in EVEN and self.words[1] in ODD:
            raise MalformedCode(f"the two words are in the wrong order; {_LOOKS}")
        for word, words in zip(self.words, _LISTS, strict=True):
            if word not in words:
                nearest = difflib.get_close_matches(word[:32], words, n=1)
                hint = f"did you mean {nearest[0]!r}?" if nearest else _LOOKS
                raise MalformedCode(f"{word[:32]!r} is not a word of a session code; {hint}")
        if self.server is not None:
            check_server(self.server)

    @classmethod
    def generate(cls, nameplate: int, server: str | None = None) -> SessionCode:
        """Return a code with new random words for a nameplate that the signaling server has assigned."""
        return cls(nameplate, tuple(secrets.choice(words) for words in _LISTS), server)

    @classmethod
    def parse(cls, text: str) -> SessionCode:
        """Parse a code as people type it: in any case, with spaces instead of dashes.

        Raises MalformedCode.
        """
        if not isinstance(text, str) or not text.strip():
            raise MalformedCode(f"the session code is empty; {_LOOKS}")
        if len(text) > _MAX_TEXT:
            raise MalformedCode(
                f"this text has {len(text)} characters, so it is not a session code; {_LOOKS}"
            )
        code, at, server = text.partition("@")
        number, *words = _SEPARATORS.split(code.strip().strip("-").lower())
        if not re.fullmatch(r"[0-9]{1,6}", number):
            raise MalformedCode(f"a session code starts with a number, not {number[:32]!r}; {_LOOKS}")
        return cls(int(number), tuple(words), server.strip() if at else None)

    @property
    def url(self) -> str | None:
        """The server in the code as a WebSocket URL; None if the code names none."""
        if self.server is None or "://" in self.server:
            return self.server
        return f"ws://{self.server}"

    def __str__(self) -> str:
        code = "-".join((str(self.nameplate), *self.words))
        return code if self.server is None else f"{code}@{self.server}"

    def __repr__(self) -> str:
        return f"<SessionCode {self.nameplate}-…>"


def check_server(server: str) -> None:
    """Raise MalformedCode unless this is host:port or a plain ws:// or wss:// URL."""
    problem = _url_problem(server) if "://" in server else _host_problem(server)
    if problem:
        raise MalformedCode(f"the server {server[:64]!r} in the code {problem}; {_LOOKS}")


def _host_problem(server: str) -> str:
    match = _HOST_PORT.fullmatch(server)
    if match is None:
        return "must be host:port, with an IPv6 address in brackets"
    if not 1 <= int(match["port"]) <= 65535:
        return "has a port outside 1 to 65535"
    if match["host"].startswith("["):
        try:
            ipaddress.IPv6Address(match["host"][1:-1])
        except ValueError:
            return "has no valid IPv6 address in its brackets"
    return ""


def _url_problem(server: str) -> str:
    if not re.fullmatch(r"[\x21-\x7e]+", server):
        return "contains characters that are not allowed in an address"
    try:
        url = urlsplit(server)
        usable = url.hostname is not None and url.port != 0
    except ValueError:
        return "is not a URL"
    if url.scheme not in ("ws", "wss") or not usable:
        return "must start with ws://host or wss://host"
    if url.query or url.fragment or "@" in url.netloc:
        return "must have no user, password, ? or #"
    return ""
