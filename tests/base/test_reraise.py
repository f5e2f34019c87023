"""A copied error has the same class and words, and no traceback."""

from __future__ import annotations

import pytest

from duetlink.base.reraise import reraise
from duetlink.errors import (
    AssetNotFound,
    DuetError,
    LinkClosed,
    MissingLibrary,
    PeerLost,
    RequestDenied,
    SecureSumFailed,
)


def closed_by_the_peer() -> LinkClosed:
    error = LinkClosed("the peer has closed: for today")
    error.reason = "for today"
    return error


@pytest.mark.parametrize(
    "error",
    [
        PeerLost("rank 2 (ann) is lost", rank=2, name="ann"),
        SecureSumFailed("rank 1 gave garbage", ranks=(1,), names=("ben",), is_pair=True),
        RequestDenied("denied: not today", "not today"),
        AssetNotFound("the peer shares no 'ages'"),
        MissingLibrary("pandas is not installed"),
        closed_by_the_peer(),
    ],
)
def test_it_says_the_same(error: DuetError) -> None:
    fresh = reraise(error)
    assert fresh is not error
    assert type(fresh) is type(error)
    assert (str(fresh), vars(fresh)) == (str(error), vars(error))


def test_it_has_not_been_raised() -> None:
    try:
        try:
            raise KeyError("inside")
        except KeyError as cause:
            raise LinkClosed("closed") from cause
    except LinkClosed as error:
        fresh = reraise(error)
    assert (fresh.__traceback__, fresh.__cause__, fresh.__context__) == (None, None, None)
