"""duetlink as a backend of torch.distributed: `import duetlink.groups.torch`, then

    torch.distributed.init_process_group("duetlink", init_method="duetlink://?size=3")

This prints the line, with a code, that the other ranks have to run. The ranks meet as the members of a group
do, and only those that know the code take part. `store=GroupStore(group)` uses a group that exists already.
With torch's own `env://`, `tcp://` and `file://` the ranks find each other through torch's store, and trust
it: anyone who can write to it can take a rank's place. Messages between ranks then go over duetlink's links,
encrypted, by the best path. `hooks` has hooks for DDP that send gradients in fewer bytes.

**Job**: the ranks of one `init_process_group`, in this process a `TorchJob`, until `destroy_process_group`.
**Process group**: some ranks of a job (`dist.new_group`); each has its own `Mesh` and `Collectives`.
**Face**: the object that c10d, torch's C++ layer for communication, calls: a `ProcessGroup` or a `Backend`.
**Store**: torch's key-value store, by which ranks find each other.
**Keeper**: rank 0, which holds the keys of a `GroupStore`; the other ranks send it questions.
**Work**: torch's handle of an operation that runs, with `wait()` and a future.
**Handle**: a text that names one process to `reconfigure`.

Example: `dist.all_reduce(tensor)` on rank 1 of 3.

    torch calls Face.allreduce([tensor], options)            on the thread of the script
    TorchOperations.all_reduce(...)                          begins to copy tensors of CUDA devices to the CPU
    Face.start submits that operation                        to the loop thread, and returns a PendingWork
    Collectives.all_reduce(..., in_place=True)               exchanges messages, and writes into `tensor`
    PendingWork.wait()                                       returns, or raises OperationMismatch, PeerLost, …
"""

from datetime import timedelta as _timedelta
from typing import Any as _Any

import torch.distributed as _dist

from duetlink.groups.torch import rendezvous as _rendezvous
from duetlink.groups.torch.face import Face as _Face
from duetlink.groups.torch.face import faces as _faces
from duetlink.groups.torch.group_store import GroupStore
from duetlink.groups.torch.pickles import guard as _guard
from duetlink.groups.torch.process_group import Options, create, needs_consent
from duetlink.groups.torch.reconfiguring import Reconfigure

__all__ = ["GroupStore", "Options", "Reconfigure", "monitored_barrier"]


def monitored_barrier(
    group: _Any = None, timeout: _timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all ranks have called this, as `torch.distributed.monitored_barrier` does for gloo.

    `timeout` is that of the group by default. Ranks that are not in the group return at once.

    Raises:
        GroupError: a rank has not called this in time; the text names the first one, or with `wait_all_ranks`
            all of them.
        ValueError: the group is not one of duetlink's.
    """
    if group == _dist.GroupMember.NON_GROUP_MEMBER:
        return
    found = _dist.distributed_c10d._get_default_group() if group is None else group
    if not isinstance(found, _Face):
        raise ValueError("duetlink's monitored_barrier is for groups of the backend duetlink")
    found.monitored_barrier(timeout, wait_all_ranks)


_dist.Backend.register_backend("duetlink", create, extended_api=True, devices=["cpu", "cuda"])
_guard(needs_consent, lambda: _faces)
_rendezvous.register()
