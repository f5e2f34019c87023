"""`duet.compression`, `duet.tuning` and `lossy=`: what a user of either side sees of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

import duetlink
from duetlink.data.codecs.gradients import TopK
from duetlink.errors import LinkClosed, SettingError, UnknownCodec
from duetlink.settings import Settings

NETWORK = Settings(only=("tcp",), held_bytes=1)


@pytest.fixture
def both() -> Iterator[tuple[duetlink.Duet, duetlink.Duet]]:
    """Owner and scientist, joined by tcp."""
    with (
        duetlink.launch(settings=NETWORK) as owner,
        duetlink.join(str(owner.code), settings=NETWORK) as scientist,
    ):
        owner.wait_connected(30)
        yield owner, scientist


def fetch(owner: duetlink.Duet, scientist: duetlink.Duet, name: str) -> np.ndarray:
    pending = scientist.wait_object(name, 30).request(reason="test")
    owner.wait_request(30).approve()
    found: np.ndarray = pending.result(30)
    return found


def test_a_field_set_on_one_side_is_read_on_the_other(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    owner, scientist = both
    scientist.compression.objective = "bytes"
    assert owner.compression.objective == "bytes"
    owner.compression.set(mode="manual", codec={"tensor": "pcodec"}, level={"tensor": 3})
    assert scientist.compression.mode == "manual"
    assert scientist.compression.codec["tensor"] == "pcodec"
    assert scientist.compression.level["tensor"] == 3
    assert (owner.compression.version, scientist.compression.version) == (2, 2)
    scientist.compression.undo()
    assert (owner.compression.mode, owner.compression.objective) == ("auto", "bytes")


def test_every_field_can_be_set(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    owner, scientist = both
    fields = {
        "mode": "manual",
        "codec": {"bytes": "zstd"},
        "level": {"bytes": 5},
        "lossless_only": True,
        "max_relative_error": 0.01,
        "rate_cap_bytes_per_s": 1e6,
        "objective": "cpu",
        "pin": True,
    }
    for name, value in fields.items():
        setattr(owner.compression, name, value)
    for name, value in fields.items():
        seen = getattr(scientist.compression, name)
        assert (seen["bytes"] == value["bytes"]) if isinstance(value, dict) else seen == value
    text = repr(scientist.compression)
    assert "rate_cap_bytes_per_s" in text
    assert "1000000.0" in text


def test_a_wrong_value_is_refused_with_what_can_be(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    _, scientist = both
    with pytest.raises(SettingError, match="throughput, latency, bytes, cpu"):
        scientist.compression.objective = "beauty"
    with pytest.raises(SettingError, match="zstd"):
        scientist.compression.codec = {"tensor": "nonesuch"}
    assert scientist.compression.version == 0


def test_before_there_is_a_peer_there_is_nothing_to_agree_on() -> None:
    with duetlink.launch(settings=NETWORK) as owner, pytest.raises(LinkClosed, match="no peer"):
        owner.compression.objective = "bytes"


def test_a_configured_codec_is_seen_in_the_statistics(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    owner, scientist = both
    scientist.compression.set(mode="manual", codec={"tensor": "pcodec"})
    array = np.arange(1_000_000)
    owner.share(array, "numbers")
    assert np.array_equal(fetch(owner, scientist, "numbers"), array)
    statistics = scientist.statistics()
    assert statistics.received_bytes > 8_000_000
    assert statistics.received_wire_bytes < 200_000
    assert statistics.transfers[-1].wire_bytes == statistics.received_wire_bytes


def test_decisions_are_shown_on_both_sides(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    owner, scientist = both
    scientist.compression.set(mode="manual", codec={"tensor": "pcodec"})
    owner.share(np.arange(1_000_000), "numbers")
    fetch(owner, scientist, "numbers")
    scientist.ping()
    (mine,) = [decision for decision in owner.tuning.decisions if decision.after.codec == "pcodec"]
    (theirs,) = [decision for decision in scientist.tuning.decisions if decision.after.codec == "pcodec"]
    assert (mine.side, theirs.side) == ("here", "peer")
    assert (theirs.name, theirs.path, theirs.why) == ("numbers", "tcp", mine.why)
    assert "pcodec" in repr(scientist.tuning.decisions)
    assert "numbers" in scientist.tuning.decisions._repr_html_()


def test_an_object_is_lossy_where_its_sender_says_so_and_says_it_itself(
    both: tuple[duetlink.Duet, duetlink.Duet],
) -> None:
    owner, scientist = both
    array = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    owner.share(array, "marked", lossy="bfloat16")
    owner.share(array, "exact")
    arrived = fetch(owner, scientist, "marked")
    assert not np.array_equal(arrived, array)
    assert np.all(np.abs(arrived - array) <= 2**-8 * np.abs(array))
    marked = scientist.store["marked"]
    assert marked.lossy.startswith("bfloat16: each item within 0.0039 of its value")
    assert "bfloat16" in marked._repr_html_()
    assert scientist.store["exact"].lossy == ""
    assert np.array_equal(fetch(owner, scientist, "exact"), array)


def test_what_a_gradient_leaves_out_comes_with_later_ones(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    owner, scientist = both
    top = TopK(density=0.1)
    gradient = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    total = np.zeros_like(gradient)
    for _ in range(30):
        scientist.send(gradient, "layer", lossy=top)
        total += owner.store["layer"].get()
    assert owner.store["layer"].lossy.startswith("top-k: ")
    assert np.abs(total / 30 - gradient).mean() < 0.2 * np.abs(gradient).mean()


def test_both_sides_can_forbid_or_bound_it(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    owner, scientist = both
    array = np.ones(1000, np.float32)
    scientist.compression.max_relative_error = 0.001
    owner.share(array, "fine", lossy="float16")
    with pytest.raises(SettingError, match="max_relative_error"):
        owner.share(array, "x", lossy="bfloat16")
    scientist.compression.lossless_only = True
    with pytest.raises(SettingError, match="lossless_only"):
        owner.share(array, "x", lossy="float16")
    with pytest.raises(UnknownCodec, match="no codec 'beauty'"):
        owner.share(array, "x", lossy="beauty")


def test_a_rate_cap_holds_for_both_directions() -> None:
    settings = dataclasses.replace(NETWORK, only=("tcp",))
    with (
        duetlink.launch(settings=settings) as owner,
        duetlink.join(str(owner.code), settings=settings) as scientist,
    ):
        owner.wait_connected(30)
        scientist.compression.set(mode="manual", codec={"bytes": "raw"}, rate_cap_bytes_per_s=4e6)
        noise = np.random.default_rng(0).integers(0, 256, 4_000_000, np.uint8)
        owner.share(noise, "noise")
        fetch(owner, scientist, "noise")
        scientist.send(noise, "back")
        for duet in (owner, scientist):  # never faster; how much slower is this machine's affair
            for transfer in duet.statistics().transfers:
                assert transfer.bytes_per_s < 6e6
