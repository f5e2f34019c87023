"""torch's own DistributedTest, from its wheel, over duetlink: `python -m tests.groups.torch_cases`.

torch starts fresh processes for each case, which takes longer than the cases do. Here three processes stay,
and each case has a store and directories of its own. A case that does not end in time costs its processes;
new ones go on with the next. Cases for GPUs, MPI and NCCL are left out, as torch leaves them out for such a
backend.

The decorators of torch's file ask for gloo; what runs is duetlink: `BACKEND` is changed after the import.
"""

from __future__ import annotations

import ast
import importlib.util
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import unittest
from collections.abc import Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.free_port import free_port

SIZE = int(os.environ.get("DUETLINK_RANKS", "3"))
CASE_S = 120.0
_START_S = 180.0

_NOT_FOR_US = (
    "no_gpu",
    "lt_x_gpu",
    "small_world",
    "cuda",
    "BACKEND != 'nccl'",
    "BACKEND != 'mpi'",
    "exact_world",
)

# What cannot say anything of this backend, by the beginning of its name, with the reason. Each was tried.
TIED = {
    "test_SyncBatchNorm_process_group": "it needs torchvision, and batch statistics on a GPU",
}

# Those that CI runs, one of each kind, in the processes of `torch_ranks.py`.
IN_CI = (
    "test_send_recv_with_tag",
    "test_irecv",
    "test_reduce_sum",
    "test_all_reduce_sum_async",
    "test_sparse_all_reduce_sum",
    "test_all_reduce_coalesced_sum",
    "test_scatter_complex",
    "test_gather",
    "test_all_gather_coalesced_simple",
    "test_DistributedDataParallelCPU",
    "test_grads_same_across_ranks_with_no_sync",
    "test_monitored_barrier_gloo_subgroup",
)


def cases() -> list[str]:
    """The names of all cases that a backend for the CPU has to do with."""
    spec = importlib.util.find_spec("torch.testing._internal.distributed")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "distributed_test.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (outer,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "DistributedTest")
    return [
        node.name
        for class_ in outer.body
        if isinstance(class_, ast.ClassDef)
        for node in class_.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if not any(word in ast.unparse(d) for d in node.decorator_list for word in _NOT_FOR_US)
    ]


class Cases:
    """torch's cases at one rank, in a process where its file has not been imported yet."""

    def __init__(self, rank: int, directory: str, port: int) -> None:
        """`port`: of torch's store, for the cases that begin a job anew."""
        os.environ.update(
            BACKEND="gloo",
            WORLD_SIZE=str(SIZE),
            TEMP_DIR=directory,
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            DUETLINK_ALLOW_PICKLE="1",
            OMP_NUM_THREADS="1",
        )
        from torch.testing._internal.distributed import distributed_test as theirs

        import duetlink.groups.torch

        for feature in ("ddp", "subgroup", "plugin"):
            theirs.DistTestCases.backend_feature[feature].add("duetlink")
        theirs.BACKEND = "duetlink"
        # torch's own refuses every backend whose name is not gloo
        theirs.dist.monitored_barrier = duetlink.groups.torch.monitored_barrier

        class Case(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
            pass

        self._rank = rank
        self._directory = Path(directory)
        self._theirs: Any = theirs
        self._case = Case

    def run(self, name: str) -> str:
        """What became of it: `right`, `skipped: ` and why, or a traceback."""
        import torch.distributed as dist
        from torch.testing._internal import common_utils

        place = self._directory / name
        for part in ("barrier", "test_dir", "init_dir"):
            (place / part).mkdir(parents=True, exist_ok=True)
        os.environ["TEMP_DIR"] = str(place)
        self._theirs.Barrier.barrier_id = 0
        case: Any = self._case(name)
        case.rank, case.file_name = self._rank, str(place / "store")
        try:
            limit_s = self._theirs.CUSTOM_PG_TIMEOUT.get(name, self._theirs.default_pg_timeout)
            dist.init_process_group(
                backend="duetlink",
                init_method=f"file://{case.file_name}",
                world_size=SIZE,
                rank=self._rank,
                timeout=timedelta(seconds=limit_s),
            )
            common_utils.set_rng_seed()
            case._barrier()
            getattr(case, name)()
            outcome = "right"
            case._barrier()  # as in torch's own driver: nobody leaves while another is at work
        except unittest.SkipTest as skip:
            outcome = f"skipped: {skip}"
        except SystemExit as ending:
            outcome = f"skipped: torch's exit code {ending.code}"
        except BaseException:
            outcome = traceback.format_exc()
        try:
            if dist.is_initialized():
                dist.destroy_process_group()
        except BaseException:
            outcome = traceback.format_exc() if outcome == "right" else outcome
        return outcome


def rank_main(rank: int, directory: str, port: int, commands: Connection) -> None:
    """Run the cases that come, and answer each with what became of it."""
    cases = Cases(rank, directory, port)
    commands.send("ready")
    while (name := commands.recv()) is not None:
        commands.send(cases.run(name))


class Ranks:
    """Three processes that run one case after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        port = free_port()
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(SIZE):
            here, there = context.Pipe()
            process = context.Process(
                target=rank_main, args=(rank, str(self._directory), port, there), daemon=True
            )
            process.start()
            self._pipes.append(here)
            self._processes.append(process)
        deadline = time.monotonic() + _START_S
        assert all(pipe.poll(deadline - time.monotonic()) and pipe.recv() == "ready" for pipe in self._pipes)

    def run(self, name: str) -> list[str]:
        """What became of the case, at each rank."""
        for pipe in self._pipes:
            pipe.send(name)
        deadline = time.monotonic() + CASE_S
        outcomes = []
        for pipe in self._pipes:
            try:
                answered = pipe.poll(max(0.0, deadline - time.monotonic()))
                outcomes.append(pipe.recv() if answered else f"no end within {CASE_S:g} s")
            except EOFError:
                outcomes.append("the process ended")
        if any("no end" in outcome or "ended" in outcome for outcome in outcomes):
            self.end()
            self._begin()
        return outcomes

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def main(names: Sequence[str]) -> int:
    """Run the cases, all by default; print one line for each. Returns how many failed."""
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        ranks = Ranks(Path(directory))
        try:
            for name in names or cases():
                if reason := next((why for tied, why in TIED.items() if name.startswith(tied)), ""):
                    print(f"{name:70} {'-':>7}  left out: {reason}", flush=True)
                    continue
                began = time.monotonic()
                outcomes = ranks.run(name)
                failed = [o for o in outcomes if o != "right" and not o.startswith("skipped")]
                skipped = [o for o in outcomes if o.startswith("skipped")]
                verdict = "WRONG" if failed else skipped[0][:90] if skipped else "right"
                wrong += bool(failed)
                print(f"{name:70} {time.monotonic() - began:5.1f} s  {verdict}", flush=True)
                if failed:
                    first = next(
                        (o for o in failed if "PeerLost" not in o), failed[0]
                    )  # not the others' echo
                    print("\n".join(first.splitlines()[-12:]), flush=True)
        finally:
            ranks.end()
    return wrong


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
