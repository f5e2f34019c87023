"""Which steps of a session count as draws of random numbers: cells that draw nothing change no program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression

from duetlink.duet.asking.recording.program import Program, is_remote
from tests.remote.recording import recording

Act = Callable[[Program, Any], Any]

X = np.arange(12.0).reshape(6, 2)


def fitted(estimator: Any) -> Act:
    def act(program: Program, x: Any) -> Any:
        return program.counterpart(estimator).fit(x)

    return act


def supervised(program: Program, x: Any) -> Any:
    return program.counterpart(LinearRegression()).fit(x, x[:, 0])


@pytest.mark.parametrize(
    ("mock", "act", "draws"),
    [
        (X, supervised, False),
        (X, fitted(KMeans(2, n_init=1, random_state=0)), False),
        (X, fitted(KMeans(2, n_init=1)), True),
        (pd.DataFrame(X), lambda program, x: x.sample(2, random_state=1), False),
        (pd.DataFrame(X), lambda program, x: x.sample(2), True),
        (torch.ones(3), lambda program, x: torch.bernoulli(x), True),
        (torch.ones(3), lambda program, x: x + 1, False),
        (
            X,
            lambda program, x: program.call("numpy.random.default_rng", np.random.default_rng, (3,), {}),
            False,
        ),
        (X, lambda program, x: program.call("numpy.random.default_rng", np.random.default_rng, (), {}), True),
    ],
)
def test_a_step_is_a_draw_where_it_may_draw(mock: object, act: Act, draws: bool) -> None:
    from duetlink.duet.asking.pointers.tensor import make_tensors

    program = recording("numpy", "pandas", "torch", "sklearn")
    make_tensors(program)
    id_ = program.asset("x", 1, mock)
    made = act(program, program.wrap(mock, id_))
    assert is_remote(made)
    steps = json.loads(program.program_of(program.next_id() - 1).text)
    assert any("draw" in modes[3] for modes in steps if len(modes) == 4) is draws
