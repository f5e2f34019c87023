"""Gradients on their way: the compressor that the settings say, and what it remembers when things fail."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink.data.codecs.gradients import TopK
from duetlink.data.tuning import Compression
from duetlink.duet.objects.offering import Gradients
from duetlink.errors import SettingError, UnsupportedValue, ValueRefused
from duetlink.settings import Settings
from duetlink.testing.faults import gradients_of, link_of

NETWORK = Settings(only=("channel",), heartbeat_interval_s=0.1, heartbeat_timeout_s=0.6)
SMALL = dataclasses.replace(NETWORK, max_received_bytes=50_000)

Array = np.ndarray[Any, np.dtype[np.float32]]


@contextlib.contextmanager
def joined(receives: Settings) -> Iterator[tuple[duetlink.Duet, duetlink.Duet]]:
    with (
        duetlink.launch(settings=receives) as owner,
        duetlink.join(str(owner.code), settings=NETWORK) as scientist,
    ):
        owner.wait_connected(30)
        yield owner, scientist


@pytest.fixture
def both() -> Iterator[tuple[duetlink.Duet, duetlink.Duet]]:
    with joined(NETWORK) as pair:
        yield pair


def gradient(number: int) -> Array:
    return np.random.default_rng(number).normal(size=(60, 100)).astype(np.float32)


def total(count: int) -> Array:
    whole: Array = np.sum([gradient(number) for number in range(count)], axis=0, dtype=np.float32)
    return whole


def left_out(duet: duetlink.Duet) -> Array:
    """Of the one tensor that a duet has sent."""
    state = gradients_of(duet).state_dict()
    (residual,) = [array for key, array in state.items() if key.startswith("residual/")]
    return np.asarray(residual, np.float32)


@pytest.mark.parametrize(
    ("codec", "level", "words"),
    [
        ("auto", None, "top-k: "),
        ("sparse_gradient", 0, "top-k: "),
        ("random_subset", 3, "random-k: "),
        ("low_rank", 2, "power-sgd: "),
        ("block4", None, "quantised: "),
    ],
)
def test_the_settings_say_how_a_gradient_travels(
    both: tuple[duetlink.Duet, duetlink.Duet], codec: str, level: int | None, words: str
) -> None:
    owner, scientist = both
    owner.compression.set(mode="manual", codec={"gradient": codec}, level={"gradient": level})
    arrived = np.zeros((60, 100), np.float32)
    for number in range(3):
        scientist.send({"layer": gradient(number)}, "step", lossy="gradient")
        arrived += owner.store["step"].get()["layer"]
    assert owner.store["step"].lossy.startswith(words)
    assert np.allclose(arrived + left_out(scientist), total(3), atol=1e-4)
    assert not np.allclose(arrived, total(3), atol=0.01)


def test_a_change_of_settings_loses_nothing(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    owner, scientist = both
    arrived = np.zeros((60, 100), np.float32)
    for number, codec in enumerate(["sparse_gradient", "low_rank", "random_subset", "block4", "float16"]):
        owner.compression.set(mode="manual", codec={"gradient": codec})
        scientist.send(gradient(number), "layer", lossy="gradient")
        arrived += owner.store["layer"].get()
        assert np.allclose(arrived + left_out(scientist), total(number + 1), atol=1e-4)
    assert np.allclose(arrived, total(5), atol=0.01)  # the last one left next to nothing


def test_a_compressor_is_kept_while_the_settings_are() -> None:
    gradients = Gradients()
    manual = Compression(mode="manual", codec={"gradient": "qsgd"})
    first = gradients.by(manual)
    assert gradients.by(manual.changed(objective="bytes")) is first
    assert gradients.by(manual.changed(level={"gradient": 4})) is not first
    assert isinstance(gradients.by(Compression()), TopK)


def test_a_lossless_codec_is_none_for_what_may_change() -> None:
    with pytest.raises(SettingError, match=r"codec 'zstd' leaves nothing out, so it needs no mark"):
        Compression(codec={"gradient": "zstd"}).validate({"zstd"})


def test_marks_are_refused_where_nothing_may_be_lost(both: tuple[duetlink.Duet, duetlink.Duet]) -> None:
    owner, scientist = both
    owner.compression.lossless_only = True
    with pytest.raises(SettingError, match="lossless_only is set"):
        scientist.send(gradient(0), "layer", lossy="gradient")


def test_what_the_peer_refused_comes_with_the_next() -> None:
    with joined(SMALL) as (owner, scientist):
        top = TopK(density=0.5)
        scientist.send(gradient(0), "layer", lossy=top)
        arrived = owner.store["layer"].get()
        before = top.state_dict()
        with pytest.raises(ValueRefused):
            scientist.send([gradient(1), np.zeros(10_000)], "layer", lossy=top)
        with pytest.raises(ValueRefused, match="an array of 24,000 bytes in"):
            scientist.send(gradient(1), "another", lossy=top)
        with pytest.raises(UnsupportedValue):
            scientist.send({"": gradient(2), "x": object()}, "layer", lossy=top)
        after = top.state_dict()
        assert after.keys() == before.keys()
        assert np.array_equal(after["residual/layer"], before["residual/layer"])
        for _ in range(8):
            scientist.send(np.zeros((60, 100), np.float32), "layer", lossy=top)
            arrived = arrived + owner.store["layer"].get()
        assert np.array_equal(arrived, gradient(0))


def test_what_is_left_out_survives_a_lost_connection(
    both: tuple[duetlink.Duet, duetlink.Duet], cut: Any
) -> None:
    owner, scientist = both
    arrived = np.zeros((60, 100), np.float32)
    for number in range(4):
        if number == 2:
            cut(link_of(scientist))
        scientist.send(gradient(number), "layer", lossy="gradient")
        arrived += owner.store["layer"].get()
    assert scientist.statistics().reconnects >= 1
    assert np.allclose(arrived + left_out(scientist), total(4), atol=1e-4)
