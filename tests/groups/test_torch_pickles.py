"""What torch.distributed unpickles, wherever it does: nothing of a rank, unless this side allowed it."""

from __future__ import annotations

import io
import os
import pickle
import re
import traceback
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.checkpoint._pg_transport import PGTransport
from torch.distributed.optim import ZeroRedundancyOptimizer

import duetlink.groups.torch
from duetlink.errors import GroupError

# Where torch 2.13 unpickles: each place was read, and is refused, or no group delivers what it reads.
REFUSED = {
    "distributed_c10d.py": 2,  # of object collectives
    "checkpoint/_pg_transport.py": 1,
    "optim/zero_redundancy_optimizer.py": 1,
    "_serialization.py": 4,  # torch's unpickler of weights, which runs nothing, or the one that is given
    "elastic/rendezvous/dynamic_rendezvous.py": 1,  # of the rendezvous, in a process that has no group
}
OTHERS = {
    "rpc/internal.py": 2,  # of RPC's own agents, whose ranks call each other's functions
    "checkpoint/default_planner.py": 2,  # of files of this machine, from here on
    "checkpoint/filesystem.py": 2,
    "checkpoint/format_utils.py": 2,
    "checkpoint/_experimental/checkpoint_reader.py": 2,
    "_tools/memory_tracker.py": 1,
    "flight_recorder/components/loader.py": 1,
}


def test_torch_unpickles_at_the_known_places_only() -> None:
    place = Path(dist.__file__).parent
    pattern = re.compile(r"pickle\.loads?\b|_unpickler\b|\bUnpickler\b|torch\.load\(")
    found: Counter[str] = Counter()
    for file in place.rglob("*.py"):
        text = re.sub(r'(?s)""".*?"""', "", file.read_text(encoding="utf-8"))
        lines = [line.partition("#")[0] for line in text.splitlines()]
        count = sum(bool(pattern.search(line)) for line in lines)
        if count:
            found[file.relative_to(place).as_posix()] = count
    assert dict(found) == REFUSED | OTHERS


class Code:
    """Unpickled, it leaves a file where it ran."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def of_code(group: Any, place: Path, rank: int, by: str) -> Any:
    """What rank 1 gives is code, to rank 0."""
    given = Code(place / f"ran by {by}")
    if by == "checkpoint":
        transport = PGTransport(group, timedelta(seconds=20), torch.device("cpu"))
        return transport.recv_checkpoint(1) if rank == 0 else transport.send_checkpoint([0], {"a": given})
    parameters = [torch.nn.Parameter(torch.ones(size)) for size in (3, 2)]  # one for each rank
    optimizer = ZeroRedundancyOptimizer(parameters, torch.optim.SGD, process_group=group, lr=0.1)
    if rank == 1:
        optimizer.optim.state[parameters[1]]["a"] = given
    return optimizer.consolidate_state_dict(to=0)


def unpickle_own(place: Path) -> None:
    """What a program reads by itself is read, beside a group that allows nothing."""
    assert pickle.loads(pickle.dumps(place)) == place
    saved = io.BytesIO()
    torch.save({"a": place}, saved)
    saved.seek(0)
    assert torch.load(saved, weights_only=False) == {"a": place}


def ranks(rank: int, place: Path) -> None:
    torch.set_num_threads(1)
    options = duetlink.groups.torch.Options
    try:
        store = f"file://{place}/store"
        dist.init_process_group("duetlink", init_method=store, rank=rank, world_size=2)
        whole = dist.distributed_c10d._get_default_group()
        for by in ("checkpoint", "optimizer"):
            if rank == 0:
                with pytest.raises(GroupError, match=r"allow it: .*Options\(allow_pickle=True\)"):
                    of_code(whole, place, rank, by)
                assert not (place / f"ran by {by}").exists()
            else:
                of_code(whole, place, rank, by)
        unpickle_own(place)
        trusting = dist.new_group(backend="duetlink", pg_options=options(allow_pickle=True))
        transport = PGTransport(trusting, timedelta(seconds=20), torch.device("cpu"))
        if rank == 0:
            assert transport.recv_checkpoint(1) == {"step": 7}
        else:
            transport.send_checkpoint([0], {"step": 7})
        of_code(trusting, place, rank, "optimizer")
        assert (place / "ran by optimizer").exists() or rank == 1
        dist.destroy_process_group()
        outcome = "right"
    except BaseException:
        outcome = traceback.format_exc()
    (place / f"outcome-{rank}").write_text(outcome, encoding="utf-8")


@pytest.mark.slow
def test_no_pickle_of_a_rank_runs_where_it_was_not_allowed(tmp_path: Path) -> None:
    multiprocessing.spawn(ranks, (tmp_path,), nprocs=2)
    assert (tmp_path / "outcome-0").read_text(encoding="utf-8") == "right"
    assert (tmp_path / "outcome-1").read_text(encoding="utf-8") == "right"
