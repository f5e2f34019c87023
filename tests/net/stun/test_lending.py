"""Which TURN servers one side lends to the other, and which it takes."""

from __future__ import annotations

import pytest

from duetlink.errors import RemoteProtocolError
from duetlink.net.stun.lending import borrowed, has_turn, lent
from duetlink.settings import IceServer

NOW_S = 1_800_000_000.0
SOON = "1800003600:ada"
ANY = "turn:192.0.2.7"


@pytest.mark.parametrize(
    ("urls", "lent_urls"),
    [
        (("turn:192.0.2.7",), ["turn:192.0.2.7:3478?transport=udp"]),
        (("turn:192.0.2.7:443?transport=tcp",), ["turn:192.0.2.7:443?transport=tcp"]),
        (("turn:[2001:db8::7]:80",), ["turn:[2001:db8::7]:80?transport=udp"]),
        (("stun:192.0.2.7", "turns:192.0.2.7", "turn:192.0.2.8"), ["turn:192.0.2.8:3478?transport=udp"]),
        (("turn:127.0.0.1", "turn:localhost", "turn:nobody.invalid"), []),
    ],
)
async def test_turn_servers_are_lent_by_their_addresses(urls: tuple[str, ...], lent_urls: list[str]) -> None:
    found = await lent((IceServer(urls, SOON, "p"),), NOW_S, 60.0)
    assert [url for server in found for url in server.urls] == lent_urls
    assert all((server.username, server.credential) == (SOON, "p") for server in found)


@pytest.mark.parametrize(
    "username",
    [
        None,
        "",
        "ada",
        "1800003600ada",
        "ada:1800003600",
        "18000036000:ada",
        "1799999999:ada",  # it has ended
        "1800086401:ada",  # in more than a day
        "9999999999:ada",
    ],
)
async def test_credentials_that_do_not_end_within_a_day_never_leave(username: str | None) -> None:
    assert await lent((IceServer((ANY,), username, "p"),), NOW_S, 60.0) == ()


@pytest.mark.parametrize("password", [None, "", "p" * 257])
async def test_a_server_without_a_usable_password_is_not_lent(password: str | None) -> None:
    assert await lent((IceServer((ANY,), SOON, password),), NOW_S, 60.0) == ()


async def test_eight_are_lent_at_most() -> None:
    urls = tuple(f"turn:192.0.2.{number}" for number in range(20))
    assert len(await lent((IceServer(urls, SOON, "p"),), NOW_S, 60.0)) == 8


@pytest.mark.parametrize(
    "url", ["turn:192.0.2.7", "turn:10.0.0.1:443?transport=tcp", "turn:[2001:db8::7]:80"]
)
def test_a_lent_server_is_taken(url: str) -> None:
    assert borrowed(url, "u", "p") == IceServer((url,), "u", "p")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "turn:turn.example.org",
        "turn:localhost",
        "turn:127.0.0.1:22?transport=tcp",
        "turn:[::1]:22",
        "turn:169.254.169.254:80?transport=tcp",
        "turn:224.0.0.1",
        "turn:192.0.2.7:0x50",
        "turn:192.0.2.7:99999",
        "turns:192.0.2.7",
        "stun:192.0.2.7",
        "http://192.0.2.7",
        "turn:192.0.2.7\nturn:127.0.0.1",
    ],
)
def test_a_peer_cannot_make_this_side_ask_for_a_name_or_speak_to_itself(url: str) -> None:
    with pytest.raises(RemoteProtocolError, match="no IP address of another machine"):
        borrowed(url, "u", "p")


@pytest.mark.parametrize(("username", "password"), [("u" * 257, "p"), ("u", "p" * 257)])
def test_long_credentials_are_refused(username: str, password: str) -> None:
    with pytest.raises(RemoteProtocolError, match="over 256 characters"):
        borrowed(ANY, username, password)


def test_a_stun_server_does_not_relay() -> None:
    assert not has_turn((IceServer(("stun:192.0.2.7",)),))
    assert has_turn((IceServer(("stun:192.0.2.7", "turns:turn.example.org"), "u", "p"),))
