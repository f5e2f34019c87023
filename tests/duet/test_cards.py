"""What a person sees of pointers, the store and the link: tables, with mocks marked as made up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from duetlink.duet.asking.pointers.columns import Column, columns_of, names_and_dtypes
from duetlink.duet.duet import Duet
from duetlink.duet.statistics import ShownStatistics
from duetlink.net.link.traffic import Statistics
from duetlink.net.link.transfer import TransferStatus
from duetlink.net.paths.path_selector import PathStatus

Pair = tuple[Duet, Duet]

PEOPLE = pd.DataFrame({"town": ["Bonn", "Jena"], "income": [1234.5678, 99.0]})
MOCK = pd.DataFrame({"town": ["text 0", "<b>"], "income": [0.123456, 7.0]})


@pytest.mark.parametrize(
    ("frame", "dtypes"),
    [
        (pd.DataFrame({"a": [1, 2], "b": [0.5, None]}), ("int64", "float64")),
        (pl.DataFrame({"a": [1, 2], "b": [0.5, None]}), ("Int64", "Float64")),
        (pa.table({"a": [1, 2], "b": [0.5, None]}), ("int64", "double")),
    ],
)
def test_the_columns_of_each_kind_of_frame(frame: object, dtypes: tuple[str, str]) -> None:
    missing = "nan" if isinstance(frame, pd.DataFrame) else "None"
    assert columns_of(frame) == [
        Column("a", dtypes[0], "1, 2"),
        Column("b", dtypes[1], f"0.5, {missing}"),
    ]
    assert names_and_dtypes(frame) == f"a {dtypes[0]}, b {dtypes[1]}"


def test_names_of_columns_may_repeat_and_be_numbers() -> None:
    frame = pd.DataFrame([[1, 2.0, "x"]], columns=[0, 0, "x"])
    assert [(name, items) for name, _, items in columns_of(frame)] == [("0", "1"), ("0", "2"), ("x", "x")]
    assert columns_of(np.arange(3)) == []


def test_a_pointer_to_a_frame_is_a_table_of_its_columns_with_a_mock_that_is_made_up(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(PEOPLE, "people", mock=MOCK)
    people = scientist.wait_object("people", 10)
    lines = repr(people).splitlines()
    assert lines[0].startswith("<Pointer 'people': pandas.DataFrame 2 rows × 2 columns, ")
    assert lines[1].split() == ["column", "dtype", "its", "mock,", "made", "up"]
    assert [line.split() for line in lines[2:]] == [
        ["town", str(MOCK.town.dtype), "text", "0,", "<b>"],
        ["income", "float64", "0.1235,", "7"],
    ]
    page = people._repr_html_()
    for part in ("its mock, made up", "float64", "text 0, &lt;b&gt;", ".get(reason=…)", "2 rows × 2 columns"):
        assert part in page
    for real in ("Bonn", "1234", "99", "<b>text", "<b>,"):
        assert real not in page + repr(people)


def test_a_pointer_to_an_array_shows_its_mock_and_one_without_a_mock_says_so(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(np.arange(3.0), "x", mock=np.array([7.0, 8.0, 9.0]))
    owner.share(np.arange(3.0), "bare")
    assert repr(scientist.wait_object("x", 10)).endswith("; its mock, made up:\narray([7., 8., 9.])>")
    bare = scientist.wait_object("bare", 10)
    assert repr(bare).endswith("; no mock, so that only .get(reason=…) works>")
    assert "asks the owner for it" in bare._repr_html_()


def test_a_pointer_is_shown_when_its_owner_is_gone(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(PEOPLE, "people", mock=MOCK)
    people = scientist.wait_object("people", 10)
    scientist.close()
    assert repr(people).startswith("<Pointer 'people': pandas.DataFrame 2 rows × 2 columns")
    assert "<div>" in people._repr_html_()


def test_the_store_names_the_columns_of_frames_on_both_sides(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(PEOPLE, "people", mock=MOCK)
    owner.share(PEOPLE, "bare")
    scientist.wait_object("bare", 10)
    columns = f"town {MOCK.town.dtype}, income float64"
    assert columns in scientist.store._repr_html_()
    assert [row[4] for row in scientist.store.table().rows] == [columns, ""]
    assert [row[4] for row in owner.store.table().rows] == [columns, ""]


def test_the_statistics_are_a_table() -> None:
    moved = TransferStatus("x", "in", 10, 10, "tcp", "complete", 1.0)
    running = TransferStatus("y", "in", 10, 5, "tcp", "running", 1.0)
    now = Statistics(
        "connected",
        "tcp",
        0.00123,
        2_000_000,
        0,
        3.4e-14,
        0.0,
        (PathStatus("tcp", "up", "", 4e8), PathStatus("udp", "down", "no pair <b>")),
        (moved, moved, running),
        sent_wire_bytes=500_000,
    )
    shown = ShownStatistics.of(now)
    assert shown.table().rows == [
        ("state", "connected"),
        ("path in use", "tcp"),
        ("round trip", "1.2 ms"),
        ("sent", "2 MB, 0 B/s now; 1.5 MB of it did not have to move"),
        ("received", "0 B, 0 B/s now"),
        ("path tcp", "up, 400 MB/s"),
        ("path udp", "down, no pair <b>"),
        ("transfers", "2 complete, 1 running; see duet.transfers"),
    ]
    assert "no pair &lt;b&gt;" in shown._repr_html_()
    assert repr(shown).splitlines()[0] == "Statistics"
    assert (shown.sent_bytes, shown.state) == (2_000_000, "connected")


def test_a_duet_returns_them(duets: Pair) -> None:
    assert duets[0].statistics().table().rows[0] == ("state", "connected")
