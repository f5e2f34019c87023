"""Pointers to NumPy's arrays: what is done to them here, and what comes of it at the owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from duetlink import errors
from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.pointers.remote import Result
from duetlink.duet.asking.recording import program as recording
from duetlink.testing.faults import kept_counts, life_of, set_constants
from tests.remote.conftest import Bench


@pytest.fixture(scope="module")
def real() -> np.ndarray:
    return np.random.default_rng(1).normal(5.0, 2.0, (40, 3))


@pytest.fixture
def pointer(bench: Bench, real: np.ndarray) -> Any:
    if "table" not in bench.owner.store:
        bench.share(real, "table", mock=np.ones((40, 3)))
    return bench.scientist.wait_object("table", 10)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x * 2 + 1) / 3 - x**2 // 4 + x % 3,
    "swapped": lambda x: 1 / (10 - x) + (2**x) - (7 // x) + (8 % x),
    "unary": lambda x: abs(-x) + (+x),
    "comparison": lambda x: (x > 5) & ~(x >= 6) | (x == 0) ^ (x != 1),
    "matrices": lambda x: x.T @ x,
    "a row": lambda x: x[3],
    "slices": lambda x: x[1:10:2, ::-1],
    "a mask": lambda x: x[x[:, 0] > 5],
    "ellipsis and newaxis": lambda x: x[..., None, 0],
    "a list of rows": lambda x: x[[1, 2, 3]],
    "an array as index": lambda x: x[np.array([3, 1])],
    "ufuncs": lambda x: np.exp(np.sin(x)) + np.maximum(x, 3),
    "a ufunc with an array of ours": lambda x: np.add(np.arange(3.0), x),
    "functions": lambda x: np.concatenate([x, x[:2]]).mean(axis=0),
    "functions of several": lambda x: np.where(x > 5, x, np.zeros_like(x)),
    "methods": lambda x: x.sum(axis=1).cumsum().reshape(4, 10).std(),
    "statistics": lambda x: np.quantile(x, [0.1, 0.5], axis=0),
    "linear algebra": lambda x: np.linalg.norm(x, axis=1),
    "types": lambda x: x.astype(np.float32).astype("int64"),
    "rounding": lambda x: x.round(1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_at_the_owner_what_it_gives_here(
    bench: Bench, pointer: Any, real: np.ndarray, name: str
) -> None:
    result = OPERATIONS[name](pointer)
    assert isinstance(result, Result)
    expected = OPERATIONS[name](real)
    mock = OPERATIONS[name](np.ones((40, 3)))
    np.testing.assert_array_equal(result.mock, mock)
    value = result.get(reason=name)
    np.testing.assert_array_equal(value, expected)
    assert np.asarray(value).dtype == np.asarray(expected).dtype


def test_shape_and_type_are_here_without_a_question(pointer: Any) -> None:
    assert (pointer.shape, pointer.ndim, pointer.size, pointer.dtype) == ((40, 3), 2, 120, np.float64)
    assert len(pointer) == 40


def test_several_results_come_apart(bench: Bench, pointer: Any, real: np.ndarray) -> None:
    low, high = np.divmod(pointer, 2)
    np.testing.assert_array_equal(low.get(), np.divmod(real, 2)[0])
    np.testing.assert_array_equal(high.get(), np.divmod(real, 2)[1])


def test_a_result_is_changed_in_place_and_an_asset_is_not(
    bench: Bench, pointer: Any, real: np.ndarray
) -> None:
    copy = pointer.copy()
    copy[copy > 5] = 0.0
    expected = real.copy()
    expected[expected > 5] = 0.0
    np.testing.assert_array_equal(copy.get(), expected)
    with pytest.raises(errors.OperationRefused, match=r"'table' is its owner's .* \.copy\(\)"):
        pointer[0] = 1.0


def test_a_failure_here_is_the_librarys_own_and_leaves_no_step(bench: Bench, pointer: Any) -> None:
    with pytest.raises(ValueError, match="cannot reshape array of size 120"):
        pointer.reshape(7, 7)
    with pytest.raises(IndexError):
        pointer[100]
    row = pointer[0].copy()
    with pytest.raises(ValueError, match="could not broadcast"):
        row[:] = np.ones(7)
    seen: list[Any] = []

    def answer(request: Request) -> None:
        seen.append(str(request.code))
        request.approve()

    bench.answer = answer
    assert row.get(reason="as it was made").shape == (3,)
    assert seen == ["table[0].copy()"]


def test_a_failure_at_the_owner_names_the_operation(bench: Bench) -> None:
    counts = bench.share(np.array([0, 1, 2]), "counts", mock=np.array([0, 1, 1]))
    sizes: Any = np.bincount(counts) + np.zeros(2)
    told = r"in step \d, operator\.add: ValueError: .*operands could not be broadcast"
    for _ in range(2):  # it is asked for and answered anew
        with pytest.raises(errors.OperationFailed, match=told):
            (sizes * 2).get()
    np.testing.assert_array_equal((counts + 1).get(), [1, 2, 3])


def test_what_python_wants_to_know_is_refused(pointer: Any) -> None:
    total = pointer.sum()
    for ask in (bool, int, float, complex):
        with pytest.raises(errors.PrivateValue, match=r"\.get\(reason=…\), or decide by its mock"):
            ask(total)
    with pytest.raises(errors.PrivateValue):
        [1, 2, 3][total]
    with pytest.raises(errors.PrivateValue, match=r"the text in the format '.2f' of"):
        f"{total:.2f}"
    assert float(total.mock) == 120.0


def test_what_is_in_no_list_is_not_there(pointer: Any) -> None:
    for name in ("tofile", "dump", "ctypes", "setflags"):
        with pytest.raises(AttributeError, match="is in no list"):
            getattr(pointer, name)
    with pytest.raises(AttributeError, match="does not exist"):
        pointer.nothing  # noqa: B018
    with pytest.raises(errors.OperationRefused, match="save"):
        np.save("x", pointer)
    with pytest.raises(errors.OperationRefused, match=r"@duet.remote"):
        np.apply_along_axis(lambda row: row, 0, pointer)
    assert "mean" in dir(pointer)
    assert "tofile" not in dir(pointer)


def test_a_request_shows_how_the_result_was_made(bench: Bench, pointer: Any, real: np.ndarray) -> None:
    seen: list[Any] = []

    def look(request: Any) -> None:
        seen.append(
            (str(request.code), request.asset.kind, request.asset.detail, request.reason, request.preview())
        )
        request.deny("not yet")

    bench.answer = look
    with pytest.raises(errors.RequestDenied, match="not yet"):
        pointer[:, 1].mean().get(reason="table 2")
    assert seen == [
        ("table[:, 1].mean()", "numpy.float64", "", "table 2", repr(np.float64(real[:, 1].mean())))
    ]


def test_steps_that_no_pointer_needs_are_let_go_of(
    bench: Bench, pointer: Any, real: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, recording, COMPACT_STEPS=500)
    kept = pointer + 1
    for _ in range(3):
        for _ in range(recording.MOST_STEPS):
            pointer * 2
        np.testing.assert_array_equal((kept * 3).get(), (real + 1) * 3)
    program = life_of(bench.scientist).remote_session.program()
    assert kept_counts(program)["trace"] + len(program.steps) < recording.MOST_STEPS
    np.testing.assert_array_equal(kept.get(), real + 1)


def test_numbers_are_written_as_they_are(bench: Bench, pointer: Any) -> None:
    program = life_of(bench.scientist).remote_session.program()
    numbers = (1.0, 1, True, 0.0, -0.0, 0.0, float("inf"), float("nan"), None, 1.0)
    written = [program.encode(number) for number in numbers]
    assert written == ["1.0", "1", "true", "0.0", "-0.0", "0.0", "Infinity", "NaN", "null", "1.0"]
    zeros = [np.signbit((abs(pointer) * zero).get()).any() for zero in (0.0, -0.0, 0.0, 0)]
    assert zeros == [False, True, False, False]
    assert (pointer * 1).get().dtype == (pointer * 1.0).get().dtype == np.float64
    assert np.isinf((abs(pointer) + float("inf")).get()).all()


def test_the_parts_of_a_result_with_further_attributes(bench: Bench) -> None:
    """SciPy's are named tuples that cannot be made of their fields alone."""
    import scipy.stats

    real = np.arange(20.0), np.arange(20.0) ** 1.5
    one, other = (bench.share(array, name) for array, name in zip(real, ("one", "other"), strict=True))
    stats = bench.scientist.remote(scipy.stats)
    for name in ("ttest_ind", "ttest_rel", "pearsonr", "ks_2samp"):
        made, expected = getattr(stats, name)(one, other), getattr(scipy.stats, name)(*real)
        np.testing.assert_allclose(made.pvalue.get(), expected.pvalue, rtol=1e-6)
        np.testing.assert_allclose(made[0].get(), expected.statistic, rtol=1e-6)
    slope, *_ = stats.linregress(one, other)
    np.testing.assert_allclose(slope.get(), scipy.stats.linregress(*real).slope, rtol=1e-6)


def test_an_estimator_whose_library_is_imported_late(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import Ridge

    x = bench.share(np.arange(12.0).reshape(6, 2), "late")
    _ = x + 1  # the lists of what is imported by now are loaded; as if scikit-learn came after that
    monkeypatch.setattr(
        life_of(bench.scientist).remote_session.program(), "allowed", Allowed(("python", "numpy"))
    )
    model = bench.scientist.remote(Ridge())
    model.fit(x, x[:, 0])
    assert model.coef_.get().shape == (2,)


def test_what_the_owner_has_written_to_since_it_was_shared_is_not_worked_on(bench: Bench) -> None:
    mine = np.ones(3)
    shared = bench.share(mine, "written to", mock=np.arange(3.0))
    mine += 5

    def look(request: Any) -> None:
        with pytest.raises(errors.AssetChanged):
            request.run()
        request.deny("it has changed")

    bench.answer = look
    with pytest.raises(errors.RequestDenied, match="it has changed"):
        shared.sum().get(reason="of the revision that was shared, or none")
    bench.answer = None
    again = bench.share(mine, "written to", mock=np.arange(3.0))
    assert again.sum().get(reason="of the new revision") == 18
