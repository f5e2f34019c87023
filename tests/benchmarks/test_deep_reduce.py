"""The baselines of sparse gradients: what goes in comes out, as each of them promises."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines import deep_reduce
from benchmarks.baselines.deep_reduce.bloom import BloomFilter
from benchmarks.baselines.deep_reduce.curves import DoubleExponentialValues, PolynomialValues
from benchmarks.baselines.deep_reduce.huffman import Huffman
from benchmarks.baselines.deep_reduce.run_length import RunLength
from duetlink.data.codecs import decode
from duetlink.data.codecs.gradients import TopK, indices, values
from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.data.codecs.gradients.indices.gaps import positions_of

SIZE = 1 << 17


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (indices, values):
        for table in ("BY_NAME", "_BY_NUMBER"):
            monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    deep_reduce.register()


def there_and_back(name: str, positions: Positions, size: int = SIZE) -> Positions:
    codec: IndexCodec = indices.BY_NAME[name]
    return codec.decode(memoryview(codec.encode(positions, size, 7)), size, positions.size)


def random_positions(density: float) -> Positions:
    found = np.random.default_rng(0).choice(SIZE, round(SIZE * density), replace=False)
    return np.sort(found).astype(np.int64)


@pytest.mark.parametrize("name", ["elias_fano", "run_length", "huffman"])
@pytest.mark.parametrize(
    "positions", [[], [0], [999], [0, 1, 2, 500, 501, 999], list(range(1000)), list(range(300, 800))], ids=len
)
def test_exact_ones_keep_any_set(name: str, positions: list[int]) -> None:
    assert there_and_back(name, np.array(positions, np.int64), 1000).tolist() == positions
    beyond = np.array(positions, np.int64) + (1 << 33)
    assert there_and_back(name, beyond, 1 << 34).tolist() == beyond.tolist()


@pytest.mark.parametrize(("density", "bits"), [(0.001, 11.97), (0.01, 8.66), (0.1, 5.32)])
def test_elias_fano_takes_the_bits_of_the_literature(density: float, bits: float) -> None:
    positions = random_positions(density)
    payload = indices.BY_NAME["elias_fano"].encode(positions, SIZE, 0)
    assert 8 * len(payload) / positions.size <= 1.03 * bits + 80 / positions.size


def test_runs_of_rows_cost_a_few_bytes() -> None:
    rows = np.arange(1 << 16).reshape(256, 256)[::3].reshape(-1)
    assert len(RunLength().encode(rows, 1 << 16, 0)) < 250


def test_huffman_codes_are_no_longer_than_15_bits() -> None:
    """Counts like Fibonacci's make the deepest tree: 22 classes would need codes of 21 bits."""
    counts = [1, 1]
    while len(counts) < 22:
        counts.append(counts[-1] + counts[-2])
    gaps = np.repeat((1 << np.arange(22)) - 1, counts)
    size = int(gaps.sum()) + gaps.size + 5
    positions = positions_of(np.random.default_rng(0).permutation(gaps).astype(np.int64), size)
    payload = Huffman().encode(positions, size, 0)
    assert 10 <= np.frombuffer(payload, np.uint8, payload[0], 1).max() <= 15
    assert (there_and_back("huffman", positions, size) == positions).all()


@pytest.mark.parametrize("density", [0.01, 0.1])
def test_bloom_policies_send_what_they_promise(density: float) -> None:
    positions = random_positions(density)
    back = {name: there_and_back(name, positions) for name in ("bloom_p0", "bloom_p1", "bloom_p2")}
    assert all((np.diff(found) > 0).all() for found in back.values())
    assert np.isin(positions, back["bloom_p0"]).all()
    assert 1.0 < back["bloom_p0"].size / positions.size < 1.3
    assert back["bloom_p1"].size == back["bloom_p2"].size == positions.size
    assert 0.85 < np.isin(back["bloom_p1"], positions).mean() < 0.97
    assert np.isin(back["bloom_p2"], positions).mean() > 0.98


def test_bloom_filters_tell_positions_apart_that_share_their_low_bits() -> None:
    positions = (1 << 32) + np.arange(0, 5000, 5)
    found = BloomFilter.of(positions, 1 << 33, 3)
    assert found.contains(positions).all()
    assert found.contains(positions - (1 << 32)).mean() < 0.01


def test_curves_are_found_again() -> None:
    x = np.linspace(0, 1, 3000)
    fit = PolynomialValues()
    polynomial = 1 - 0.4 * x - 0.3 * x**2 - 0.2 * x**5
    assert np.abs(fit.curve(fit.fit(polynomial), 3000) - polynomial).max() < 1e-12
    parameters = DoubleExponentialValues().fit(0.7 * np.exp(-30 * x) + 0.3 * np.exp(-2 * x))
    assert sorted(parameters[2:]) == pytest.approx([-30, -2], rel=0.01)


@pytest.mark.parametrize(("name", "error"), [("polynomial", 0.004), ("double_exponential", 0.03)])
def test_values_on_curves_are_near(name: str, error: float) -> None:
    normal = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    largest = normal[np.sort(np.argsort(np.abs(normal))[-10_000:])]
    codec = values.BY_NAME[name]
    back = codec.decode(memoryview(codec.encode(largest, 0)), largest.size)
    assert np.linalg.norm(back - largest) <= error * np.linalg.norm(largest)
    assert (back * np.sign(largest) >= 0).all()


@pytest.mark.parametrize("index", ["bloom_p0", "bloom_p1", "bloom_p2", "huffman", "elias_fano", "run_length"])
def test_compressors_take_them_by_name(index: str) -> None:
    gradient = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    back, _ = decode(TopK(0.05, index=index, value="polynomial").compress(gradient, "g"))
    assert 200 <= np.count_nonzero(back) <= 350
