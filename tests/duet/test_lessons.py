"""Problems that users of PySyft's Duet reported, and that duetlink avoids: see docs/duet-problems.md."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import duetlink
from duetlink import Policy, errors
from duetlink.duet.duet import Duet
from duetlink.settings import Settings
from duetlink.testing.faults import life_of
from tests.conftest import MakeDuets
from tests.duet.test_duet import answering, until

Pair = tuple[Duet, Duet]
ROOT = Path(__file__).resolve().parents[2]


def test_one_kernel_opens_one_duet_after_another(make_duets: MakeDuets) -> None:
    for number in range(3):
        owner, scientist = make_duets()
        owner.share(number, "number")
        answering(owner, lambda request: request.approve())
        assert scientist.wait_object("number", 10).get(timeout_s=20) == number
        owner.close()
        until(lambda: scientist.state.startswith("closed"))  # noqa: B023


def test_a_program_pairs_without_anybody_who_types(private_audit_log: Path) -> None:
    settings = Settings(audit_path=str(private_audit_log))
    carried: list[str] = []  # by whatever carries a text
    with duetlink.launch(settings=settings) as owner:
        carried.append(str(owner.code))
        with duetlink.join(carried[0], settings=settings) as scientist:
            assert owner.wait_connected(10).verifier == scientist.verifier


def test_nobody_is_connected_before_a_network_path_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioice.ice.StunProtocol.send_stun", lambda *_: None)  # as behind a firewall
    settings = Settings(pairing_timeout_s=1.0)
    with duetlink.launch(settings=settings) as owner:
        with pytest.raises(errors.PairingTimeout, match="was met, but no connection was made in 1 s"):
            duetlink.join(str(owner.code), settings=settings)
        until(lambda: owner.state.startswith("closed"))
        assert owner.peer is None


def test_a_loop_that_waits_for_an_object_does_not_keep_it_away(duets: Pair) -> None:
    owner, scientist = duets
    threading.Thread(target=lambda: owner.share([1, 2], "late")).start()
    while "late" not in scientist.store:  # the kernel is busy with it, and nothing else
        pass
    assert scientist.store["late"].detail == "2 items"


def test_eleven_million_items_in_the_store_hang_nothing(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(np.ones(11_000_000, np.float32), "large")
    entry = scientist.wait_object("large", 10)
    assert "float32 (11000000,)" in repr(scientist.store)
    answering(owner, lambda request: request.approve())
    assert entry.get(timeout_s=30)[-1] == 1.0


def test_the_store_is_searched_and_is_a_frame(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "loss", tags=["train"])
    owner.share([1, 2], "ages", description="Before the TRAINing")
    owner.share("x", "other")
    scientist.wait_object("other", 10)
    assert list(scientist.store.search("Train")) == ["loss", "ages"]
    assert list(scientist.store.search("train").search("list")) == ["ages"]
    assert "other" not in scientist.store.search("train")
    frame = scientist.store.to_pandas()
    assert frame.loc["ages", ["whose", "kind", "detail"]].tolist() == ["peer's", "list", "2 items"]
    pending = scientist.store["loss"].request("to plot")
    owner.wait_request(10).deny("no")
    with pytest.raises(errors.RequestDenied):
        pending.result(10)
    row = owner.requests.to_pandas().loc[0]
    assert row[["state", "object", "reason", "by", "answer"]].tolist() == [
        "denied",
        "loss",
        "to plot",
        "person",
        "no",
    ]


def test_a_thousand_ciphertexts_arrive(duets: Pair) -> None:
    owner, scientist = duets
    texts = [bytes([number % 256]) * 20_000 for number in range(1000)]
    scientist.send(texts, "ciphertexts")
    assert owner.store["ciphertexts"].get() == texts


def test_the_peer_takes_no_name_of_this_side(duets: Pair) -> None:
    owner, scientist = duets
    asset = owner.share([1, 2, 3], "ages")
    pointer: Any = scientist.wait_object("ages", 10)
    scientist.share([9], "ages")
    scientist.send([9, 9], "ages")
    assert not hasattr(pointer, "unshare")
    answering(owner, lambda request: request.approve())
    assert pointer.get(timeout_s=20) == [1, 2, 3]
    asset.unshare()
    with pytest.raises(errors.AssetNotFound):
        pointer.get(timeout_s=20)


def test_what_a_link_consists_of_is_no_value(duets: Pair) -> None:
    owner, scientist = duets
    owner.share([1], "one")
    for secret in (owner, scientist.wait_object("one", 10), life_of(owner).link, owner.requests, owner.store):
        with pytest.raises(errors.UnsupportedValue):
            owner.share([secret], "secret")
    assert list(scientist.store) == ["one"]


def test_who_is_answered_stays_known(duets: Pair) -> None:
    owner, scientist = duets
    owner.share([1], "one")
    pointer: Any = scientist.wait_object("one", 10)
    answering(owner, lambda request: request.deny("what for?"))
    with pytest.raises(errors.RequestDenied, match=r"what for\?"):
        pointer.get(reason="because", timeout_s=20)
    owner.policies.add(Policy("approve", name="all", assets=("one",)))
    assert pointer.get(reason="to count", timeout_s=20) == [1]
    assert [(request.state, request.by, request.reason) for request in owner.requests] == [
        ("denied", "person", "because"),
        ("approved", "policy all", "to count"),
    ]
    assert {"request", "answer", "release"} <= {entry.kind for entry in owner.audit}


def test_the_tests_that_the_document_names_are_there() -> None:
    text = (ROOT / "docs" / "duet-problems.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 60
    for path, name in named:
        found = re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        assert found, f"{path} has no {name}"


def test_the_plain_name_is_the_own_object_and_the_peers_is_in_its_own_part(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(pd.DataFrame({"age": [1.0, 2.0]}), "people", mock="auto", description="the clinic's")
    pointer: Any = scientist.wait_object("people", 10)
    first = pointer.request("once")
    owner.wait_request(60).approve()
    assert len(first.result(30)) == 2
    scientist.share(pd.DataFrame({"unshare": [1.0]}), "people", mock="auto")
    scientist.send([1, 2], "people")
    owner.wait_object("people", 10)
    store: Any = owner.store
    assert list(store) == ["people"]
    assert [type(view["people"]).__name__ for view in (store, store.mine, store.peer, store.received)] == [
        "Asset", "Asset", "Pointer", "ReceivedObject",
    ]  # fmt: skip
    assert [row[:2] for row in store.table().rows] == [
        ("people", "mine"),
        ("people", "peer's"),
        ("people", "received"),
    ]
    assert list(store.peer.search("clinic")) == []
    store.search("people")["people"].unshare()
    assert type(store["people"]).__name__ == "Pointer"
    assert list(store.mine) == []
    assert scientist.store["people"].kind == "pandas.DataFrame"  # the scientist's own
    with pytest.raises(errors.AssetNotFound):
        pointer.get(reason="after unshare", timeout_s=30)
    with pytest.raises(errors.AssetNotFound, match="the store has no 'people'"):
        _ = store.mine["people"]
