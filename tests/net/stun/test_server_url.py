"""URLs of RFC 7064 and RFC 7065, and what looks like them."""

from __future__ import annotations

import pytest

from duetlink.errors import SettingError
from duetlink.net.stun.server_url import ServerUrl
from duetlink.settings import IceServer

SERVER = IceServer(("turn:x",), "ada", "hunter2")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("stun:stun.example.org", "stun:stun.example.org:3478 by UDP"),
        ("stun:192.0.2.1:19302", "stun:192.0.2.1:19302 by UDP"),
        ("stuns:stun.example.org", "stun:stun.example.org:5349 by TLS"),
        ("turn:turn.example.org", "turn:turn.example.org:3478 by UDP"),
        ("turn:turn.example.org?transport=udp", "turn:turn.example.org:3478 by UDP"),
        ("turn:turn.example.org:80?transport=tcp", "turn:turn.example.org:80 by TCP"),
        ("turns:turn.example.org:443", "turn:turn.example.org:443 by TLS"),
        ("turns:turn.example.org?transport=tcp", "turn:turn.example.org:5349 by TLS"),
        ("turns:turn.example.org?transport=udp", "turn:turn.example.org:5349 by DTLS"),
        ("turn:[2001:db8::1]:3478", "turn:[2001:db8::1]:3478 by UDP"),
    ],
)
def test_a_url_says_where_and_how(text: str, shown: str) -> None:
    assert str(ServerUrl.parse(text, SERVER)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "stun:",
        "stun:host:99999",
        "stun:host:x",
        "stun:host?transport=tcp",
        "turn:host?transport=pigeon",
        "turn://host",
        "turn:ada:sesame@host",
        "turn:host name",
        "turn:" + "a" * 300,
        "stun:%%%",
        "stun:ho\nst",
    ],
)
def test_what_is_no_url_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(SettingError) as caught:
        ServerUrl.parse(text, SERVER)
    assert "sesame" not in str(caught.value)
    assert text.partition(":")[2] not in str(caught.value) or text == "stun:"


def test_credentials_are_not_shown() -> None:
    url = ServerUrl.parse("turn:turn.example.org", SERVER)
    assert (url.username, url.credential) == ("ada", "hunter2")
    assert "hunter2" not in repr(url)
    assert "ada" not in repr(url)
