"""A plain DDP script, for torchrun: `torchrun … torchrun_training.py DIRECTORY [dies|late]`."""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard

import duetlink.groups.torch


def main(place: Path, what_happens: str) -> None:
    # loading a state from rank 0 sends its form as a pickle
    options = duetlink.groups.torch.Options(allow_pickle=True)
    dist.init_process_group("duetlink", timeout=timedelta(seconds=60), pg_options=options)
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        if step == 2 and rank == 1 and what_happens == "dies" and attempt == 0:
            os._exit(3)
        if step == 2 and what_happens == "late":
            world: Any = dist.group.WORLD
            world.set_timeout(timedelta(seconds=3))
            while rank == 1:
                time.sleep(1)  # torchrun ends it when rank 0 has failed
        optimizer.zero_grad()
        model(torch.ones(2, 8) * (1 + rank)).sum().backward()
        optimizer.step()
    learnt = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    everybody = [torch.empty_like(learnt) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, learnt)
    same = all(torch.equal(learnt, other) for other in everybody)
    loaded = nn.Linear(6, 6)
    fully_shard(loaded)
    whole = {"weight": torch.arange(36.0).reshape(6, 6), "bias": torch.arange(6.0)}
    weights: Any = whole if rank == 0 else {}
    loading = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(loaded, weights, options=loading)
    weight: Any = loaded.weight
    told = f"attempt {attempt}, {dist.get_world_size()} ranks, node {os.environ['GROUP_RANK']}, "
    told += f"{'the same weights' if same else 'other weights'}, loaded {weight.full_tensor().sum():g}"
    dist.destroy_process_group()
    (place / f"rank-{rank}").write_text(told, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
