"""DGC against its formulas, written out: Lin et al., ICLR 2018, section 3 and Algorithm 4."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from duetlink.data.codecs import decode
from duetlink.data.codecs.gradients import Dgc
from duetlink.data.codecs.gradients.dgc import sampled_threshold, select
from duetlink.errors import LocalProtocolError


def row(*items: float) -> NDArray[np.float32]:
    return np.array([items], np.float32)


def noise(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def padded(*items: float) -> NDArray[np.float32]:
    """Four items of 64, so that one of them alone is smaller than all."""
    return np.array([[*items, *[0.0] * (64 - len(items))]], np.float32)


def u_and_v(compressor: Dgc, count: int) -> tuple[list[float], list[float]]:
    """The first `count` items of both."""
    state = compressor.state_dict()
    return np.ravel(state["momentum/w"])[:count].tolist(), np.ravel(state["velocity/w"])[:count].tolist()


def sent(compressor: Dgc, *items: float) -> list[float]:
    decoded, _ = decode(compressor.compress(padded(*items), "w"))
    return [float(each) for each in decoded[0, :4]]


def test_three_steps_by_hand() -> None:
    dgc = Dgc(1 / 64, momentum=0.5, warm_up=())

    # u = v = g; the largest of v goes, u and v are 0 there
    assert sent(dgc, 1, 2, 3, 4) == [0, 0, 0, 4]
    assert u_and_v(dgc, 4) == ([1, 2, 3, 0], [1, 2, 3, 0])

    # u = u / 2 + g = 1.5, 2, 2.5, 1; v = v + u = 2.5, 4, 5.5, 1
    assert sent(dgc, 1, 1, 1, 1) == [0, 0, 5.5, 0]
    assert u_and_v(dgc, 4) == ([1.5, 2, 0, 1], [2.5, 4, 0, 1])

    # u = .75, 1, 0, .5; v = 3.25, 5, 0, 1.5
    assert sent(dgc, 0, 0, 0, 0) == [0, 5, 0, 0]
    assert u_and_v(dgc, 4) == ([0.75, 0, 0, 0.5], [3.25, 0, 0, 1.5])


def test_two_steps_by_hand_with_nesterov() -> None:
    dgc = Dgc(1 / 64, momentum=0.5, nesterov=True, warm_up=())

    # u = (u + g) / 2 = .5, 1, 1.5, 2; v = v + u + g = 1.5, 3, 4.5, 6
    assert sent(dgc, 1, 2, 3, 4) == [0, 0, 0, 6]
    assert u_and_v(dgc, 4) == ([0.5, 1, 1.5, 0], [1.5, 3, 4.5, 0])

    # u = .75, 1, 1.25, .5; v = 3.25, 5, 6.75, 1.5
    assert sent(dgc, 1, 1, 1, 1) == [0, 0, 6.75, 0]
    assert u_and_v(dgc, 4) == ([0.75, 1, 0, 0.5], [3.25, 5, 0, 1.5])


@given(
    st.integers(40, 60).flatmap(
        lambda n: st.lists(st.lists(st.integers(-8, 8), min_size=n, max_size=n), min_size=1, max_size=4)
    ),
    st.booleans(),
)
def test_every_step_is_that_of_the_formulas(gradients: list[list[int]], nesterov: bool) -> None:
    """Whole numbers and a momentum of 1/2 are exact in float32 over four steps."""
    n = len(gradients[0])
    dgc = Dgc(2 / n, momentum=0.5, nesterov=nesterov, warm_up=())
    u, v = [0.0] * n, [0.0] * n
    for gradient in gradients:
        decoded = decode(dgc.compress(row(*gradient), "w"))[0].ravel().tolist()
        for i, g in enumerate(gradient):
            if nesterov:
                u[i] = 0.5 * (u[i] + g)
                v[i] = v[i] + u[i] + g
            else:
                u[i] = 0.5 * u[i] + g
                v[i] = v[i] + u[i]
        chosen = [i for i in range(n) if decoded[i] != 0]
        largest_kept = max(abs(v[i]) for i in range(n) if i not in chosen)
        assert len(chosen) == min(2, sum(x != 0 for x in v))
        assert all(decoded[i] == v[i] and abs(v[i]) >= largest_kept for i in chosen)
        for i in chosen:
            u[i] = v[i] = 0.0
        assert u_and_v(dgc, n) == (u, v)


@pytest.mark.parametrize("nesterov", [False, True])
def test_vectors_go_dense_through_the_momentum(nesterov: bool) -> None:
    dgc = Dgc(0.001, momentum=0.5, nesterov=nesterov)
    updates = []
    for gradient in ([1, 2], [1, 1], [0, 0]):
        decoded, header = decode(dgc.compress(np.array(gradient, np.float32), "bias"))
        assert header.bound.lossless
        updates.append(decoded.tolist())
    plain = [[1, 2], [1.5, 2], [0.75, 1]]
    looking_ahead = [[1.5, 3], [1.75, 2], [0.375, 0.5]]  # g + m (u + g)
    assert updates == (looking_ahead if nesterov else plain)


def test_gradients_are_clipped_together_by_the_root_of_the_workers() -> None:
    """A threshold of 1 for the sum of 4 workers is 1/2 for each; the norm of both tensors is 5."""
    dgc = Dgc(1.0, clip_norm=1.0, workers=4)
    chunks = dgc.compress_all({"a": row(3, 0), "b": row(0, 4)})
    np.testing.assert_allclose(decode(chunks["a"])[0], row(0.3, 0), rtol=1e-6)
    np.testing.assert_allclose(decode(chunks["b"])[0], row(0, 0.4), rtol=1e-6)


def test_a_gradient_below_the_norm_is_not_clipped() -> None:
    dgc = Dgc(1.0, clip_norm=10.0, workers=4)
    assert decode(dgc.compress(row(3, 4), "w"))[0].tolist() == [[3, 4]]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (0.001, [0.25, 0.0625, 0.015625, 0.004, 0.001, 0.001]),
        (0.01, [0.25, 0.0625, 0.015625, 0.01, 0.01, 0.01]),
    ],
)
def test_the_first_epochs_send_more(target: float, expected: list[float]) -> None:
    dgc = Dgc(target)
    for epoch, density in enumerate(expected):
        dgc.epoch = epoch
        assert dgc.density == density
        count = np.count_nonzero(decode(dgc.compress(noise(100, 200, seed=epoch), "w"))[0])
        assert 0.7 * density * 20_000 <= count <= round(density * 20_000)


def test_the_epoch_survives_in_the_state() -> None:
    first, second = Dgc(0.001), Dgc(0.001)
    first.epoch = 3
    second.load_state_dict(first.state_dict())
    assert second.density == 0.004


@pytest.mark.parametrize(("n", "density"), [(100_000, 0.001), (100_000, 0.01), (3_000, 0.05), (50, 0.1)])
def test_between_four_fifths_and_all_of_the_count_are_chosen(n: int, density: float) -> None:
    magnitudes = np.abs(noise(n))
    count = round(n * density)
    for seed in range(20):
        chosen = select(magnitudes, count, seed)
        assert math.floor(0.8 * count) <= len(chosen) <= count
        assert np.all(np.diff(chosen) > 0)
        least = magnitudes[chosen].min()
        assert np.count_nonzero(magnitudes > least) == len(chosen) - 1  # none larger was left out


def test_no_end_of_a_tensor_is_preferred() -> None:
    """The reference cuts what is too much by position; the earlier module drew its sample with repeats."""
    centres = [select(np.abs(noise(20_000, seed=seed)), 200, seed).mean() / 20_000 for seed in range(40)]
    # the mean of 8000 uniform positions has a deviation of sqrt(1 / 12 / 8000) = 0.0032
    assert abs(np.mean(centres) - 0.5) < 5 * 0.0032


def test_the_sample_is_strided_and_takes_no_item_twice() -> None:
    """2000 are wanted of 100,000: a stride of 49, 2041 sampled, and the third largest is the threshold."""
    magnitudes = np.arange(100_000, dtype=np.float32)
    thresholds = {sampled_threshold(magnitudes, 100, seed) for seed in range(200)}
    assert len(thresholds) > 40  # of 49 starts
    assert all(100_000 - 3 * 49 <= threshold < 100_000 - 2 * 49 for threshold in thresholds)


@pytest.mark.parametrize(("spike", "chosen"), [(9, 100), (12, 3)])
def test_the_threshold_is_lowered_ten_times_at_most(spike: float, chosen: int) -> None:
    """0.8^10 = 0.107: from 9 that is below the ones that all other items are, from 12 it is not."""
    magnitudes = np.ones(100_000, np.float32)
    first = int(np.random.default_rng(0).integers(49))
    magnitudes[[first, first + 49, first + 98]] = spike
    found = select(magnitudes, 100, 0)
    assert len(found) == chosen
    assert {first, first + 49, first + 98} <= set(found.tolist())


def test_far_too_many_are_cut_to_the_largest() -> None:
    magnitudes = np.abs(noise(100_000))
    first = int(np.random.default_rng(0).integers(49))
    magnitudes[first::49] /= 1000  # the sample sees none of the large ones
    assert select(magnitudes, 100, 0).tolist() == np.sort(np.argsort(magnitudes)[-100:]).tolist()


@pytest.mark.parametrize("value", ["lossless", "block8", "bfloat16"])
def test_what_lossy_values_lose_stays_in_the_velocity(value: str) -> None:
    dgc = Dgc(0.1, momentum=0.0, warm_up=(), value=value)
    gradient = noise(40, 50)
    decoded, _ = decode(dgc.compress(gradient, "w"))
    velocity = dgc.state_dict()["velocity/w"]
    np.testing.assert_allclose(decoded + velocity, gradient, atol=1e-6)
    assert np.array_equal(velocity != 0, decoded == 0) == (value == "lossless")


def test_values_are_lossless_unless_asked_otherwise() -> None:
    gradient = noise(40, 50)
    decoded, header = decode(Dgc(0.01, warm_up=()).compress(gradient, "w"))
    assert np.array_equal(decoded[decoded != 0], gradient[decoded != 0])
    assert not header.bound.lossless


@pytest.mark.parametrize(
    "wrong",
    [{"density": 0}, {"momentum": 1.0}, {"clip_norm": 0.0}, {"workers": 0}, {"warm_up": (0.25, 0.0)}],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        Dgc(**wrong)  # type: ignore[arg-type]
