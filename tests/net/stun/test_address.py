"""What a peer may make this side dial."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.net.stun.address import read_address


@pytest.mark.parametrize(
    ("entry", "address"),
    [
        (["192.168.1.2", 4000], ("192.168.1.2", 4000)),
        (["203.0.113.7", 1], ("203.0.113.7", 1)),
        (["2001:0DB8::0:1", 65535], ("2001:db8::1", 65535)),
        (["fd00::2", 80], ("fd00::2", 80)),
    ],
)
def test_an_address_of_one_machine_is_taken_in_one_spelling(entry: object, address: object) -> None:
    assert read_address(entry) == address


@pytest.mark.parametrize(
    "entry",
    [
        ["127.0.0.1", 22],
        ["127.8.9.1", 22],
        ["::1", 22],
        ["::ffff:127.0.0.1", 22],
        ["::ffff:8.8.8.8", 22],
        ["0.0.0.0", 22],
        ["::", 22],
        ["224.0.0.1", 22],
        ["ff02::1", 22],
        ["255.255.255.255", 22],
        ["240.0.0.1", 22],
        ["169.254.169.254", 80],
        ["fe80::1", 22],
        ["fe80::1%eth0", 22],
        ["2001:db8::1%eth0", 22],
        ["localhost", 22],
        ["example.org", 22],
        ["0x7f.1", 22],
        ["127.1", 22],
        ["8.8.8.8", 0],
        ["8.8.8.8", 65536],
        ["8.8.8.8", -1],
        ["8.8.8.8", True],
        ["8.8.8.8", "22"],
        ["8.8.8.8", 22.0],
        ["8.8.8.8"],
        ["8.8.8.8", 22, 23],
        "8.8.8.8",
        {"host": "8.8.8.8"},
        None,
        [["8.8.8.8"], 22],
        ["8" * 4000, 22],
    ],
)
def test_all_else_is_passed_over(entry: object) -> None:
    assert read_address(entry) is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(_json | st.tuples(st.text(max_size=50), st.integers()).map(list))
def test_it_never_raises(entry: object) -> None:
    address = read_address(json.loads(json.dumps(entry)))
    assert address is None or (isinstance(address[0], str) and 0 < address[1] < 65536)
