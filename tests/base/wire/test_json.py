from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.base.wire import json_
from duetlink.errors import LimitExceeded, RemoteProtocolError


def test_what_was_dumped_is_loaded() -> None:
    content = {"objective": "bytes", "level": {"tensor": None}}
    assert json_.load(json_.dump(content), "configuration") == content


@given(st.binary(max_size=200))
def test_any_bytes_of_a_peer_are_read_or_refused(content: bytes) -> None:
    try:
        loaded = json_.load(content, "configuration")
    except RemoteProtocolError:
        return
    assert json.loads(content) == loaded or loaded != loaded  # NaN


def test_what_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="the peer's decision is not valid JSON"):
        json_.load(b"[" * json_.MAX_BYTES, "decision")


def test_what_is_too_long_is_refused_before_it_is_read() -> None:
    json_.load(b" " * (json_.MAX_BYTES - 1) + b"1", "decision")
    with pytest.raises(LimitExceeded, match="the peer's decision has 16385 bytes; at most 16384 are taken"):
        json_.load(b" " * json_.MAX_BYTES + b"1", "decision")
