"""Things with reasons: closed once when the last reason goes, listed with those that are left."""

from __future__ import annotations

from duetlink.base.runtime.holdings import HeldStatus, Holdings, Retained


def test_the_last_reason_that_goes_closes() -> None:
    closed: list[str] = []
    held = Retained("x", 8)
    held.at_end(lambda: closed.append("memory"))
    held.at_end(lambda: closed.append("mapping"))
    held.keep("offered")
    held.keep("a request waits", 7)
    held.let_go("offered")
    held.let_go("offered")
    held.let_go("a request waits", 8)
    assert (closed, held.is_kept) == ([], True)
    held.let_go("a request waits", 7)
    assert (closed, held.is_kept) == (["mapping", "memory"], False)
    held.let_go("a request waits", 7)
    assert closed == ["mapping", "memory"]


def test_what_is_kept_again_is_closed_again() -> None:
    closed: list[int] = []
    held = Retained()
    for round_ in (1, 2):
        held.keep("offered")
        held.at_end(lambda round_=round_: closed.append(round_))  # type: ignore[misc]
        held.let_go("offered")
    assert closed == [1, 2]


def test_what_is_closed_otherwise_is_not_closed_at_the_end() -> None:
    closed: list[str] = []
    held = Retained()
    held.keep("offered")
    close = lambda: closed.append("memory")  # noqa: E731
    held.at_end(close)
    held.not_at_end(close)
    held.let_all_go()
    assert (closed, held.is_kept) == ([], False)


def test_holdings_list_what_has_reasons_with_their_number() -> None:
    holdings, one, other = Holdings(), Retained("x", 8, 1), Retained("y", 9)
    holdings.keep(one, "offered")
    holdings.keep(other, "a request waits", 1)
    holdings.keep(other, "a request waits", 2)
    assert [held.status() for held in holdings] == [
        HeldStatus("x", 8, 1, ("offered",)),
        HeldStatus("y", 9, 0, ("a request waits (×2)",)),
    ]
    one.let_go("offered")
    other.let_go("a request waits", 1)
    assert [held.status().reasons for held in holdings] == [("a request waits",)]
    other.let_all_go()
    assert list(holdings) == []
