"""What every compressor keeps: nothing is lost, nothing is shared, state survives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from duetlink.data.codecs import decode
from duetlink.data.codecs.gradients import (
    Dgc,
    ErrorFeedback,
    GradientCompressor,
    PowerSgd,
    Quantised,
    RandomK,
    TopK,
)
from duetlink.data.codecs.gradients import state as states
from duetlink.data.codecs.registry import codecs
from duetlink.errors import LocalProtocolError

QUANTISERS = ("bfloat16", "block8", "block4", "qsgd", "natural")

WITH_ERROR_FEEDBACK: dict[str, Callable[[], ErrorFeedback]] = {
    "top-k": lambda: TopK(0.25),
    "top-k of one": lambda: TopK(1e-9),
    "top-k in block8": lambda: TopK(0.25, value="block8"),
    "random-k": lambda: RandomK(0.25, seed=7),
    "power-sgd": lambda: PowerSgd(1),
    "power-sgd, no warm start": lambda: PowerSgd(1, warm_start=False),
} | {name: lambda name=name: Quantised(name) for name in QUANTISERS}
ALL: dict[str, Callable[[], GradientCompressor]] = WITH_ERROR_FEEDBACK | {
    "dgc": lambda: Dgc(0.25, warm_up=()),
    "dgc, Nesterov, clipped": lambda: Dgc(0.25, nesterov=True, clip_norm=1.0, workers=4),
}

with_error_feedback = pytest.mark.parametrize(
    "make", WITH_ERROR_FEEDBACK.values(), ids=WITH_ERROR_FEEDBACK.keys()
)
every = pytest.mark.parametrize("make", ALL.values(), ids=ALL.keys())

# scaled so that float32 sums of a few steps stay finite and far from denormal
GRADIENTS = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9),
    elements=st.floats(-1000, 1000, width=32).map(lambda x: 0.0 if abs(x) < 1e-6 else x),
)


def noise(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same_state(left: GradientCompressor, right: GradientCompressor) -> bool:
    return states.to_bytes(left.state_dict()) == states.to_bytes(right.state_dict())


def test_the_quantisers_are_installed() -> None:
    assert set(QUANTISERS) <= {codec.name for codec in codecs()}


@every
@given(gradient=GRADIENTS)
def test_any_gradient_decodes_to_its_shape_without_state(
    make: Callable[[], GradientCompressor], gradient: NDArray[np.float32]
) -> None:
    compressor = make()
    for _ in range(2):
        decoded, header = decode(compressor.compress(gradient, "w"))
        assert decoded.shape == gradient.shape
        assert decoded.dtype == np.float32
        assert not header.bound.lossless or np.isfinite(decoded).all()


@with_error_feedback
@given(gradient=GRADIENTS, steps=st.integers(1, 4), seed=st.integers(0, 1000))
def test_what_was_delivered_and_the_residual_are_what_went_in(
    make: Callable[[], ErrorFeedback], gradient: NDArray[np.float32], steps: int, seed: int
) -> None:
    compressor = make()
    factors = np.random.default_rng(seed).uniform(-1, 1, steps).astype(np.float32)
    went_in = np.zeros(gradient.shape)
    delivered = np.zeros(gradient.shape)
    for factor in factors:
        given_gradient = np.asarray(gradient * factor)
        went_in += given_gradient
        delivered += decode(compressor.compress(given_gradient, "w"))[0]
    residual: Any = compressor.state_dict()["residual/w"]
    # a step rounds twice in float32, each time by half an ulp (2^-24) of no more than what is summed there
    largest = max(1e-30, float(np.abs(gradient).max(initial=0)), float(np.abs(delivered).max(initial=0)))
    np.testing.assert_allclose(delivered + residual, went_in, rtol=0, atol=steps * 20 * 2**-24 * largest)


@with_error_feedback
def test_lossless_values_leave_a_residual_that_is_exact(make: Callable[[], ErrorFeedback]) -> None:
    compressor, gradient = make(), noise(8, 8)
    decoded, _ = decode(compressor.compress(gradient, "w"))
    assert np.array_equal(compressor.state_dict()["residual/w"], gradient - decoded)


@with_error_feedback
def test_of_a_constant_gradient_all_is_delivered_in_the_long_run(make: Callable[[], ErrorFeedback]) -> None:
    """The residual stays bounded: the mean of what was delivered goes to the gradient as 1 / steps."""
    compressor, gradient = make(), noise(8, 8)
    steps = 400
    total = sum(decode(compressor.compress(gradient, "w"))[0].astype(np.float64) for _ in range(steps))
    # of 64 items one is sent in a step: each waits up to some 64 steps times the ratio of largest to mean
    assert np.abs(total / steps - gradient).max() < 0.3 * np.abs(gradient).max()
    after = sum(decode(compressor.compress(gradient, "w"))[0].astype(np.float64) for _ in range(steps))
    assert np.abs((total + after) / (2 * steps) - gradient).max() < 0.15 * np.abs(gradient).max()


@every
def test_what_is_left_is_delivered_when_no_more_comes(make: Callable[[], GradientCompressor]) -> None:
    compressor = make()
    compressor.epoch = 100
    compressor.compress(noise(8, 8), "w")
    for _ in range(400):
        decoded, _ = decode(compressor.compress(np.zeros((8, 8), np.float32), "w"))
    assert np.abs(decoded).max() < 1e-3


@every
@given(st.integers(0, 5))
def test_a_state_carried_over_gives_the_same_chunks(
    make: Callable[[], GradientCompressor], steps: int
) -> None:
    first, second = make(), make()
    first.epoch = 2
    for step in range(steps):
        first.compress(noise(6, 7, seed=step), "w")
        first.compress(noise(5, seed=step), "a/b")
    second.load_state_dict(states.from_bytes(states.to_bytes(first.state_dict())))
    assert second.epoch == 2
    for step in range(3):
        gradients = {"w": noise(6, 7, seed=100 + step), "a/b": noise(5, seed=100 + step)}
        assert first.compress_all(gradients) == second.compress_all(gradients)
    assert same_state(first, second)


@every
def test_equal_seeds_and_inputs_give_equal_chunks(make: Callable[[], GradientCompressor]) -> None:
    first, second = make(), make()
    for step in range(3):
        gradient = noise(6, 7, seed=step)
        assert first.compress(gradient, "w") == second.compress(gradient, "w")


@every
def test_tensors_and_compressors_share_nothing(make: Callable[[], GradientCompressor]) -> None:
    """The earlier module kept one list of compressors for all tensors, as a default argument."""
    alone, busy, other = make(), make(), make()
    for step in range(3):
        busy.compress(noise(9, 4, seed=50 + step), "other")
        other.compress(noise(6, 7, seed=70 + step), "w")
        gradient = noise(6, 7, seed=step)
        assert alone.compress(gradient, "w") == busy.compress(gradient, "w")


@pytest.mark.parametrize("kind", [TopK, RandomK, Dgc, PowerSgd, Quantised, GradientCompressor])
def test_no_default_can_be_changed(kind: type[GradientCompressor]) -> None:
    for parameter in inspect.signature(kind).parameters.values():
        assert not isinstance(parameter.default, list | dict | set | np.ndarray)


@every
def test_the_gradient_is_neither_changed_nor_kept(make: Callable[[], GradientCompressor]) -> None:
    compressor, reference = make(), make()
    gradient = noise(8, 8)
    before = gradient.copy()
    compressor.compress(gradient, "w")
    assert np.array_equal(gradient, before)
    gradient[:] = 99.0
    reference.compress(before, "w")
    assert same_state(compressor, reference)


@every
def test_a_state_dict_is_a_copy(make: Callable[[], GradientCompressor]) -> None:
    compressor = make()
    compressor.compress(noise(8, 8), "w")
    before = states.to_bytes(compressor.state_dict())
    taken = compressor.state_dict()
    for value in taken.values():
        if isinstance(value, np.ndarray):
            value[...] = 5
    assert states.to_bytes(compressor.state_dict()) == before
    other = make()
    other.load_state_dict(taken)
    loaded = states.to_bytes(other.state_dict())
    for value in taken.values():
        if isinstance(value, np.ndarray):
            value[...] = 6
    assert states.to_bytes(other.state_dict()) == loaded


@every
def test_memory_order_does_not_matter(make: Callable[[], GradientCompressor]) -> None:
    rows, columns, strided = make(), make(), make()
    for step in range(3):
        gradient = noise(6, 8, seed=step)
        wide = np.zeros((6, 16), np.float32)
        wide[:, ::2] = gradient
        data = rows.compress(gradient, "w")
        assert columns.compress(np.asfortranarray(gradient), "w") == data
        assert strided.compress(wide[:, ::2], "w") == data


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_and_changes_nothing(
    make: Callable[[], GradientCompressor], bad: float
) -> None:
    compressor = make()
    compressor.compress(noise(4, 4), "w")
    before = states.to_bytes(compressor.state_dict())
    spoiled = noise(4, 4)
    spoiled[1, 2] = bad
    with pytest.raises(LocalProtocolError, match="'v' has items that are not finite"):
        compressor.compress_all({"w": noise(4, 4), "v": spoiled})
    assert states.to_bytes(compressor.state_dict()) == before


@every
def test_another_shape_under_a_name_is_refused_until_reset(make: Callable[[], GradientCompressor]) -> None:
    compressor = make()
    compressor.compress(noise(4, 4), "w")
    with pytest.raises(LocalProtocolError, match=r"shape \(2, 8\) for a tensor whose \w+ has \(4, 4\)"):
        compressor.compress(noise(2, 8), "w")
    compressor.reset("w")
    assert decode(compressor.compress(noise(2, 8), "w"))[0].shape == (2, 8)


@every
@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros(3, np.int32), [0.5, 0.5], None])
def test_other_than_float32_is_refused(make: Callable[[], GradientCompressor], bad: object) -> None:
    with pytest.raises(LocalProtocolError, match="compressors take arrays of float32"):
        make().compress(bad, "w")  # type: ignore[arg-type]


@every
def test_reset_forgets_all(make: Callable[[], GradientCompressor]) -> None:
    compressor = make()
    compressor.compress(noise(8, 8), "w")
    compressor.reset()
    assert same_state(compressor, make())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"residual/w": np.zeros(3)}, "float64"),
        ({"residual/w": np.full(3, np.nan, np.float32)}, "not finite"),
        ({"velocity/w": np.zeros(3, np.float32)}, "a state with 'velocity/w'; top-k has residual"),
        ({"step/w": -1}, "not a count"),
        ({"step/w": 1.5}, "not a count"),
        ({"epoch": 1 << 63}, "not a count"),
        ({"residual/w": 3}, "compressors take arrays"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_as_a_whole(bad: states.State, reason: str) -> None:
    compressor = TopK(0.5)
    compressor.compress(noise(4), "w")
    before = states.to_bytes(compressor.state_dict())
    with pytest.raises(LocalProtocolError, match=reason):
        compressor.load_state_dict({"residual/v": np.zeros(3, np.float32)} | bad)
    assert states.to_bytes(compressor.state_dict()) == before


def test_a_residual_may_move_to_another_method() -> None:
    first, second = TopK(0.25), RandomK(1.0)
    decoded, _ = decode(first.compress(noise(8, 8), "w"))
    second.load_state_dict(first.state_dict())
    rest, _ = decode(second.compress(np.zeros((8, 8), np.float32), "w"))
    assert np.array_equal(decoded + rest, noise(8, 8))
