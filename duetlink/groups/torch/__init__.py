"""duetlink as a backend of torch.distributed: `import duetlink.groups.torch`, then

    torch.distributed.init_process_group("duetlink", init_method="duetlink://?size=3")

which shows the line, with a code, for the other ranks; they meet as the members of a group do, and trust
nobody but who knows the code. `store=GroupStore(group)` takes a group that is there already. With torch's own
`env://`, `tcp://` and `file://` the ranks find each other through torch's store, so they trust that store:
whoever can write to it can take a rank's place. What they then say to each other goes over duetlink's links,
encrypted and by whatever path there is. `hooks` has gradients in fewer bytes for DDP.
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
    """`torch.distributed.monitored_barrier`, which torch itself keeps to gloo, for a group of duetlink's.

    `timeout` is that of the group by default. Ranks that are not in the group return at once.

    Raises:
        GroupError: somebody has not come in time; it names the first one, or with `wait_all_ranks` all.
    """
    if group == _dist.GroupMember.NON_GROUP_MEMBER:
        return
    found = _dist.distributed_c10d._get_default_group() if group is None else group
    if not isinstance(found, _Face):
        raise ValueError("duetlink's monitored_barrier is for groups of duetlink's")
    found.monitored_barrier(timeout, wait_all_ranks)


_dist.Backend.register_backend("duetlink", create, extended_api=True, devices=["cpu"])
_guard(needs_consent, lambda: _faces)
_rendezvous.register()
