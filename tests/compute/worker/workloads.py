"""What libraries do all day, to be done in a locked down room. Each returns a figure that is checked."""

from __future__ import annotations

import warnings


def with_numpy(content: bytes) -> str:
    import numpy as np

    a = np.random.default_rng(0).normal(size=(60, 60))
    np.linalg.svd(a)
    np.linalg.solve(a, a[0])
    np.fft.fft(a)
    np.einsum("ij,jk", a, a)
    np.histogram(a)
    np.polyfit(a[0], a[1], 2)
    np.ma.array([1])
    repr(a)
    return str(np.rint(np.linalg.det(np.linalg.inv(a) @ a)))


def with_pandas(content: bytes) -> str:
    import pandas as pd

    times = pd.date_range("2020-01-01", periods=100, tz="Europe/Berlin")
    frame = pd.DataFrame({"a": range(100), "b": list("ab") * 50, "t": times})
    frame.describe()
    frame.merge(frame, on="a").pivot_table(index="b_x", values="a")
    frame.set_index("t").resample("D")["a"].sum()
    frame["b"].astype("category").str.upper()
    repr(frame)
    return str(frame.groupby("b")["a"].mean()["a"])


def with_polars(content: bytes) -> str:
    import polars as pl

    frame = pl.DataFrame({"a": list(range(100)), "b": list("ab") * 50})
    frame.lazy().filter(pl.col("a") > 3).collect()
    frame.join(frame, on="a").describe()
    frame.to_numpy()
    repr(frame)
    return str(frame.group_by("b").agg(pl.col("a").mean()).sort("b")["a"][0])


def with_pyarrow(content: bytes) -> str:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.table({"a": [1, 2, 3]})
    table.group_by("a").aggregate([("a", "sum")])
    return str(pc.sum(table["a"]).as_py())


def with_torch(content: bytes) -> str:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    x = torch.randn(16, 1, 8, 8)
    y = (x.mean(dim=(1, 2, 3)) > 0).long()
    for kind in (torch.optim.SGD, torch.optim.Adam):
        optimiser = kind(model.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.StepLR(optimiser, 1)
        for _ in range(3):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimiser.step()
            scheduler.step()
    torch.linalg.svd(torch.randn(20, 20))
    nn.LSTM(3, 4)(torch.randn(2, 1, 3))
    torch.distributions.Normal(0.0, 1.0).sample()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=4)
    repr(x)
    return str(sum(1 for _ in loader))


def with_sklearn(content: bytes) -> str:
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    x = np.random.default_rng(0).normal(size=(200, 5))
    y = (x[:, 0] > 0).astype(int)
    models = (
        RandomForestClassifier(10),
        HistGradientBoostingClassifier(max_iter=5),
        KMeans(3, n_init=1),
        SVC(),
        make_pipeline(StandardScaler(), PCA(2), LogisticRegression()),
        KNeighborsClassifier(),
    )
    for model in models:
        model.fit(x, y)
        model.predict(x)
        repr(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cross_val_score(LogisticRegression(), x, y)
    return str(LogisticRegression(C=1e6).fit(x, y).score(x, y) > 0.98)


def with_statsmodels(content: bytes) -> str:
    import numpy as np
    import statsmodels.api as sm

    x = np.random.default_rng(0).normal(size=(100, 2))
    y = x @ [2.0, -1.0] + 0.5
    fitted = sm.OLS(y, sm.add_constant(x)).fit()
    sm.Logit((y > 0).astype(int) ^ (np.arange(100) % 7 == 0), sm.add_constant(x)).fit(disp=False)
    fitted.summary()
    return str(fitted.params.round(6).tolist())


def with_opendp(content: bytes) -> str:
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    laplace = measurements.make_laplace(
        domains.atom_domain(T=int), metrics.absolute_distance(T=int), scale=1.0
    )
    return str(abs(laplace(1000) - 1000) < 100 and laplace.map(1) == 1.0)


def count_threads(content: bytes) -> str:
    import polars as pl
    import torch

    torch.randn(500, 500) @ torch.randn(500, 500)  # its threads start with the first work for them
    return f"{torch.get_num_threads()} {pl.thread_pool_size()}"
