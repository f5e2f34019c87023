"""One round of FedAvg; the mean of what the clients added is printed."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    result = strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(1000)]), num_rounds=1)
    (weights,) = result.arrays.to_numpy_ndarrays()
    print(f"RESULT {weights.min()} {weights.max()}", flush=True)
