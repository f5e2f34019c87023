"""Ordinary notebooks' code runs on twins of two known data sets."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from duetlink.compute.mocks import Mock, check, make


@pytest.fixture(scope="module")
def cancer() -> Any:
    frame = load_breast_cancer(as_frame=True).frame
    twin = make(frame, Mock(bounds={"target": (0, 1), "mean radius": (5, 30)}))
    check(frame, twin)
    return twin


def test_a_classifier_is_trained_and_validated(cancer: Any) -> None:
    features, labels = cancer.drop(columns="target"), cancer["target"]
    train, test, known, hidden = train_test_split(features, labels, stratify=labels, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train, known)
    assert 0.3 < accuracy_score(hidden, model.predict(test)) < 0.7  # there is nothing to be learned
    assert confusion_matrix(hidden, model.predict(test)).shape == (2, 2)
    assert len(cross_val_score(LogisticRegression(max_iter=500), features, labels, cv=5)) == 5


def test_a_frame_is_grouped_described_and_plotted_as_bins(cancer: Any) -> None:
    assert cancer.groupby("target").mean().shape == (2, 30)
    assert cancer.describe().loc["count"].eq(569).all()
    assert cancer["mean radius"].between(5, 30).all()
    assert cancer.corr().shape == (31, 31)
    assert pd.cut(cancer["mean radius"], [0, 10, 20, 30]).notna().all()
    assert cancer.sort_values("mean area").head().shape == (5, 31)


def test_a_mixed_frame_is_encoded_joined_and_resampled() -> None:
    frame = pd.DataFrame(
        {
            "town": ["Bonn", "Lyon", None] * 20,
            "kind": pd.Categorical(["a", "b", "a"] * 20),
            "when": pd.date_range("2020", periods=60, freq="h"),
            "paid": np.linspace(0, 9, 60),
        }
    )
    twin: Any = make(frame, Mock(categories={"town": ["Bonn", "Lyon"]}))
    assert OneHotEncoder().fit_transform(twin[["town", "kind"]]).shape == (60, 5)
    assert pd.get_dummies(twin[["town", "kind"]]).shape == (60, 5)
    assert len(twin.merge(twin.groupby("town", as_index=False)["paid"].sum(), on="town")) == 60
    assert twin.set_index("when").sort_index()["paid"].resample("YE").mean().notna().any()
    assert twin["when"].dt.year.between(2000, 2009).all()
    assert twin["town"].str.upper().isin(["BONN", "LYON"]).all()
    assert twin.pivot_table(index="town", columns="kind", values="paid", observed=True).shape == (2, 3)


def test_digits_are_classified() -> None:
    digits = load_digits()
    images, labels = make((digits.data, digits.target), Mock(bounds={0: (0, 16)}))
    assert images.shape == (1797, 64)
    assert images.dtype == np.float64
    assert (images.min() >= 0) & (images.max() <= 16)
    forest = RandomForestClassifier(5, random_state=0).fit(images, labels)
    assert forest.predict_proba(images).shape == (1797, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert LogisticRegression(max_iter=5).fit(images, labels).classes_.tolist() == list(range(10))


def test_a_network_is_trained_on_tensors() -> None:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)
    made: Any = make({"x": images, "y": torch.tensor(digits.target)})
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(made["x"]), made["y"])
        loss.backward()
        optimiser.step()
    assert torch.isfinite(loss)
