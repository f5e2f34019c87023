"""What a peer sends unasked is decoded where a crash costs nothing, before the kernel reads it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from duetlink import errors
from duetlink.compute.worker.kernel import process, rooms
from duetlink.compute.worker.kernel.process import Room
from duetlink.data import values
from duetlink.data.values.base import Encoded, Summary
from duetlink.duet.duet import Duet
from duetlink.duet.objects import decoding as module
from duetlink.duet.objects.asset import AssetInfo, Content
from duetlink.duet.objects.decoding import Decoding
from duetlink.duet.objects.giving import Gift
from duetlink.testing.faults import life_of, run_inside, set_constants
from tests.data.values import test_contract
from tests.fuzz.make_corpus import made
from tests.fuzz.runner import CORPUS

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30
# a room in which a check is left out, so that a hostile body does end it
PLANTED = f"""
import site, sys
for path in sys.argv[2:]:
    path in sys.path or site.addsitedir(path)
sys.path.insert(0, {str(ROOT)!r})
from tests.fuzz import plants
from duetlink.compute.worker.room.child import main
plants.plant("%s")
main(int(sys.argv[1]))
"""
FLAT = {
    "builtins": {"a": [1, 2.5, "text", b"octets", None], "b": {1, 2}},
    "numbers": np.arange(6.0).reshape(2, 3),
    "complex": np.array([1j]),
    "times": np.array(["2020-01-01"], "M8[D]"),
    "fixed bytes": np.array([b"ab"]),
    "scalar": np.float32(1.5),
    "tensor": torch.ones(2, 3),
    "tensors": {"weight": torch.ones(2, 3), "bias": torch.zeros(3)},
}
TRIED = {
    "records": (np.zeros(2, [("a", "i4")]), {"numpy"}),
    "fixed text": (np.array(["a"]), {"numpy"}),
    "void": (np.zeros(2, "V3"), {"numpy"}),
    "text": (np.array(["a"], np.dtypes.StringDType()), {"numpy"}),
    "frame": (pd.DataFrame({"a": [1]}), {"pandas", "pyarrow", "numpy"}),
    "polars": (pl.DataFrame({"a": [1]}), {"polars", "pyarrow"}),
    "arrow": (pa.table({"a": [1]}), {"pyarrow"}),
    "frame in a list": ([1, np.ones(2), pd.NaT], {"pandas", "pyarrow", "numpy"}),
}


CONTRACTS = [
    getattr(test_contract, f"Test{library}")
    for library in ("Builtins", "Numpy", "Torch", "Arrow", "Polars", "Pandas")
]


def body_of(value: object) -> memoryview:
    return memoryview(bytearray(b"".join(values.encode(value).segments)))


@pytest.fixture
async def decoding() -> AsyncIterator[Decoding]:
    leave = rooms.use()
    made = Decoding(GIB)
    yield made
    await made.close()
    await leave()


# -- which values need it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLAT)
def test_flat_values_are_decoded_at_once(name: str) -> None:
    body = body_of(FLAT[name])
    assert repr(values.decode(body, only_flat=True)) == repr(values.decode(body))


@pytest.mark.parametrize("name", TRIED)
def test_other_values_are_not(name: str) -> None:
    value, libraries = TRIED[name]
    with pytest.raises(values.NotFlat):
        values.decode(body_of(value), only_flat=True)
    assert values.libraries(body_of(value)) == libraries


# -- the process ---------------------------------------------------------------------------------------------


async def test_each_value_that_needs_it_has_a_process_of_its_own(
    decoding: Decoding, monkeypatch: Any
) -> None:
    started = []
    start = Room.start

    async def counted(*arguments: Any, **options: Any) -> Room:
        worker = await start(*arguments, **options)
        if options.get("handler") == "decode":  # not what it was forked from
            started.append(worker)
        return worker

    monkeypatch.setattr(Room, "start", counted)
    room = values.DecodeBudget(GIB)
    assert await decoding.decode(body_of([1, 2]), room) == [1, 2]
    assert started == []
    for value in (np.array(["a"]), np.array(["b"])):
        assert (await decoding.decode(body_of(value), room)) == value
    found: Any = await decoding.decode(body_of(pa.table({"a": [1]})), room)
    assert found.to_pydict() == {"a": [1]}
    assert [worker.libraries for worker in started] == [("numpy",), ("numpy",), ("pyarrow",)]
    assert len({worker.pid for worker in started}) == 3
    assert all(worker.ended.done() for worker in started)


async def test_what_is_malformed_is_refused_as_it_is_elsewhere(decoding: Decoding) -> None:
    body = memoryview(bytearray((CORPUS / "values/text-past-its-item.bin").read_bytes()))
    with pytest.raises(errors.MalformedValue, match="a field at"):
        await decoding.decode(body, values.DecodeBudget(GIB))
    assert (await decoding.decode(body_of(np.array(["a"])), values.DecodeBudget(GIB))) == np.array(["a"])


@pytest.mark.parametrize(
    ("plant", "name", "refusal", "words"),
    [
        (
            "views",
            "arrow/null-view-without-buffer-polars",
            errors.MalformedValue,
            "that decoded it has ended",
        ),
        ("fields", "values/text-past-its-item", errors.MalformedValue, "that decoded it has ended"),
        (
            "items",
            "values/records-of-0-bytes",
            errors.LimitExceeded,
            "exceeded a limit of the receiving side",
        ),
    ],
)
async def test_a_body_that_ends_or_occupies_the_process_does_no_more(
    plant: str, name: str, refusal: type[Exception], words: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(Room, "start", partial(Room.start, bootstrap=PLANTED % plant))
    decoding = Decoding(GIB)
    try:
        with monkeypatch.context() as patch, pytest.raises(refusal, match=words):
            if refusal is errors.LimitExceeded:  # it would take three seconds
                set_constants(patch, module, TIMEOUT_S=0.5)
            await decoding.decode(memoryview(bytearray(made()[name])), values.DecodeBudget(GIB))
        assert (await decoding.decode(body_of(np.array(["a"])), values.DecodeBudget(GIB))) == np.array(["a"])
    finally:
        await decoding.close()


async def test_where_no_process_can_start_only_flat_values_are_taken(monkeypatch: Any) -> None:
    async def cannot(*arguments: Any) -> Any:
        raise errors.WorkerUnavailable("not under this system")

    monkeypatch.setattr(process, "spawn", cannot)
    decoding = Decoding(GIB)
    assert (await decoding.decode(body_of(np.ones(2)), values.DecodeBudget(GIB))).tolist() == [1, 1]  # type: ignore[attr-defined]
    with pytest.raises(errors.ValueRefused, match=r"can start none \(not under this system\); send arrays"):
        await decoding.decode(body_of(pd.DataFrame({"a": [1]})), values.DecodeBudget(GIB))
    await decoding.close()


async def test_closing_ends_what_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, call = asyncio.Event(), Room.call

    async def note(room: Room, *asked: Any, **more: Any) -> Any:
        begun.set()
        return await call(room, *asked, **more)

    monkeypatch.setattr(Room, "call", note)
    decoding = Decoding(GIB)
    trying = asyncio.ensure_future(decoding.decode(body_of(np.array(["a"])), values.DecodeBudget(GIB)))
    await asyncio.wait_for(begun.wait(), 60)
    await decoding.close()
    with pytest.raises(errors.ValueRefused, match="this duet is closed"):
        await trying
    with pytest.raises(errors.ValueRefused, match="this duet is closed"):
        await decoding.decode(body_of(np.array(["a"])), values.DecodeBudget(GIB))


async def test_what_honest_peers_send_is_survived(decoding: Decoding) -> None:
    for contract in CONTRACTS:
        for name, sample in contract().samples().items():
            found = await decoding.decode(body_of(sample), values.DecodeBudget(GIB))
            assert contract().equal(found, sample), name


async def test_what_a_worker_has_encoded_is_looked_at_through_it(
    decoding: Decoding,
) -> None:
    content = Content(values.encode(pd.DataFrame({"a": [1, 2]})))
    content.decode = decoding.for_threads()
    shown: Any = await asyncio.to_thread(content.look)
    assert shown["a"].tolist() == [1, 2]
    assert decoding.tried == 1


def test_the_owner_looks_at_a_result_of_steps_through_it(duets: tuple[Duet, Duet]) -> None:
    owner, scientist = duets
    owner.share(pd.DataFrame({"a": [1, 2]}), "people", mock="auto")
    while "people" not in scientist.store:
        threading.Event().wait(0.005)
    pending = (scientist.store["people"] * 2).request("why")
    request = owner.wait_request(60)
    assert life_of(owner).decoding.tried == 0
    assert request.preview().split() == ["a", "0", "2", "1", "4"]
    assert life_of(owner).decoding.tried > 0
    request.deny()
    with pytest.raises(errors.RequestDenied):
        pending.result()


# -- gifts ---------------------------------------------------------------------------------------------------


def give(duet: Duet, name: str, body: bytes) -> None:
    """What `send` does, of bytes that our encoder would not make."""
    encoded = Encoded((memoryview(body),), len(body), Summary("numpy.ndarray", "", len(body)))
    content = Content(encoded)
    life = life_of(duet)
    assert life.link is not None
    content.prepare(life.link.reading.submit)
    run_inside(duet, life.giving.give(Gift(AssetInfo(name, 1, "numpy.ndarray", "", len(body)), content)))


@pytest.mark.parametrize("giver", [0, 1])
def test_frames_that_are_given_are_tried_first_on_both_sides(duets: tuple[Duet, Duet], giver: int) -> None:
    taker = duets[1 - giver]
    duets[giver].send(np.arange(3.0), "numbers")
    assert life_of(taker).decoding.tried == 0
    duets[giver].send(pd.DataFrame({"a": [1, 2]}), "frame")
    assert life_of(taker).decoding.tried > 0
    assert taker.store["frame"].get()["a"].tolist() == [1, 2]


HOSTILE = """
import os
os.environ["DUETLINK_AUDIT_PATH"] = ""
import duetlink, sys
from tests.duet.test_decoding import give
from tests.fuzz.make_corpus import made
owner = duetlink.launch(name="Olga")
scientist = duetlink.join(owner.code, name="Sven")
owner.wait_connected(20)
refused = 0
for name, body in made().items():
    if name.startswith(("values", "arrow")):
        try:
            give(scientist, name, body)
        except duetlink.errors.DuetError:
            refused += 1
        else:
            if "records" not in name and "0-bytes" not in name and "nothing" not in name:
                owner.store[name].get()
                owner.store[name].get().to_arrow()
scientist.send([1, 2, 3], "last")
print(refused, owner.store["last"].get())
owner.close()
scientist.close()
"""


def test_no_gift_ends_the_owner_s_process() -> None:
    hostile = [name for name in made() if name.startswith(("values", "arrow"))]
    command = [sys.executable, "-c", HOSTILE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == f"{len(hostile)} [1, 2, 3]"
