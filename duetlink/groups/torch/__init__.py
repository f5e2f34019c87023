"""duetlink as a backend of torch.distributed: `import duetlink.groups.torch`, then

    torch.distributed.init_process_group("duetlink", init_method="duetlink://?size=3")

which shows the line, with a code, for the other ranks; they meet as the members of a group do, and trust
nobody but who knows the code. `store=GroupStore(group)` takes a group that is there already. With torch's own
`env://`, `tcp://` and `file://` the ranks find each other through torch's store, so they trust that store:
whoever can write to it can take a rank's place. What they then say to each other goes over duetlink's links,
encrypted and by whatever path there is. `hooks` has gradients in fewer bytes for DDP.
"""

import torch.distributed as _dist

from duetlink.groups.torch import rendezvous as _rendezvous
from duetlink.groups.torch.group_store import GroupStore
from duetlink.groups.torch.pickles import guard as _guard
from duetlink.groups.torch.process_group import Options, create, needs_consent

__all__ = ["GroupStore", "Options"]

_dist.Backend.register_backend("duetlink", create, extended_api=True, devices=["cpu"])
_guard(needs_consent)
_rendezvous.register()
