from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.dedup import Held, Match, find
from tests.data.dedup.bodies import KEY, check, found_share, manifest_of, pack, stream

rng = np.random.default_rng(5)
COLUMNS = [rng.random(60_000) for _ in range(24)]
IMAGES = rng.random((30, 3, 64, 64))


def test_the_same_body_is_found_whole_in_one_range() -> None:
    held = pack(*COLUMNS)
    matches = find(manifest_of(held), [held], KEY)
    assert matches == [Match(0, held.body.nbytes, 0, 0)]


def test_appended_rows_of_one_array() -> None:
    table = rng.random((20_000, 13))
    assert found_share(pack(np.concatenate([table, rng.random((200, 13))])), pack(table)) > 0.97


def test_appended_rows_of_a_table_in_columns() -> None:
    longer = [np.concatenate([column, rng.random(600)]) for column in COLUMNS]
    assert found_share(pack(*longer), pack(*COLUMNS)) > 0.95


def test_one_changed_column() -> None:
    changed = [*COLUMNS[:7], rng.random(60_000), *COLUMNS[8:]]
    assert found_share(pack(*changed), pack(*COLUMNS)) > 0.95


def test_one_added_and_some_dropped_columns() -> None:
    other = [COLUMNS[0], rng.random(60_000), *COLUMNS[1:23]]
    assert found_share(pack(*other), pack(*COLUMNS)) > 0.95


def test_large_rows_are_found_wherever_they_moved() -> None:
    assert found_share(pack(np.delete(IMAGES, [3, 17], axis=0)), pack(IMAGES)) > 0.99
    assert found_share(pack(IMAGES[::-1].copy()), pack(IMAGES)) > 0.99


def test_inserted_and_deleted_bytes() -> None:
    old = rng.bytes(2_000_000)
    new = b"a new beginning" + old[:900_000] + b"and a middle" + old[900_100:]
    assert found_share(stream(new), stream(old)) > 0.95


def test_edited_records_of_text() -> None:
    records = [{"id": i, "name": f"person {i}", "score": float(x)} for i, x in enumerate(rng.random(20_000))]
    old = json.dumps(records).encode()
    records[5000]["name"] = "somebody else"
    del records[12_000:12_010]
    assert found_share(stream(json.dumps(records).encode()), stream(old)) > 0.95


def test_nothing_is_found_without_the_key() -> None:
    held = pack(*COLUMNS[:3])
    assert find(manifest_of(held), [held], b"the secret of another session") == []


def test_nothing_is_found_in_nothing() -> None:
    assert find(manifest_of(pack(*COLUMNS[:3])), [], KEY) == []
    assert find(manifest_of(stream(b"")), [stream(b"")], KEY) == []


def test_memory_that_has_changed_is_not_found() -> None:
    memory = bytearray(pack(*COLUMNS[:4]).body)
    held = Held(memoryview(memory), pack(*COLUMNS[:4]).segments)
    manifest = manifest_of(held)
    memory[1_000_000] ^= 1
    matches = find(manifest, [held], KEY)
    assert sum(match.size_bytes for match in matches) == len(memory) - 8192
    assert not any(m.target_start <= 1_000_000 < m.target_start + m.size_bytes for m in matches)


def test_the_first_body_is_preferred_and_others_fill_in() -> None:
    old, older, new = pack(*COLUMNS[:4]), pack(*COLUMNS[2:8]), pack(*COLUMNS[:8])
    matches = find(manifest_of(new, target_bytes=8192), [old, older], KEY)
    check(matches, new, [old, older])
    assert matches == [Match(0, 1_920_320, 0, 0), Match(1_920_320, 1_920_000, 1, 320 + 2 * 480_000)]


def test_held_bodies_are_cut_by_the_target_of_the_sender() -> None:
    held = pack(*COLUMNS)
    for target in (8192, 65536):
        (match,) = find(manifest_of(held, target_bytes=target), [held], KEY)
        assert match.size_bytes == held.body.nbytes


def test_repeated_content_is_one_range() -> None:
    held = pack(np.zeros(50_000), np.arange(50_000.0))
    new = pack(np.arange(50_000.0), np.zeros(50_000))
    matches = find(manifest_of(new), [held], KEY)
    check(matches, new, [held])
    assert len(matches) < 8


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_ranges_hold_what_they_say(data: st.DataObject) -> None:
    """Bodies of columns that are shared, cut, changed, put elsewhere."""

    def column() -> np.ndarray:
        values = COLUMNS[data.draw(st.integers(0, 3))][: data.draw(st.integers(0, 9000))].copy()
        for place in data.draw(st.lists(st.integers(0, 8999), max_size=2)):
            values[place : place + 1] = 0
        return values

    new, *old = (pack(*(column() for _ in range(data.draw(st.integers(0, 4))))) for _ in range(3))
    assert 0 <= found_share(new, *old) <= 1
